"""Swaps of a function's code that come and go in any order."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import flambeau as torch
from flambeau.compiler.follow.hooks import Hook
from flambeau.ops.interception import code_patching
from flambeau.ops.interception.code_patching import is_anything_swapped, swap_of

pytestmark = pytest.mark.usefixtures("plain_functions_of_a_module")


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

    assert not is_anything_swapped()
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


@pytest.mark.parametrize("function", [torch.zeros, torch.Tensor.cpu, torch.add])
@pytest.mark.parametrize("order", ["abAB", "abBA", "faAF", "afFA", "afAF"])
def test_signature_and_docstring_show_through_stubs(function, order):
    """`f` stands for the stub of a followed call, which lies above every swap."""
    def record(original, args, kwargs):
        return original(*args, **kwargs)

    assert not is_anything_swapped()
    signature, own = inspect.signature(function), code_patching.own_code(function)
    source = inspect.getsource(function)
    stubs = {name: swap_of(function, record) for name in "ab"}
    hook = Hook(function, record, record)
    act = {"a": stubs["a"].start, "A": stubs["a"].restore, "b": stubs["b"].start,
           "B": stubs["b"].restore, "f": hook.install, "F": hook.restore}
    try:
        for step in order:
            act[step]()
            assert inspect.signature(function) == signature
            assert inspect.getsource(function) == source
            assert code_patching.own_code(function) is own
            assert code_patching.own_function(function).__code__ is own
    finally:
        for step in "FAB":
            act[step]()
    assert function.__code__ is own and inspect.signature(function) == signature


PROGRAM = """
import flambeau as torch
from flambeau.ops.core.dispatch import run_unwritten as unwritten
from flambeau.ops.interception.code_patching import swap_of

calls = []

def record(original, args, kwargs):
    calls.append("trace")
    return original(*args, **kwargs)

assert torch.trace.__code__ is unwritten.__code__
below = swap_of(torch.trace, record)
below.start()
above = swap_of(torch.trace, record)
above.start()
below.restore()
x = torch.eye(3)
assert [torch.trace(x).item() for _ in range(3)] == [3, 3, 3]
assert len(calls) == 3
above.restore()
assert torch.trace(x).item() == 3
assert len(calls) == 3
"""


def test_writing_a_function_leaves_the_stubs_above_it() -> None:
    """An operator's function is written at its first call, which may come when a swap that saw it
    unwritten has gone from under another. In a process where nothing called it before."""
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
