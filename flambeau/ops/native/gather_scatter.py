"""Kernels for gather and scatter of large arrays; they return None or False if not applicable.

Indices must be in range, unless a function says that it checks them.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...native.runtime import eager_kernels as kernels
from ...native.runtime.fast_call import call_kernel
from ...native.runtime.thread_pool import POOL
from ...native.target.eager_costs import MAX_NUMPY_GATHER_ELEMENTS
from ...tensor.dtypes import FLOAT32, FLOAT64
from .route import native_route
from .transpose import put_in_order

Array = np.ndarray

_INT64 = np.dtype(np.int64)
_SUMS = frozenset((FLOAT32, FLOAT64, _INT64))
OPERATIONS: dict[np.ufunc, bool | str] = {
    np.add: True, np.multiply: "MUL", np.maximum: "MAXIMUM", np.minimum: "MINIMUM",
}
_BITS = {4: "int32", 8: "int64"}


def _match_row_strides(x: Array, index: Array, axis: int) -> tuple[int, int] | None:
    """Return the sizes before and after the axis if the shapes differ along it alone, else None."""
    if x.__class__ is not np.ndarray or index.__class__ is not np.ndarray:
        return None
    if index.size <= MAX_NUMPY_GATHER_ELEMENTS or index.ndim != x.ndim or index.dtype != _INT64:
        return None
    before, behind = x.shape[:axis], x.shape[axis + 1 :]
    if index.shape[:axis] != before or index.shape[axis + 1 :] != behind:
        return None
    return prod(before), prod(behind)


@native_route
def take(x: Array, axis: int, index: Array) -> Array | None:
    """Return elements of x by their indices along an axis."""
    x = put_in_order(x)
    strides, bits = _match_row_strides(x, index, axis), _BITS.get(x.itemsize)
    if strides is None or bits is None or not x.flags.c_contiguous:
        return None
    outer, inner = strides
    kernel = (kernels.TAKE_LAST if inner == 1 else kernels.TAKE_MIDDLE).address(bits)
    if kernel is None:
        return None
    numbers, y = np.ascontiguousarray(index), np.empty(index.shape, x.dtype)
    n, count = x.shape[axis], index.shape[axis]
    if inner == 1:
        call_kernel(kernel, index.size, x, numbers, y, outer, count, n)
    else:
        call_kernel(
            kernel, index.size, x, numbers, y, outer, count, inner, n * inner, count * inner
        )
    return y


def take_within(x: Array, axis: int, index: Array) -> Array | None:
    """`take` with unchecked indices: also None if an index is out of range.

    The kernel checks indices as it reads; a separate pass over them on one thread would take as
    long as the gather.
    """
    x = put_in_order(x)
    strides, bits = _match_row_strides(x, index, axis), _BITS.get(x.itemsize)
    if strides is None or bits is None or strides[1] != 1 or not (x.size and x.flags.c_contiguous):
        return None
    kernel = kernels.TAKE_LAST_CHECKED.address(bits)
    if kernel is None:
        return None
    rows, n, count = strides[0], x.shape[axis], index.shape[axis]
    numbers, y = np.ascontiguousarray(index), np.empty(index.shape, x.dtype)
    last, largest = np.array(n - 1, np.uint64), np.empty(rows, np.uint64)
    call_kernel(kernel, index.size, x, numbers, last, largest, y, rows, count, n)
    return y if np.maximum.reduce(largest) < n else None


def add_at(shape: tuple[int, ...], axis: int, index: Array, value: Array) -> Array | None:
    """Return zeros of a shape with values added at their indices along an axis, or None."""
    y = np.empty(shape, value.dtype)
    return y if put(y, axis, index, value, True, True) else None


def put(
    y: Array, axis: int, index: Array, value: Any, add: bool | str, fresh: bool = False
) -> bool:
    """Write values to y, or add them, by index along an axis; return False without a kernel.

    `add`: whether to add, or the name of another operation in OPERATIONS. `fresh`: treat y as
    zeros, ignoring its contents.
    """
    strides = _match_row_strides(y, index, axis)
    if strides is None or not y.flags.c_contiguous or value.dtype != y.dtype:
        return False
    kind = (y.dtype.name if y.dtype in _SUMS else None) if add else _BITS.get(y.itemsize)
    outer, inner = strides
    if kind is None or (inner == 1 and outer < 2 * POOL.threads()):
        return False
    clears = (True,) if fresh and inner == 1 else ()
    kernel = (kernels.PUT_LAST if inner == 1 else kernels.PUT_MIDDLE).address(kind, add, *clears)
    if kernel is None:
        return False
    numbers = np.ascontiguousarray(index)
    x = np.ascontiguousarray(np.broadcast_to(value, index.shape))
    n, count = y.shape[axis], index.shape[axis]
    if inner == 1:
        call_kernel(kernel, index.size, x, numbers, y, outer, count, n)
        return True
    if fresh:
        y.fill(0)
    threads = POOL.threads()
    blocks = next((b for b in range(threads, 4 * threads) if inner % b == 0), 1)
    call_kernel(
        kernel, index.size, x, numbers, y, outer, blocks, count, inner // blocks, inner, n * inner,
        count * inner,
    )
    return True
