"""Rows of large tables taken, added to and summed by number, in machine code; None without it."""

from __future__ import annotations

import numpy as np

from ...native.runtime.background_jit import KernelPolicy, request_kernel
from ...native.runtime.fast_call import call_kernel, call_on_threads
from ...native.runtime.kernel_builder import KernelBuilder
from ...native.runtime.thread_pool import POOL
from ...native.target.eager_costs import MAX_NUMPY_EMBEDDING_ELEMENTS
from ...tensor.dtypes import FLOATS

Array = np.ndarray

_INT64 = np.dtype(np.int64)

_TAKE_ROWS = KernelBuilder("embedding", "take_rows")
_ADD_ROWS = KernelBuilder("embedding", "add_rows")
_SUM_BAGS = KernelBuilder("embedding", "sum_bags")
_SUM_EVEN_BAGS = KernelBuilder("embedding", "sum_even_bags")
_MOST_OF_EVEN_BAGS = KernelBuilder("embedding", "most_of_even_bags")


def _request_kernel(builder: KernelBuilder, kind: np.dtype, *settings: bool) -> int | None:
    function = request_kernel(
        (builder, kind, *settings), lambda: builder.build(kind.name, *settings)
    )
    return None if function is None else function.address


def _fits(table: Array, numbers: Array) -> bool:
    """Whether every number is that of a row, and both lie as kernels read them."""
    return (
        table.__class__ is np.ndarray and table.ndim == 2 and table.dtype in FLOATS
        and table.flags.c_contiguous and numbers.dtype == _INT64 and numbers.flags.c_contiguous
        and KernelPolicy.allowed
        and bool(np.maximum.reduce(numbers.view(np.uint64), None, initial=0) < len(table))
    )


def take_rows(table: Array, numbers: Array) -> Array | None:
    """table[numbers], numbers of any shape."""
    if numbers.size * table.shape[-1] <= MAX_NUMPY_EMBEDDING_ELEMENTS or not _fits(table, numbers):
        return None
    kernel = _request_kernel(_TAKE_ROWS, table.dtype)
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
    kernel = _request_kernel(_ADD_ROWS, table.dtype)
    if kernel is None or not g.flags.c_contiguous:
        return False
    width = table.shape[1]
    blocks = _blocks(width)
    call_on_threads(kernel, g, numbers, table, numbers.size, blocks, width // blocks, width)
    return True


def _blocks(width: int) -> int:
    """Into how many blocks of columns the threads share a row."""
    threads = POOL.threads()
    return next((b for b in range(threads, 2 * threads) if width % b == 0), 1)


def _even(bags: Array, count: int) -> int:
    """How many numbers each bag has, if all have as many; else 0."""
    length = bags.size // max(count, 1)
    even = length * count == bags.size > 0 \
        and np.array_equal(bags[::length], np.arange(count)) \
        and np.array_equal(bags[length - 1 :: length], bags[::length])
    return length if even else 0


def bags_most(
    table: Array, numbers: Array, bags: Array, count: int
) -> tuple[Array, Array] | None:
    """The maxima of the rows in each of `count` bags, and the first row that has each."""
    if numbers.size * table.shape[-1] <= MAX_NUMPY_EMBEDDING_ELEMENTS or not _fits(table, numbers):
        return None
    width, length = table.shape[1], _even(bags, count)
    kernel = _request_kernel(_MOST_OF_EVEN_BAGS, table.dtype) if length else None
    if kernel is None:
        return None
    y, which = np.empty((count, width), table.dtype), np.empty((count, width), np.int64)
    call_on_threads(kernel, table, numbers, y, which, count, length, width)
    return y, which


def bags_summed(
    table: Array, numbers: Array, bags: Array, count: int, each: Array | None
) -> Array | None:
    """The sums of the rows in each of `count` bags; `bags`, ascending: that of each number.

    `each`: what to multiply each row by.
    """
    if numbers.size * table.shape[-1] <= MAX_NUMPY_EMBEDDING_ELEMENTS or not _fits(table, numbers):
        return None
    width, length = table.shape[1], _even(bags, count)
    by = () if each is None else (np.ascontiguousarray(each, table.dtype),)
    even = length > 0
    kernel = _request_kernel(_SUM_EVEN_BAGS if even else _SUM_BAGS, table.dtype, each is not None)
    if kernel is None:
        return None
    if even:
        y = np.empty((count, width), table.dtype)
        call_on_threads(kernel, table, numbers, *by, y, count, length, width)
        return y
    y, blocks = np.zeros((count, width), table.dtype), _blocks(width)
    call_on_threads(
        kernel,
        table,
        numbers,
        np.ascontiguousarray(bags),
        *by,
        y,
        numbers.size,
        blocks,
        width // blocks,
        width,
    )
    return y
