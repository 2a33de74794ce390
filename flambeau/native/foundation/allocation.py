"""New arrays, and PyTorch's errors where memory, or an int64, does not hold them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

_INT64 = np.iinfo(np.int64)  # counts bytes and elements


class OutOfMemory(RuntimeError, MemoryError):
    """The RuntimeError of PyTorch's allocator; NumPy and Python raise MemoryError."""


def allocate(shape: Sequence[int] | int, kind: np.dtype) -> np.ndarray:
    """Return a new array. RuntimeError if there is no memory for it."""
    try:
        return np.empty(shape, kind)
    except (MemoryError, ValueError) as error:
        raise explain_allocation(error, shape, kind) from None


def explain_allocation(error: Exception, shape: Sequence[int] | int, kind: np.dtype) -> Exception:
    """Return PyTorch's error for NumPy's `error` about an array of a shape and dtype, or `error` if
    the array is not too large.

    >>> str(explain_allocation(ValueError(), (2 ** 62, 2), np.dtype(np.float32)))
    'Storage size calculation overflowed with sizes=[4611686018427387904, 2]'
    """
    sizes = list(shape) if isinstance(shape, Sequence) else [shape]
    byte_count = math.prod(sizes) * kind.itemsize
    if byte_count > _INT64.max:
        return RuntimeError(f"Storage size calculation overflowed with sizes={sizes}")
    if not byte_count and math.prod(n for n in sizes if n) > _INT64.max:
        return RuntimeError("Stride calculation overflowed")
    return build_out_of_memory(byte_count) if isinstance(error, MemoryError) else error


def build_out_of_memory(byte_count: int) -> OutOfMemory:
    """Return the error for an array of so many bytes."""
    return OutOfMemory(
        "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: "
        f"you tried to allocate {byte_count} bytes. Error code 12 (Cannot allocate memory)"
    )


def check_countable(shape: Sequence[int], kind: np.dtype) -> None:
    """Raise RuntimeError if an int64 does not hold an array's elements, bytes or strides."""
    if math.prod(shape) > _INT64.max:
        raise RuntimeError("numel: integer multiplication overflow")
    error = explain_allocation(ValueError(), shape, kind)
    if isinstance(error, RuntimeError):
        raise error


def round_up_length(length: float) -> int:
    """Return a length rounded up; RuntimeError if an int64 does not hold it."""
    if not 0 <= length <= _INT64.max:
        raise RuntimeError("invalid size, possible overflow?")
    return math.ceil(length)
