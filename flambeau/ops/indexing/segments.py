"""Reductions of consecutive pieces of an axis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...tensor.tensor import Tensor
from ..core.axes import canonical_dim
from ..core.registry import composite
from ..pointwise.extrema import maximum, minimum
from ..view.join import stack

# What an empty segment gives where there is no initial value.
_NEUTRAL = {"max": -math.inf, "min": math.inf, "sum": 0.0, "prod": 1.0, "mean": 0.0}


@composite(expose=("torch",), aliases=("_segment_reduce",))
def segment_reduce(
    data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None
):  # fmt: skip
    """The "sum", "mean", "max", "min" or "prod" of pieces of an axis, by lengths or by offsets.

    `lengths` (*batch, n) and `offsets` (*batch, n + 1) have the axes of `data` up to `axis`.
    `initial` takes part in each reduction; without it an empty mean is NaN. RuntimeError where the
    lengths do not add up to the axis, unless `unsafe`.

    >>> torch.segment_reduce(torch.tensor([1., 2., 3.]), "sum", lengths=torch.tensor([2, 1]))
    tensor([3., 3.])
    """
    if reduce not in _NEUTRAL:
        raise RuntimeError(f"unsupported reduction given! {reduce}")
    if (lengths is None) == (offsets is None):
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    at = canonical_dim(axis, data._array.ndim)
    if lengths is None:
        bounds = offsets._array
    else:
        sizes = lengths._array
        _check_lengths(sizes, data._array.shape[at], unsafe)
        bounds = np.concatenate([np.zeros_like(sizes[..., :1]), np.cumsum(sizes, -1)], -1)
    start = _NEUTRAL[reduce] if initial is None else initial
    return _of_batch(data, bounds, reduce, start, initial is None)


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


def _of_batch(data: Tensor, bounds: Any, reduce: str, start: float, bare: bool) -> Tensor:
    if bounds.ndim > 1:
        rows = [_of_batch(data[i], bounds[i], reduce, start, bare) for i in range(len(bounds))]
        return stack(rows)
    pieces = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    return stack([_reduced(data[a:b], reduce, start, bare) for a, b in pieces])


def _reduced(piece: Tensor, reduce: str, start: float, bare: bool) -> Tensor:
    if not piece._array.shape[0]:
        value = math.nan if bare and reduce == "mean" else start
        return piece.new_full(piece.shape[1:], value)
    if reduce == "prod":
        return piece.prod(0) * start
    if reduce in ("sum", "mean"):
        total = piece.sum(0) + start
        return total / len(piece) if reduce == "mean" else total
    found, pick = (piece.amax(0), maximum) if reduce == "max" else (piece.amin(0), minimum)
    return pick(found, piece.new_full((), start))
