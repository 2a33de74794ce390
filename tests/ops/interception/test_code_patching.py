"""Swaps of a function's code that come and go in any order."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.ops.interception.code_patching import is_anything_swapped, swap_of


@pytest.mark.parametrize("function", [torch.Tensor.add_, torch.lerp], ids=["add_", "lerp"])
@pytest.mark.parametrize("order", ["abAab", "abBba", "abABab", "bBabAa"])
def test_each_swap_that_is_on_is_called(function, order):
    """Lower case starts a swap, upper case ends it; the latest one is outermost."""
    calls = []

    def recorder(name):
        def record(original, args, kwargs):
            calls.append(name)
            return original(*args, **kwargs)

        return record

    if is_anything_swapped():
        pytest.skip("something else wears stubs in this process")
    swaps = {name: swap_of(function, recorder(name)) for name in "ab"}
    on: list[str] = []
    arguments = [torch.ones(2), torch.ones(2), *([0.5] if function is torch.lerp else [])]
    try:
        for step in order:
            name = step.lower()
            if step == name and name not in on:
                on.append(name)
                swaps[name].start()
            elif step != name and name in on:
                on.remove(name)
                swaps[name].restore()
            calls.clear()
            function(*[a.clone() if isinstance(a, torch.Tensor) else a for a in arguments])
            assert calls == on[::-1], (step, on)
    finally:
        for swap in swaps.values():
            swap.restore()
    assert not is_anything_swapped()
