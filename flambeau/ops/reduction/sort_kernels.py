"""The order of elements along the last axis, with ties broken like PyTorch's algorithms.

Numbers are mapped to integers of the same order, which NumPy sorts. If PyTorch's algorithm does not
keep equal elements in order, rows with ties are processed by a compiled copy of it
(`native/kernels/sort.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...native.runtime import eager_kernels as kernels
from ...native.runtime.eager_kernels import EagerKernel
from ...native.runtime.fast_call import call_kernel
from ...native.target.eager_costs import (
    MAX_HEAP_ELEMENTS, MAX_INSERTION_SORT_LENGTH, MAX_KEYS_SORTED_WHOLE, MAX_SELECTED_TIE_ELEMENTS,
    MAX_SORTED_TIE_ELEMENTS,
)
from ..core.operator import Array
from ..native.gather_scatter import take

_NARROW = 1 << 31


def sort_small(x: Array, descending: bool) -> Array | None:
    """Return the order of rows that can be sorted without keys, else None.

    Covers short rows, whose order is stable in PyTorch too, and a few distinct elements; not NaN if
    it sorts first.
    """
    short = x.shape[-1] <= MAX_INSERTION_SORT_LENGTH
    if x.dtype.kind not in "biuf" or x.itemsize == 2 \
            or not (short or x.size <= MAX_KEYS_SORTED_WHOLE):
        return None
    turned = x if not descending else -x if x.dtype.kind == "f" else ~x
    indices = np.argsort(turned, -1, kind="stable" if short else None)
    if short and not (descending and x.dtype.kind == "f"):
        return indices
    result = _take_along_rows(turned, indices)
    if x.dtype.kind == "f" and (descending or not short) and not (result[..., -1] < np.inf).all():
        return None
    return indices if short or not (result[..., 1:] == result[..., :-1]).any() else None


def sort_distinct(x: Array, descending: bool) -> tuple[Array, Array] | None:
    """Sort a few elements along the last axis; return them and their indices. None if a row has
    ties or NaN, or for many elements."""
    if x.__class__ is not np.ndarray or not x.ndim or not 0 < x.size <= MAX_KEYS_SORTED_WHOLE:
        return None
    if x.dtype.kind not in "iuf" or x.itemsize == 2:
        return None
    indices = x.argsort(-1)
    result = _take_along_rows(x, indices)
    are_distinct = result[..., 1:] > result[..., :-1] if x.shape[-1] > 1 else result == result
    if not are_distinct.item(are_distinct.argmin()):
        return None
    return (result[..., ::-1], indices[..., ::-1]) if descending else (result, indices)


def map_to_keys(x: Array, descending: bool = False) -> Array:
    """Map x to int32 or int64 keys in its order or the reverse: ties stay ties, NaN greatest."""
    kind = x.dtype
    if kind.kind == "b" or (kind.kind in "iu" and kind.itemsize <= 2) or kind == np.int32:
        y = x.astype(np.int32)
    elif kind == np.int64 or kind == np.uint32:
        y = _narrow(x.astype(np.int64))
    elif kind == np.uint64:
        y = (x ^ np.uint64(1 << 63)).view(np.int64)
    else:
        y = _map_floats_to_integers(x)
    return ~y if descending else y


def _narrow(x: Array) -> Array:
    """Return int64 keys as int32 if their range allows it."""
    if not x.size:
        return x
    low, high = int(x.min()), int(x.max())
    return (x - low).astype(np.int32) if high - low < _NARROW else x


def _map_floats_to_integers(x: Array) -> Array:
    widened = x if x.dtype.char in "fd" else x.astype(np.float32)
    integer_type, bits = (np.int32, 31) if widened.itemsize == 4 else (np.int64, 63)
    y: Any = (widened + widened.dtype.type(0)).view(integer_type)  # -0 is 0
    sign = y >> integer_type(bits)
    sign &= np.iinfo(integer_type).max
    y ^= sign
    if x.size and np.isnan(widened.max()):
        y[np.isnan(widened)] = np.iinfo(integer_type).max
    return y


# --------------------------------------------------------------------------- algorithms of C++


_addresses: dict[tuple[EagerKernel, str], int] = {}


def _compile_now(builder: EagerKernel, kind: str = "int64") -> int:
    """Compile a kernel at its first use and wait for it: indices depend on the algorithm."""
    from ...native.jit.kernel_function import compile_kernel

    if (builder, kind) not in _addresses:
        _addresses[builder, kind] = compile_kernel(builder.build(kind)).address
    return _addresses[builder, kind]


def _count_splits(count: int) -> int:
    """Number of splits after which introsort and introselect switch to heaps."""
    return 2 * (max(count, 1).bit_length() - 1)


class _Rows:
    """Rows of keys and the indices of their elements, reordered together by the kernels."""

    def __init__(self, keys: Array) -> None:
        self.keys = keys.astype(np.int64)
        self.shape = keys.shape
        self.numbers = np.empty(self.shape, np.int64)
        self.numbers[:] = np.arange(self.shape[1])

    def by(self, builder: EagerKernel, *arguments: Any) -> None:
        cells = [np.array(a, np.int64) if isinstance(a, list) else a for a in arguments]
        kernel = _compile_now(builder)
        call_kernel(kernel, self.keys.size, self.keys, self.numbers, *cells, *self.shape)

    def sort(self, count: int) -> None:
        """Sort the first elements of each row."""
        if count > 1:
            self.by(kernels.INTROSORT, [count, _count_splits(count)])


def _sort_as_cpp(keys: Array) -> _Rows:
    rows = _Rows(keys)
    rows.sort(keys.shape[1])
    return rows


def _select_by_heap(keys: Array, count: int) -> tuple[Array, Array]:
    """Return the smallest keys of each row, sorted, and their indices."""
    result = np.empty((len(keys), count), keys.dtype)
    numbers, n = np.empty(result.shape, np.int64), keys.shape[1]
    address = _compile_now(kernels.SORT_LEAST, keys.dtype.name)
    call_kernel(address, keys.size, result, numbers, keys, np.array([n, count]), len(keys), count,
                n)
    return result, numbers


def _select_as_cpp(keys: Array, count: int) -> Array:
    n = keys.shape[1]
    if count * 64 <= n:
        return _select_by_heap(keys, count)[1]
    rows = _Rows(keys)
    rows.by(kernels.INTROSELECT, np.full(len(keys), count - 1), [_count_splits(n)], [n])
    rows.sort(count - 1)
    return rows.numbers[:, :count]


def _select_as_quickselect(keys: Array, rank: int) -> Array:
    rows = _Rows(keys)
    rows.by(kernels.QUICKSELECT, [rank, keys.shape[1]])
    return rows.numbers[:, rank]


# ------------------------------------------------------------------------------------- orders


def gather_elements(x: Array, where: Array) -> Array:
    """Gather elements by index along the last axis."""
    result = take(x, x.ndim - 1, where)
    return _take_along_rows(x, where) if result is None else result


def _take_along_rows(x: Array, indices: Array) -> Array:
    """np.take_along_axis along the last axis of contiguous arrays, using flat indices."""
    n = x.shape[-1]
    rows = x.size // n
    if rows == 1:
        return x.reshape(-1).take(indices)
    return x.take((indices.reshape(rows, -1)
                   + np.arange(0, x.size, n)[:, None]).reshape(indices.shape))


def _sort_stably(k: Array) -> tuple[Array, Array]:
    """Return rows of keys sorted, and the stable indices that sort them."""
    n = k.shape[1]
    if k.dtype == np.int32:  # packed with its index: faster
        joint = k.astype(np.int64)
        joint <<= 32
        joint |= np.arange(n)
        joint.sort(-1)
        numbers = joint & 0xFFFFFFFF
        joint >>= 32
        return joint, numbers
    numbers = np.argsort(k, -1)
    result = np.take_along_axis(k, numbers, -1)
    tied = (result[:, 1:] == result[:, :-1]).any(1)
    if tied.any():
        numbers[tied] = np.argsort(k[tied], -1, kind="stable")
    return result, numbers


def _has_many_ties(k: Array) -> bool:
    """Whether rows have more elements than there are integers between their extremes."""
    return k.size > 0 and int(k.max()) - int(k.min()) < k.shape[1] - 1


def sort_numbers(k: Array, stable: bool) -> Array:
    """Return the indices that sort each row of keys."""
    n = k.shape[1]
    if n <= MAX_INSERTION_SORT_LENGTH:
        return np.argsort(k, -1, kind="stable")
    result, numbers = _sort_stably(k)
    if not stable:
        tied = (result[:, 1:] == result[:, :-1]).any(1)
        if 0 < np.count_nonzero(tied) * n <= MAX_SORTED_TIE_ELEMENTS:
            numbers[tied] = _sort_as_cpp(k[tied]).numbers
    return numbers


def find_least(k: Array, count: int) -> Array:
    """Return the indices of the least elements of each row of keys, sorted."""
    n = k.shape[1]
    if count == 0:
        return np.zeros((len(k), 0), np.int64)
    if k.size <= MAX_SELECTED_TIE_ELEMENTS and (count * 64 <= n or _has_many_ties(k)):
        return _select_as_cpp(k, count)
    if count > n // 4 or k.size <= MAX_KEYS_SORTED_WHOLE:
        result, numbers = _sort_stably(k)
        result, numbers = result[:, : count + 1], numbers[:, :count]
        tied = (result[:, 1:] == result[:, :-1]).any(1)
    elif count <= MAX_HEAP_ELEMENTS:
        result, numbers = _select_by_heap(k, count + 1)
        tied, numbers = (result[:, 1:] == result[:, :-1]).any(1), numbers[:, :count]
    else:
        numbers, tied = _select_smallest(k, count)
    if 0 < np.count_nonzero(tied) * n <= MAX_SELECTED_TIE_ELEMENTS:
        numbers = numbers.copy()
        numbers[tied] = _select_as_cpp(k[tied], count)
    return numbers


def _select_smallest(k: Array, count: int) -> tuple[Array, Array]:
    """`find_least` for a few of many elements; also return the rows with ambiguous ties."""
    edge = np.partition(k, count - 1, -1)[:, count - 1 : count]
    chosen = k <= edge
    tied = np.count_nonzero(chosen, 1) != count
    for row in np.flatnonzero(tied):  # the first ones of those equal to the limit
        equal = np.flatnonzero(k[row] == edge[row])
        chosen[row] = k[row] < edge[row]
        chosen[row, equal[: count - np.count_nonzero(chosen[row])]] = True
    numbers = np.flatnonzero(chosen).reshape(len(k), count) % max(k.shape[1], 1)
    result = np.take_along_axis(k, numbers, 1)
    inner = np.argsort(result, -1, kind="stable")
    numbers, result = (np.take_along_axis(x, inner, 1) for x in (numbers, result))
    return numbers, tied | (result[:, 1:] == result[:, :-1]).any(1)


def rank_numbers(k: Array, rank: int, first: bool) -> Array:
    """Return the index of the element of a given rank in each row of keys.

    Among equal elements, `first` picks the one that a stable sort puts at the rank, else the one
    that PyTorch's quickselect returns.
    """
    if not first and k.size <= MAX_SELECTED_TIE_ELEMENTS and _has_many_ties(k):
        return _select_as_quickselect(k, rank)
    edge = np.partition(k, rank, -1)[:, rank : rank + 1]
    equal = k == edge
    ranks = equal.argmax(1)
    tied = np.count_nonzero(equal, 1) > 1
    if not tied.any():
        return ranks
    if not first and np.count_nonzero(tied) * k.shape[1] <= MAX_SELECTED_TIE_ELEMENTS:
        ranks[tied] = _select_as_quickselect(k[tied], rank)
        return ranks
    for row in np.flatnonzero(tied):
        before = np.count_nonzero(k[row] < edge[row])
        ranks[row] = np.flatnonzero(equal[row])[rank - before]
    return ranks


def find_commonest(k: Array) -> Array:
    """Return the last index of each row's most frequent key, the least if tied."""
    rows, n = k.shape
    exact = n > MAX_INSERTION_SORT_LENGTH and k.size <= MAX_SELECTED_TIE_ELEMENTS
    if exact and _has_many_ties(k):
        known = _sort_as_cpp(k)
        return known.numbers[np.arange(rows), _find_commonest(known.keys)[0]]
    result, numbers = _sort_stably(k)
    last, tied = _find_commonest(result)
    if exact and tied.any():
        numbers[tied] = _sort_as_cpp(k[tied]).numbers
    return numbers[np.arange(rows), last]


def _find_commonest(result: Array) -> tuple[Array, Array]:
    """The last index of the longest run in each sorted row, and whether several are longest."""
    rows, n = result.shape
    fresh = np.ones((rows, n), bool)
    fresh[:, 1:] = result[:, 1:] != result[:, :-1]
    starts = np.flatnonzero(fresh)
    lengths = np.diff(np.append(starts, rows * n))
    runs = np.searchsorted(starts, np.arange(rows) * n)  # each row's first run
    scores = lengths * starts.size + (starts.size - 1 - np.arange(starts.size))
    best = starts.size - 1 - np.maximum.reduceat(scores, runs) % starts.size
    return (starts + lengths - 1)[best] - np.arange(rows) * n, lengths[best] > 1
