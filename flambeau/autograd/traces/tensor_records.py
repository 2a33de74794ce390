"""What a profile notes of a tensor: numbers that identify it and its memory, and its layout.

An address may be reused once its object is dead, so objects also have numbers.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ...tensor.devices import device
from ...tensor.dtypes import bool_, complex128, dtype, float64, int64
from ...tensor.layout import get_strides, layout, strided
from ...tensor.tensor import Tensor


class TensorRecord(NamedTuple):
    """A tensor at the time of a call.

    `number`, `storage`: numbers of the tensor and of the array that owns its memory; the latter and
    `storage_address` are None for tensors without memory of their own.
    """

    address: int
    number: int
    storage: int | None
    storage_address: int | None
    dtype: dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    layout: layout
    device: device


_WRAPPED: dict[type, dtype] = {bool: bool_, int: int64, float: float64, complex: complex128}


def wrap_number(value: Any) -> Any:
    """Return the record of the tensor that PyTorch makes of an operand that is a number.

    It has no memory here. Other values stay as they are.
    """
    kind = _WRAPPED.get(value.__class__)
    return value if kind is None else TensorRecord(
        0, -1, None, None, kind, (), (), strided, device("cpu"))


class ModuleRecord(NamedTuple):
    """A module, and its own parameters and their gradients, at its first call of a profile."""

    module: Any
    parameters: tuple[tuple[str, TensorRecord, TensorRecord | None], ...]


class OptimizerRecord(NamedTuple):
    """An optimizer, and its parameters, their gradients and state, after its first step of a
    profile."""

    optimizer: Any
    parameters: tuple[tuple[TensorRecord, TensorRecord | None,
                            tuple[tuple[str, TensorRecord], ...]], ...]


def find_owner(array: np.ndarray) -> np.ndarray:
    """Return the array that owns an array's memory."""
    while array.base.__class__ is np.ndarray:
        array = array.base
    return array


class ObjectNumbers:
    """Numbers of objects, in the order in which they are first asked for."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], int, int]] = {}
        self._count = 0
        self._addresses: dict[int, int] = {}  # of tensors, by number
        self._reuses: dict[int, int] = {}  # how many tensors have had an address since the first
        self._empty: dict[int, int] = {}

    def number(self, value: Any) -> int:
        """Return the number of an object that weak references can refer to."""
        return self._look_up(value)[1]

    def number_memory(self, array: np.ndarray) -> tuple[int, int]:
        """Return number and address of the array that owns an array's memory."""
        return self._look_up(find_owner(array))[1:]

    def _look_up(self, value: Any) -> tuple[weakref.ref[Any], int, int]:
        known = self._known.get(id(value))
        if known is None or known[0]() is not value:
            is_array = isinstance(value, np.ndarray)
            address = value.__array_interface__["data"][0] if is_array else id(value)
            known = self._known[id(value)] = (weakref.ref(value), self._count, address)
            self._count += 1
        return known

    def record(self, x: Tensor) -> TensorRecord:
        """Return what a profile notes of a tensor."""
        array, storage, address = x._array, None, None
        strides: tuple[int, ...] = ()
        number, tensor_address = self._identify(x)
        if array.__class__ is np.ndarray:
            storage, address = self.number_memory(array) if array.nbytes \
                else (self._number_empty_memory(number), 0)
            strides = tuple(get_strides(array))
        return TensorRecord(tensor_address, number, storage, address, x.dtype, tuple(array.shape),
                            strides, x.layout, x.device)

    def _identify(self, x: Tensor) -> tuple[int, int]:
        """Return the number of a tensor and an address that no other tensor of the profile has.

        An address that a dead tensor had comes with a count in bits that addresses do not use.
        """
        number, address = self._look_up(x)[1:]
        if number not in self._addresses:
            count = self._reuses[address] = self._reuses.get(address, -1) + 1
            self._addresses[number] = address + (count << 48)
        return number, self._addresses[number]

    def _number_empty_memory(self, tensor: int) -> int:
        """Return the number of the memory of a tensor while it has no bytes."""
        if tensor not in self._empty:
            self._empty[tensor] = self._count
            self._count += 1
        return self._empty[tensor]

    def record_any(self, x: Any) -> TensorRecord | None:
        """Return the record of a tensor, or None of anything else."""
        return self.record(x) if isinstance(x, Tensor) else None

    def record_all(self, values: Iterable[Any]) -> tuple[Any, ...]:
        """Return the records of tensors and of lists of tensors, plain numbers, and None of other
        values."""
        return tuple(map(self._record_value, values))

    def _record_value(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self.record(value)
        if value.__class__ in (list, tuple) and value and isinstance(value[0], Tensor):
            return [self._record_value(v) for v in value]
        return value if isinstance(value, (bool, int, float, complex, TensorRecord)) else None
