"""Numbers that identify storages without keeping their memory alive.

A storage is the array that owns its memory. Each owner gets a number when someone asks for it; no
other memory gets that number later, unlike an address.
"""

from __future__ import annotations

import itertools
import weakref

import numpy as np


class _Reference(weakref.ref):
    """A weak reference to an owner of memory, with its number."""

    __slots__ = ("address", "number")

    address: int  # id() of the owner
    number: int


_BY_ADDRESS: dict[int, _Reference] = {}
_BY_NUMBER: dict[int, _Reference] = {}
_NUMBERS = itertools.count(1)


def find_storage_number(owner: np.ndarray) -> int:
    """Return the number of the memory that `owner` owns."""
    reference = _BY_ADDRESS.get(id(owner))
    if reference is None:
        reference = _Reference(owner, _forget)
        reference.address, reference.number = id(owner), next(_NUMBERS)
        _BY_ADDRESS[reference.address] = _BY_NUMBER[reference.number] = reference
    return reference.number


def is_expired(number: int) -> bool:
    """Return whether the memory with this number is gone."""
    return number not in _BY_NUMBER


def _forget(
    reference: _Reference, by_address: dict[int, _Reference] = _BY_ADDRESS,
    by_number: dict[int, _Reference] = _BY_NUMBER,
) -> None:
    """Drop an owner that is being freed. Defaults: globals are gone when Python shuts down."""
    del by_address[reference.address], by_number[reference.number]
