"""Ways to a tensor's memory that a program keeps: a step writes to the memory and reads it so."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch

# How the program gets the way, and what it reads there.
KEPT: dict[str, tuple[Callable[[torch.Tensor], Any], Callable[[Any], Any]]] = {
    "numpy": (lambda t: t.numpy(), lambda a: float(a[0])),
    "from_dlpack": (np.from_dlpack, lambda a: float(a[0])),
    "memoryview": (lambda t: memoryview(t.numpy()), lambda a: a[0]),
    "bytes of a storage": (lambda t: t.untyped_storage(), lambda s: s[3]),
    "tolist of a storage": (lambda t: t.untyped_storage(), lambda s: sum(s.tolist())),
    "copy of a storage": (lambda t: t.untyped_storage(), lambda s: s.clone()[3]),
    "typed storage": (lambda t: t.storage(), lambda s: s[0]),
}
_WAYS = {"proved": {"mode": "now", "follow": False}, "followed": {"mode": "now", "follow": True},
         "background": {}}


def _read_there(way: str, make: Callable, read: Callable, is_compiled: bool) -> list[Any]:
    t = torch.zeros(3)
    stored = make(t)

    def step(x: torch.Tensor) -> Any:
        t.add_(x)
        return read(stored)

    call = torch.compile(step, options=_WAYS[way]) if is_compiled else step
    return [call(torch.ones(3)) for _ in range(8)]


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("name", KEPT)
@pytest.mark.filterwarnings("ignore")
def test_memory_has_its_values_when_it_is_read(name: str, way: str) -> None:
    assert _read_there(way, *KEPT[name], True) == _read_there(way, *KEPT[name], False)


@pytest.mark.parametrize("of", ["tensor", "storage"])
@pytest.mark.filterwarnings("ignore")
def test_an_address_that_an_earlier_call_took(of: str) -> None:
    t, stored, positions = torch.zeros(3), {}, itertools.cycle("ab")

    def step(x: torch.Tensor) -> Any:
        next(positions)  # it is followed
        if not stored:
            owner = t if of == "tensor" else t.untyped_storage()
            stored["value"] = ctypes.c_float.from_address(owner.data_ptr())
        t.add_(x)
        return stored["value"].value

    compiled = torch.compile(step, options={"mode": "now", "follow": True})
    assert [compiled(torch.ones(3)) for _ in range(8)] == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.filterwarnings("ignore")
def test_a_tensor_may_grow_after_its_storage_was_looked_at(way: str) -> None:
    t = torch.zeros(4)

    def step(x: torch.Tensor) -> Any:
        return x * 2, t.untyped_storage().nbytes(), len(t.storage())

    compiled = torch.compile(step, options=_WAYS[way])
    for call in range(8):
        if call == 4:
            t.resize_(9)
        assert compiled(torch.ones(2))[1:] == ((16, 4) if call < 4 else (36, 9))
