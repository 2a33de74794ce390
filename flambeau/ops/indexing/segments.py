"""Reductions of consecutive segments of an axis."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...autograd.errors.missing_derivatives import record_without_derivative
from ...tensor.tensor import Tensor, wrap
from ..core.axes import canonicalize_dim
from ..core.operator import Array, Number
from ..core.promotion import compute_dtype
from ..core.registry import composite, opaque

# The result for an empty segment without an initial value.
_NEUTRAL = {"max": -math.inf, "min": math.inf, "sum": 0.0, "prod": 1.0, "mean": 0.0}
_UFUNCS = {"max": np.maximum, "min": np.minimum, "sum": np.add, "mean": np.add,
           "prod": np.multiply}


@composite(expose=("torch",), aliases=("_segment_reduce",))
def segment_reduce(
    data: Tensor, reduce: str, *, lengths: Tensor | None = None, indices: Tensor | None = None,
    offsets: Tensor | None = None, axis: int = 0, unsafe: bool = False,
    initial: Number | None = None
) -> Tensor:
    """Reduce segments of an axis by "sum", "mean", "max", "min" or "prod".

    `lengths` (*batch, n) or `offsets` (*batch, n + 1) give the segments; their leading axes are
    those of `data` before `axis`. `initial` takes part in each reduction; without it the mean of
    an empty segment is NaN. Raises RuntimeError if the lengths do not add up, unless `unsafe`.

    >>> torch.segment_reduce(torch.tensor([1., 2., 3.]), "sum", lengths=torch.tensor([2, 1]))
    tensor([3., 3.])
    """
    reduce = {"amax": "max", "amin": "min"}.get(reduce, reduce)
    if reduce not in _NEUTRAL:
        raise RuntimeError(f"unsupported reduction given! {reduce}")
    if (lengths is None) == (offsets is None):
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    at = canonicalize_dim(axis, data._array.ndim)
    bounds: Any
    if offsets is not None:
        bounds = offsets._array
    elif lengths is not None:
        sizes = lengths._array
        _check_lengths(sizes, data._array.shape[at], unsafe)
        bounds = np.concatenate([np.zeros_like(sizes[..., :1]), np.cumsum(sizes, -1)], -1)
    start = _NEUTRAL[reduce] if initial is None else initial
    empty = math.nan if reduce == "mean" and initial is None else start
    return _segment_reduce(data, wrap(bounds.astype(np.int64)), reduce, start, empty)


def _check_lengths(sizes: Any, length: int, unsafe: bool) -> None:
    if unsafe:
        return
    if sizes.size and sizes.min() < 0:
        raise RuntimeError("lengths contains negative value!")
    if (sizes.sum(-1) != length).any():
        raise RuntimeError(
            "segment_reduce(): Expected all rows of lengths along axis to sum to "
            "data.size(lengths.dim()-1) when !unsafe."
        )


def _iterate_rows(data: Array, bounds: Array) -> Iterator[tuple[tuple[int, ...], Array]]:
    """Yield each batch index and its segment bounds; segments lie along the next axis."""
    for row in np.ndindex(bounds.shape[:-1]):
        yield row, bounds[row]


@opaque(expose=(), second_order=False)
def _segment_reduce(data: Array, bounds: Array, reduce: str, start: float, empty: float) -> Array:
    """Reduce data[..., bounds[i]:bounds[i + 1]], starting from `start`.

    `empty` is the result for a segment without elements.
    """
    axis = bounds.ndim - 1
    shape = (*data.shape[:axis], bounds.shape[-1] - 1, *data.shape[axis + 1 :])
    inside = compute_dtype(data.dtype)
    new = np.full(shape, empty, inside)
    for row, ends in _iterate_rows(data, bounds):
        full = np.flatnonzero(ends[:-1] < ends[1:])
        if not full.size:
            continue
        values = data[row][: ends[-1]].astype(inside, copy=False)
        result = _UFUNCS[reduce].reduceat(values, ends[full], axis=0)
        result = _UFUNCS[reduce](result, np.asarray(start, inside))
        if reduce == "mean":
            result = result / _reshape_down(np.diff(ends)[full], result.ndim)
        new[row][full] = result
    return new.astype(data.dtype, copy=False)


@_segment_reduce.vjp("data")
def _spread(
    g: Tensor, y: Tensor, data: Tensor, bounds: Tensor, reduce: str, start: float
) -> Tensor:
    inside = compute_dtype(data._array.dtype)
    x, cotangent, result = (t._array.astype(inside) for t in (data, g, y))
    new = np.zeros(x.shape, inside)
    for row, ends in _iterate_rows(x, bounds._array):
        sizes = np.diff(ends)
        first, last = int(ends[0]), int(ends[-1])
        segment = np.repeat(np.arange(len(sizes)), sizes)
        here, along = x[row][first:last], cotangent[row][segment]
        if reduce == "mean":
            along = along / _reshape_down(sizes[segment], along.ndim)
        elif reduce in ("max", "min"):
            chosen = np.isnan(here) | (here == result[row][segment])
            counts = np.zeros(cotangent[row].shape, inside)
            np.add.at(counts, segment, chosen)
            along = np.where(chosen, along / np.maximum(counts[segment], 1), 0)
        elif reduce == "prod":
            along = along * _multiply_others(here, result[row], sizes, start)
        new[row][first:last] = along
    gradient = wrap(new.astype(data._array.dtype))
    return record_without_derivative("_segment_reduce_backward", gradient, (g, data))


@_segment_reduce.jvp
def _(
    data_t: Tensor, y: Tensor, data: Tensor, bounds: Tensor, reduce: str, start: float
) -> Tensor:
    weights = _spread(wrap(np.ones_like(y._array)), y, data, bounds, reduce, start)
    return _segment_reduce(weights * data_t, bounds, "sum", 0.0, 0.0)


def _reshape_down(values: Array, ndim: int) -> Array:
    """Reshape a vector to lie along the first of `ndim` axes."""
    return values.reshape(-1, *(1,) * (ndim - 1))


def _multiply_others(x: Array, products: Array, sizes: Array, start: float) -> Array:
    """For each element, the product of its segment's other elements, by division if it is exact."""
    segment = np.repeat(np.arange(len(sizes)), sizes)
    with np.errstate(all="ignore"):
        result = products[segment] / x
    first = np.concatenate([[0], np.cumsum(sizes)])
    for place in np.argwhere(np.isnan(x) | (x == 0)):
        i, rest = place[0], tuple(place[1:])
        begin, end = first[segment[i]], first[segment[i] + 1]
        others = np.delete(x[(slice(begin, end), *rest)], i - begin)
        result[tuple(place)] = start * np.prod(others)
    return result
