"""Engine: the collectives of a group, on contiguous NumPy arrays. Derived classes use a library."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..reduce_op import ReduceOp

Array = np.ndarray
_SUM, _AVG = ReduceOp.SUM, ReduceOp.AVG  # an Enum's members are slow to look up before 3.12


class Engine:
    """The members of one group, seen from one of them.

    Arrays are contiguous. Movements copy bytes; reductions get dtypes of `reduced_dtypes`. Calls
    block without the interpreter's lock where `releases_lock` says so, for at most `timeout_s`,
    and raise DistBackendError.
    """

    name = ""
    reduced_dtypes: frozenset[str] = frozenset()  # np.dtype.char of what it can reduce
    any_source = False  # whether a receiver may leave the sender open
    calls_are_fast = False  # whether a call may block the caller's thread: Ctrl-C ends it

    def __init__(self, rank: int, size: int, timeout_s: float) -> None:
        self.rank, self.size, self.timeout_s = rank, size, timeout_s

    def all_reduce(self, array: Array, op: ReduceOp) -> None:
        """Reduce in place, on all members."""
        raise NotImplementedError

    def reduce(self, array: Array, op: ReduceOp, root: int) -> None:
        """Reduce in place on the root; the others' arrays stay."""
        raise NotImplementedError

    def broadcast(self, array: Array, root: int) -> None:
        """Copy the root's array to all."""
        raise NotImplementedError

    def all_gather(self, output: Array, array: Array) -> None:
        """Fill `output`, a row for each member, with the members' arrays."""
        raise NotImplementedError

    def gather(self, output: Array | None, array: Array, root: int) -> None:
        """As `all_gather`, on the root alone."""
        raise NotImplementedError

    def scatter(self, array: Array, parts: Sequence[Array] | None, root: int) -> None:
        """Fill each member's array with its part of the root's."""
        raise NotImplementedError

    def all_to_all(self, outputs: Sequence[Array], inputs: Sequence[Array]) -> None:
        """Member i's inputs[j] becomes member j's outputs[i]."""
        raise NotImplementedError

    def barrier(self) -> None:
        """Return when all members have called it."""
        raise NotImplementedError

    def send(self, array: Array, peer: int, tag: int) -> None:
        """Send an array to a member."""
        raise NotImplementedError

    def receive(self, array: Array, peer: int | None, tag: int) -> int:
        """Receive an array from a member (None: any); returns who sent it."""
        raise NotImplementedError

    def close(self) -> None:
        """End the connections."""


class LoneEngine(Engine):
    """A group of one process: everything is there already."""

    name = "gloo"
    reduced_dtypes = frozenset("?bBhHiIlLqQefdgFD")
    calls_are_fast = True

    def __init__(self, name: str = "gloo") -> None:
        super().__init__(0, 1, 0.0)
        self.name = name

    def all_reduce(self, array: Array, op: ReduceOp) -> None: ...

    def reduce(self, array: Array, op: ReduceOp, root: int) -> None: ...

    def broadcast(self, array: Array, root: int) -> None: ...

    def all_gather(self, output: Array, array: Array) -> None:
        np.copyto(output.reshape(array.shape), array)

    def gather(self, output: Array | None, array: Array, root: int) -> None:
        assert output is not None
        self.all_gather(output, array)

    def scatter(self, array: Array, parts: Sequence[Array] | None, root: int) -> None:
        assert parts is not None
        np.copyto(array, parts[0])

    def all_to_all(self, outputs: Sequence[Array], inputs: Sequence[Array]) -> None:
        np.copyto(outputs[0], inputs[0])

    def barrier(self) -> None: ...


def address_of(array: Array) -> int:
    """Where an array's elements are; five times faster than `array.ctypes` if it is writable."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # read-only, empty, or of a dtype that is no buffer
        return array.ctypes.data


def bytes_of(array: Array) -> Array:
    """A contiguous array as bytes, which every engine can move."""
    return array.reshape(-1).view(np.uint8)


def _wider(dtype: np.dtype) -> np.dtype:
    """A dtype that engines can reduce and that holds every value of `dtype`."""
    if dtype.kind == "b":
        return np.dtype(np.uint8)
    if dtype.kind in "iu":
        return np.dtype(np.int32 if dtype.itemsize < 4 else np.int64)
    return np.dtype(np.float32)  # bfloat16, float16 and the float8 types


def reduced(
    array: Array, op: ReduceOp, engine: Engine, call: Callable[[Array, ReduceOp], Any]
) -> None:
    """Reduce an array in place by `call`, in a dtype that the engine has.

    bfloat16 and float8 are summed in float32, bool as uint8, complex numbers as pairs.
    """
    plain_op = _SUM if op is _AVG else op
    if array.dtype.kind == "c" and plain_op is _SUM:
        call(array.reshape(-1).view(array.real.dtype), plain_op)
    elif array.dtype.char in engine.reduced_dtypes:
        call(array, plain_op)
    else:
        wide = array.astype(_wider(array.dtype))
        call(wide, plain_op)
        with np.errstate(over="ignore", invalid="ignore"):
            np.copyto(array, wide, casting="unsafe")
    if op is _AVG and engine.size > 1:
        np.divide(array, engine.size, out=array, casting="unsafe")
