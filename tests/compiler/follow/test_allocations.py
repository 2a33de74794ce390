"""Functions that only allocate memory, in followed calls, like tensors that the step computes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

STEPS: dict[str, Callable[[Any], Any]] = {
    "new_empty": lambda x: (x * 2).new_empty((2,)).fill_(1),
    "empty_like": lambda x: torch.empty_like(x * 2).copy_(x),
    "empty_like of an argument": lambda x: torch.empty_like(x).copy_(x * 2),
    "new_empty of results": lambda x: torch.linalg.lstsq(x, x * 2, driver="gels"),
    "flip along no axis": lambda x: torch.flip(x * 2, dims=()),
}


@pytest.mark.parametrize("name", STEPS)
def test_allocations_are_followed(name: str) -> None:
    function, positions = STEPS[name], itertools.cycle("ab")

    def step(x: Any) -> Any:
        next(positions)
        return function(x)

    compiled = torch.compile(step, options={"mode": "now", "follow": True})
    generator = torch.Generator().manual_seed(0)
    for call in range(10):
        x = torch.randn(3, 3, generator=generator)
        if call > 6:
            x = x.t()
        torch.testing.assert_close(compiled(x), function(x), check_stride=True)
    assert "1 program" in compiled.explain() or "2 programs" in compiled.explain()
