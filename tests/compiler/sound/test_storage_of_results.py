"""A result that is part of a storage shows the whole storage, detached or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

PARTS: dict[str, Callable[[Any], Any]] = {
    "a row": lambda y: y[1],
    "a column": lambda y: y[:, 0],
    "a transposed part": lambda y: y[:, 0].t(),
    "flat": lambda y: y.view(-1)[2:6],
    "overlapping": lambda y: y.as_strided((2, 2), (1, 1)),
    "strided": lambda y: y.as_strided((2, 2), (1, 2)),
    "one of three": lambda y: y.chunk(3, 1)[1],
    "the real part": lambda y: torch.complex(y, y).real,
    "a complex row": lambda y: torch.complex(y, y)[1],
    "another dtype": lambda y: y.view(torch.int32)[1],
    "all of it": lambda y: y.transpose(0, 1),
}


def _describe(x: Any) -> tuple:
    whole = x.as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)
    return (x.tolist(), x.stride(), x.storage_offset(), x.untyped_storage().nbytes(),
            whole.tolist(), x._base is None)


@pytest.mark.parametrize("detached", [True, False])
@pytest.mark.parametrize("follow", [True, False])
@pytest.mark.parametrize("part", PARTS)
def test_parts_of_new_memory(part: str, follow: bool, detached: bool) -> None:
    log: list[int] = []

    def step(x: Any) -> Any:
        if follow:
            log.append(len(log))
        y = PARTS[part](x.clamp(-2, 2))
        return y.detach() if detached else y

    compiled = torch.compile(step, options={"mode": "now", "follow": follow}, backend="evaluate")
    for _ in range(5):
        x = torch.randn(2, 3, 2)
        assert _describe(compiled(x)) == _describe(step(x))
    assert ("is followed" in compiled.explain()) is follow
