"""Reads at an index whose results nobody uses: eager mode raises, and so must a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F

READS: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...]]] = {
    "index": (lambda x, i: x[i], (2,)),
    "gather": (lambda x, i: x.gather(1, i), (4, 1)),
    "embedding": (lambda x, i: F.embedding(i, x), (2,)),
    "index_select": (lambda x, i: torch.index_select(x, 0, i), (2,)),
    "take": (lambda x, i: x.take(i), (2,)),
    "scatter": (lambda x, i: x.scatter(1, i, 1.0), (4, 1)),
    "index_put": (lambda x, i: x.clone().index_put_((i,), x[0]), (2,)),
    "cross_entropy": (lambda x, i: F.cross_entropy(x, i), (4,)),
    "a computed index": (lambda x, i: x[i + x.argmax(0)[0] * 0], (2,)),
}


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("place", ["argument", "outside"])
def test_a_read_out_of_bounds_raises_although_nobody_uses_it(name: str, place: str) -> None:
    read, shape = READS[name]
    outside = torch.zeros(shape, dtype=torch.int64)
    written = torch.zeros(3)

    def step(x: Any, i: Any) -> Any:
        read(x, outside if place == "outside" else i)
        written.add_(1)
        return x * 2

    fast = torch.compile(step, mode="now", fullgraph=True)
    x, index = torch.randn(4, 3), torch.zeros(shape, dtype=torch.int64)
    for _ in range(5):
        fast(x, index)
    assert fast._programs
    (outside if place == "outside" else index).fill_(99)
    with pytest.raises((IndexError, RuntimeError)) as wanted:
        step(x, index)
    with pytest.raises((IndexError, RuntimeError)) as raised:
        fast(x, index)
    assert raised.type is wanted.type
    assert str(raised.value) == str(wanted.value)
    assert written.tolist() == [5.0] * 3
