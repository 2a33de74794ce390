"""Engine: the collectives of a group on contiguous NumPy arrays. Subclasses wrap a library."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..reduce_op import ReduceOp

Array = np.ndarray
_SUM, _AVG = ReduceOp.SUM, ReduceOp.AVG  # Enum members are slow to look up before Python 3.12


class Engine:
    """One process's view of its group.

    Arrays are contiguous. Data movement copies bytes; reductions accept only `reduced_dtypes`.
    Calls block for at most `timeout_s`, then raise DistBackendError. Engines with `calls_are_fast`
    release the GIL or poll meanwhile.
    """

    name = ""
    reduced_dtypes: frozenset[str] = frozenset()  # np.dtype.char of the dtypes it can reduce
    any_source = False  # whether receive() accepts any sender
    calls_are_fast = False  # calls may run on the caller's thread: Ctrl-C works

    def __init__(self, rank: int, size: int, timeout_s: float) -> None:
        self.rank, self.size, self.timeout_s = rank, size, timeout_s

    def all_reduce(self, array: Array, op: ReduceOp) -> None:
        """Reduce in place on all members."""
        raise NotImplementedError

    def reduce(self, array: Array, op: ReduceOp, root: int) -> None:
        """Reduce in place on the root; other members' arrays stay unchanged."""
        raise NotImplementedError

    def broadcast(self, array: Array, root: int) -> None:
        """Copy the root's array to all members."""
        raise NotImplementedError

    def all_gather(self, output: Array, array: Array) -> None:
        """Fill `output`, one row per member, with the members' arrays."""
        raise NotImplementedError

    def gather(self, output: Array | None, array: Array, root: int) -> None:
        """Gather as `all_gather` does, on the root only."""
        raise NotImplementedError

    def scatter(self, array: Array, parts: Sequence[Array] | None, root: int) -> None:
        """Fill each member's array with its part of the root's `parts`."""
        raise NotImplementedError

    def all_to_all(self, outputs: Sequence[Array], inputs: Sequence[Array]) -> None:
        """Copy member i's inputs[j] to member j's outputs[i]."""
        raise NotImplementedError

    def barrier(self) -> None:
        """Return when all members have called it."""
        raise NotImplementedError

    def send(self, array: Array, peer: int, tag: int) -> None:
        """Send an array to a member."""
        raise NotImplementedError

    def receive(self, array: Array, peer: int | None, tag: int) -> int:
        """Receive an array from a member (None: any); return the sender's rank."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the connections."""


class LoneEngine(Engine):
    """The engine of a group of one process, which needs no communication."""

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
    """Return the address of an array's elements: 5x faster than `array.ctypes` if writable."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # read-only, empty, or without buffer support
        return array.ctypes.data


def view_as_bytes(array: Array) -> Array:
    """View a contiguous array as bytes, which every engine can move."""
    return array.reshape(-1).view(np.uint8)


def _widen(dtype: np.dtype) -> np.dtype:
    """Return a dtype that engines can reduce and that holds every value of `dtype`."""
    if dtype.kind == "b":
        return np.dtype(np.uint8)
    if dtype.kind in "iu":
        return np.dtype(np.int32 if dtype.itemsize < 4 else np.int64)
    return np.dtype(np.float32)  # bfloat16, float16 and the float8 types


def reduce_array(
    array: Array, op: ReduceOp, engine: Engine, call: Callable[[Array, ReduceOp], Any]
) -> None:
    """Reduce an array in place with `call`, in a dtype that the engine supports.

    bfloat16 and float8 are summed in float32, bool as uint8, complex numbers as pairs.
    """
    plain_op = _SUM if op is _AVG else op
    if array.dtype.kind == "c" and plain_op is _SUM:
        call(array.reshape(-1).view(array.real.dtype), plain_op)
    elif array.dtype.char in engine.reduced_dtypes:
        call(array, plain_op)
    else:
        widened = array.astype(_widen(array.dtype))
        call(widened, plain_op)
        with np.errstate(over="ignore", invalid="ignore"):
            np.copyto(array, widened, casting="unsafe")
    if op is _AVG and engine.size > 1:
        np.divide(array, engine.size, out=array, casting="unsafe")
