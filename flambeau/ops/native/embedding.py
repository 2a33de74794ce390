"""Rows of large tables taken, added to and summed by number, in machine code; None without it."""

from __future__ import annotations

import numpy as np

from ...native.runtime import eager_kernels as kernels
from ...native.runtime.background_jit import KernelPolicy
from ...native.runtime.fast_call import call_kernel, call_on_threads
from ...native.runtime.thread_pool import POOL
from ...native.target.eager_costs import MAX_NUMPY_EMBEDDING_ELEMENTS
from ...tensor.dtypes import FLOATS

Array = np.ndarray

_INT64 = np.dtype(np.int64)


def _fits(table: Array, numbers: Array) -> bool:
    """Whether every index is in range, and both arrays are laid out as kernels read them."""
    return (
        table.__class__ is np.ndarray and table.ndim == 2 and table.dtype in FLOATS
        and table.flags.c_contiguous and numbers.dtype == _INT64 and numbers.flags.c_contiguous
        and KernelPolicy.allowed
        and bool(np.maximum.reduce(numbers.view(np.uint64), None, initial=0) < len(table))
    )


def take_rows(table: Array, numbers: Array) -> Array | None:
    """Return table[numbers], for numbers of any shape."""
    if numbers.size * table.shape[-1] <= MAX_NUMPY_EMBEDDING_ELEMENTS or not _fits(table, numbers):
        return None
    kernel = kernels.TAKE_ROWS.address(table.dtype)
    if kernel is None:
        return None
    width = table.shape[1]
    y = np.empty((*numbers.shape, width), table.dtype)
    call_kernel(kernel, y.size, table, numbers, y, numbers.size, width)
    return y


def add_to_rows(table: Array, numbers: Array, g: Array) -> bool:
    """table[numbers] += g, in place, numbers that occur several times adding up; or False."""
    if g.size <= MAX_NUMPY_EMBEDDING_ELEMENTS or g.dtype != table.dtype \
            or not _fits(table, numbers):
        return False
    kernel = kernels.ADD_ROWS.address(table.dtype)
    if kernel is None or not g.flags.c_contiguous:
        return False
    width = table.shape[1]
    blocks = _count_blocks(width)
    call_on_threads(kernel, g, numbers, table, numbers.size, blocks, width // blocks, width)
    return True


def _count_blocks(width: int) -> int:
    """Into how many blocks of columns the threads share a row."""
    threads = POOL.threads()
    return next((b for b in range(threads, 2 * threads) if width % b == 0), 1)


def _find_even_bag_length(bags: Array, count: int) -> int:
    """How many numbers each bag has, if all have as many; else 0."""
    length = bags.size // max(count, 1)
    even = length * count == bags.size > 0 \
        and np.array_equal(bags[::length], np.arange(count)) \
        and np.array_equal(bags[length - 1 :: length], bags[::length])
    return length if even else 0


def find_bag_maxima(
    table: Array, numbers: Array, bags: Array, count: int
) -> tuple[Array, Array] | None:
    """Return the maxima of the rows in each of `count` bags, and the first row with each."""
    if numbers.size * table.shape[-1] <= MAX_NUMPY_EMBEDDING_ELEMENTS or not _fits(table, numbers):
        return None
    width, length = table.shape[1], _find_even_bag_length(bags, count)
    kernel = kernels.EVEN_BAG_MAXIMA.address(table.dtype) if length else None
    if kernel is None:
        return None
    y, argmax = np.empty((count, width), table.dtype), np.empty((count, width), np.int64)
    call_on_threads(kernel, table, numbers, y, argmax, count, length, width)
    return y, argmax


def sum_bags(
    table: Array, numbers: Array, bags: Array, count: int, weights: Array | None
) -> Array | None:
    """Sum the rows in each of `count` bags; `bags`, ascending, gives the bag of each number.

    `weights`: a factor for each row.
    """
    if numbers.size * table.shape[-1] <= MAX_NUMPY_EMBEDDING_ELEMENTS or not _fits(table, numbers):
        return None
    width, length = table.shape[1], _find_even_bag_length(bags, count)
    by = () if weights is None else (np.ascontiguousarray(weights, table.dtype),)
    even = length > 0
    kernel = (kernels.SUM_EVEN_BAGS if even else kernels.SUM_BAGS).address(
        table.dtype, weights is not None)
    if kernel is None:
        return None
    if even:
        y = np.empty((count, width), table.dtype)
        call_on_threads(kernel, table, numbers, *by, y, count, length, width)
        return y
    y, blocks = np.zeros((count, width), table.dtype), _count_blocks(width)
    call_on_threads(
        kernel, table, numbers, np.ascontiguousarray(bags), *by, y, numbers.size, blocks,
        width // blocks, width,
    )
    return y
