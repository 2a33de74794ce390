"""embedding_bag: sums, means and maxima of bags of rows of a table, without a copy of the rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...native.foundation.public_names import class_of
from ...native.foundation.user_frames import warn
from ...native.target.eager_costs import MAX_PADDED_BAG_RATIO
from ...tensor.tensor import Tensor, wrap
from ..core.arguments.checks import require_int
from ..core.operator import PUBLIC, Array, publish
from ..core.output_layout import Layout
from ..core.promotion import compute_dtype
from ..core.registry import composite, opaque
from ..core.sample_inputs import Rng, Sample
from ..creation.sequences import arange
from ..native.embedding import find_bag_maxima, sum_bags
from .embedding import check_indices, embedding_dense_backward, embedding_renorm_
from .embedding import rows_of as embedding_rows

SUM, MEAN, MAX = range(3)
_MODES: dict[Any, int] = {"sum": SUM, "mean": MEAN, "max": MAX}


def _samples(rng: Rng) -> Iterator[Sample]:
    for mode in (SUM, MEAN, MAX):
        yield (rng.normal(size=(6, 3)), np.array([1, 2, 4, 5, 4]), np.array([0, 2, 2]), mode), {}
    weights = rng.normal(size=5)
    yield (rng.normal(size=(6, 3)), np.array([1, 2, 4, 5, 4]), np.array([0, 3]), SUM, weights), {}


def _reference(
    weight: np.ndarray, indices: np.ndarray, offsets: np.ndarray, mode: int,
    weights: np.ndarray | None = None
) -> np.ndarray:
    bounds = [*offsets, len(indices)]
    rows = weight[indices] if weights is None else weight[indices] * weights[:, None]
    reduce = (np.sum, np.mean, np.max)[mode]
    return np.stack([
        reduce(rows[a:b], 0) if b > a else np.zeros(weight.shape[1])
        for a, b in itertools.pairwise(bounds)
    ])


def number_bags(count: int, offsets: Array) -> Array:
    """Return the number of the bag of each of `count` indices."""
    bounds = np.append(offsets, count)
    return np.repeat(np.arange(offsets.size), np.diff(bounds))


def _check_bags(weight: Array, indices: Array, offsets: Array, weights: Array | None,
                adds: bool) -> None:
    check_indices(indices, weight.shape[0], "embedding_bag", adds and weight.dtype != np.float64)
    if offsets.size:
        if offsets[0]:
            raise RuntimeError(
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start "
                f"from position 0. However, got {offsets[0]}"
            )
        if offsets[-1] > indices.size:
            raise RuntimeError(
                f"offsets[-1] can not be greater than input's length({indices.size}) but got "
                f"offsets[-1] of {offsets[-1]}"
            )
    if weights is not None and weights.dtype != weight.dtype:
        raise RuntimeError(
            f"Expected tensor for argument #1 'weight' to have the same type as tensor for "
            f"argument #2 'per_sample_weights'; but {weight.dtype} does not equal {weights.dtype} "
            "(while checking arguments for embedding_bag)"
        )


@opaque(layout=Layout.FREE,
        name="_embedding_bag_rows", node="EmbeddingBagBackward0", expose=(), samples=_samples,
        ref=_reference, constant_outputs=(1,))
def reduced_bags(
    weight: Array, indices: Array, offsets: Array, mode: int, each: Array | None = None,
    scale_grad_by_freq: bool = False, padding_idx: int = -1, sparse: bool = False
) -> tuple[Array, Array]:
    """Return (the bags' reduced rows, the index of each maximum).

    Indices of maxima are -1 for empty bags, and everywhere in other modes than max.
    """
    _check_bags(weight, indices, offsets, each, mode != MAX and padding_idx < 0)
    bags = number_bags(indices.size, offsets)
    if padding_idx >= 0:
        valid = indices != padding_idx
        indices, bags = indices[valid], bags[valid]
        each = None if each is None else each[valid]
    if mode == MAX:
        return _reduce_to_maxima(weight, indices, bags, offsets.size)
    y = _add_bags(weight, indices, bags, offsets.size, each)
    if mode == MEAN:
        counts = np.bincount(bags, minlength=offsets.size)
        y /= np.maximum(counts, 1)[:, None].astype(y.dtype)
    return y.astype(weight.dtype, copy=False), np.broadcast_to(np.int64(-1), y.shape)


def _add_bags(weight: Array, indices: Array, bags: Array, count: int,
              weights: Array | None) -> Array:
    """Return the sum of the rows of each of `count` bags."""
    if indices.size and bags.__class__ is np.ndarray:
        y = sum_bags(weight, indices, bags, count, weights)
        if y is not None:
            return y
    inner_dtype = compute_dtype(weight.dtype)
    result = np.zeros((count, weight.shape[1]), inner_dtype)
    if indices.size:
        rows = weight.take(indices, 0).astype(inner_dtype, copy=False)
        if weights is not None:
            rows *= weights.astype(inner_dtype, copy=False)[:, None]
        starts = _find_starts(bags)
        result[bags[starts]] = np.add.reduceat(rows, starts, 0)
    return result


def _reduce_to_maxima(
    weight: Array, indices: Array, bags: Array, count: int
) -> tuple[Array, Array]:
    """Return the maxima of the rows of each of `count` bags, and the index of each maximum."""
    if bags.__class__ is np.ndarray:
        maxima = find_bag_maxima(weight, indices, bags, count)
        if maxima is not None:
            return maxima
    result = np.zeros((count, weight.shape[1]), compute_dtype(weight.dtype))
    argmax = np.full(result.shape, -1, np.int64)
    if indices.size:
        rows = weight.take(indices, 0).astype(result.dtype, copy=False)
        starts = _find_starts(bags)
        filled = bags[starts]
        result[filled], argmax[filled] = _find_maxima(rows, starts, indices)
    return result.astype(weight.dtype, copy=False), argmax


def _find_starts(bags: Array) -> Array:
    """Return where each run of equal bag numbers starts."""
    return np.flatnonzero(np.r_[True, bags[1:] != bags[:-1]])


def _find_maxima(rows: Array, starts: Array, indices: Array) -> tuple[Array, Array]:
    """Return the maxima of runs of rows, and the table's index of the first row that has each."""
    counts = np.diff(np.append(starts, len(rows)))
    if counts.max() * len(starts) <= MAX_PADDED_BAG_RATIO * len(rows):
        return _find_maxima_by_position(rows, starts, counts, indices)
    largest = np.maximum.reduceat(rows, starts, 0)
    repeated = np.repeat(largest, counts, 0)
    is_maximum = (rows == repeated) | np.isnan(rows)
    positions = np.where(is_maximum, np.arange(len(rows))[:, None], len(rows))
    return largest, indices[np.minimum.reduceat(positions, starts, 0)]


def _find_maxima_by_position(
    rows: Array, starts: Array, counts: Array, indices: Array
) -> tuple[Array, Array]:
    """Compute `_find_maxima` for short runs: the first row of each, then each second row, etc."""
    largest = rows[starts]
    argmax = np.repeat(indices[starts][:, None], rows.shape[1], 1)
    for k in range(1, counts.max()):
        longer = slice(None) if k < counts.min() else np.flatnonzero(counts > k)
        positions = starts[longer] + k
        rows_at_k, stored = rows[positions], largest[longer]
        is_larger = ~(rows_at_k <= stored) & ~np.isnan(stored)
        largest[longer] = np.where(is_larger, rows_at_k, stored)
        argmax[longer] = np.where(is_larger, indices[positions][:, None], argmax[longer])
    return largest, argmax


@reduced_bags.vjp("weight")
def _(
    gs: tuple[Tensor, None], ys: tuple[Tensor, ...], indices: Tensor, offsets: Tensor, mode: int,
    each: Tensor | None, weight_shape: tuple[int, ...], scale_grad_by_freq: bool, padding_idx: int,
    sparse: bool
) -> Tensor:
    if mode == MAX:
        return _max_adjoint(gs[0], ys[1], weight_shape[0])
    spread = _spread(gs[0], indices, offsets, mode, padding_idx)
    if each is not None:
        spread = spread * each.unsqueeze(1)
    if sparse:
        if scale_grad_by_freq:
            raise RuntimeError(
                "embedding_backward: scale_grad_by_freq not supported with sparse gradients")
        scatter_rows = PUBLIC["sparse"]["scatter_rows"]
        return scatter_rows(spread, indices._array, weight_shape[0], padding_idx)
    return embedding_dense_backward(
        spread, indices, weight_shape[0], padding_idx, scale_grad_by_freq
    )


@reduced_bags.vjp("each")
def _(
    gs: tuple[Tensor, None], weight: Tensor, indices: Tensor, offsets: Tensor, mode: int,
    padding_idx: int
) -> Tensor:
    spread = _spread(gs[0], indices, offsets, mode, padding_idx)
    y = (spread * embedding_rows(weight, indices)).sum(1)
    if padding_idx >= 0:
        y = y.masked_fill(indices == padding_idx, 0)
    return y


def _count_bag_rows(bags: Array, indices: Array, offsets: Array, padding_idx: int) -> Array:
    """Return, as a column, the number of rows in the bag of each index: at least 1, no padding."""
    unpadded = bags[indices != padding_idx]
    counts = np.maximum(np.bincount(unpadded, minlength=offsets.size), 1)
    return counts[bags][:, None]


@opaque(linear_in="g", layout=Layout.FREE, name="_embedding_bag_spread", expose=())
def _spread(g: Array, indices: Array, offsets: Array, mode: int, padding_idx: int) -> Array:
    """Return each index's part of the cotangent of its bag."""
    bags = number_bags(indices.size, offsets)
    y = g.take(bags, 0)
    if mode == MEAN:
        y = y / _count_bag_rows(bags, indices, offsets, padding_idx).astype(compute_dtype(g.dtype))
    return y.astype(g.dtype, copy=False)


@_spread.vjp("g")
def _(
    gg: Tensor, indices: Tensor, offsets: Tensor, mode: int, padding_idx: int,
    g_shape: tuple[int, ...]
) -> Tensor:
    return _sum_over_bags(gg, indices, offsets, mode, padding_idx, g_shape[0])


@opaque(linear_in="g", layout=Layout.FREE, name="_embedding_bag_gather", expose=())
def _sum_over_bags(
    g: Array, indices: Array, offsets: Array, mode: Any, padding_idx: Any, count: Any
) -> Array:
    """Sum the rows of indices over their bags: the transpose of `_spread`."""
    bags = number_bags(indices.size, offsets)
    result = np.zeros((count, g.shape[1]), compute_dtype(g.dtype))
    if mode == MEAN:
        g = g / _count_bag_rows(bags, indices, offsets, padding_idx).astype(result.dtype)
    np.add.at(result, bags, g)
    return result.astype(g.dtype, copy=False)


@_sum_over_bags.vjp("g")
def _(gg: Tensor, indices: Tensor, offsets: Tensor, mode: Any, padding_idx: Any) -> Tensor:
    return _spread(gg, indices, offsets, mode, padding_idx)


@opaque(linear_in="g", layout=Layout.FREE, name="_embedding_bag_max_rows", expose=())
def _max_adjoint(g: Array, argmax: Array, rows: int) -> Array:
    """Return the table's cotangent: that of each maximum, at the row that had it."""
    result = np.zeros((rows, g.shape[1]), compute_dtype(g.dtype))
    bag, column = np.nonzero(argmax >= 0)
    np.add.at(result, (argmax[bag, column], column), g[bag, column])
    return result.astype(g.dtype, copy=False)


@_max_adjoint.vjp("g")
def _(gg: Tensor, argmax: Tensor) -> Tensor:
    return gg.gather(0, argmax.clamp(min=0)).masked_fill(argmax < 0, 0)


@composite(name="torch.embedding_bag", expose=(), explains=True)
def _native(
    weight: Tensor, indices: Tensor, offsets: Tensor | None, scale_grad_by_freq: bool = False,
    mode: int | str = 0, sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Reduce bags: return (reduced rows, the bag of each index, bag sizes, indices of maxima).

    mode: 0 sum, 1 mean, 2 max.

    >>> table = torch.tensor([[1., 2.], [3., 4.]])
    >>> torch.embedding_bag(table, torch.tensor([0, 1, 1]), torch.tensor([0, 2]))[0]
    tensor([[4., 6.],
            [3., 4.]])
    """
    y, argmax, offsets, padding = _reduce(
        weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
        include_last_offset, padding_idx,
    )
    bags = number_bags(indices._array.size, offsets._array)
    valid = bags if padding < 0 else bags[indices._array != padding]
    sizes = np.bincount(valid, minlength=offsets._array.size)
    return y, wrap(bags), wrap(sizes), argmax


def _reduce(
    weight: Tensor, indices: Tensor, offsets: Tensor | None, scale_grad_by_freq: bool,
    mode: int | str, sparse: bool, weights: Tensor | None, include_last_offset: bool,
    padding_idx: int | None
) -> tuple[Tensor, Tensor, Any, int]:
    """Return (reduced bags, indices of maxima, starts of bags, the padding index or -1)."""
    if include_last_offset:
        assert offsets is not None
        if not offsets._array.size:
            raise RuntimeError("include_last_offset: number of offsets should be at least 1")
        offsets = offsets[:-1]
        if not offsets._array.size:
            indices = indices[:0]  # no bag holds them
    rows = weight._array.shape[0]
    padding = -1 if padding_idx is None else padding_idx
    if padding_idx is not None:
        require_int("embedding_bag", "padding_idx", padding_idx, 9)
        if not -rows <= padding < rows:
            raise RuntimeError(
                f"padding_idx must be within the number of embeddings, -{rows} through "
                f"{rows - 1}, but got {padding_idx}"
            )
        padding += rows if padding < 0 else 0
    y, argmax = reduced_bags(
        weight, indices, offsets, mode, weights, scale_grad_by_freq, padding, sparse)
    return y, argmax, offsets, padding


publish(_native, ("embedding_bag",), ("torch",))


@composite(expose=("nn.functional",), explains=True)
def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None,
    norm_type: float = 2, scale_grad_by_freq: bool = False, mode: int | str = "mean",
    sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None
) -> Any:
    """Compute the sum, mean or max of the rows of `weight` in each bag of indices.

    input (bags, n), or (n,) with `offsets` giving the start of each bag: result (bags, width).
    `per_sample_weights`, of the shape of `input`, scales the rows of a sum. Raises ValueError if
    shapes do not fit.

    Args:
        input: Indices, int64 or int32, (bags, n) or (n,).

    >>> table = torch.tensor([[1., 2.], [3., 4.]])
    >>> torch.nn.functional.embedding_bag(torch.tensor([[0, 1]]), table, mode="sum")
    tensor([[4., 6.]])
    """
    if weight._array.dtype == np.int64 and input.is_floating_point():
        warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage "
            "`embedding_bag(weight, input, ...)` is deprecated, and should now be "
            "`embedding_bag(input, weight, ...)`.",
        )
        weight, input = input, weight
    _check_bag_arguments(input, weight, offsets, mode, scale_grad_by_freq, sparse,
                         per_sample_weights)
    if input.dim() == 2:
        offsets = arange(input.size(0), dtype=input.dtype) * input.size(1)
        include_last_offset = False
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    if max_norm is not None:
        embedding_renorm_(weight, input, max_norm, norm_type)
    return _reduce(weight, input, offsets, scale_grad_by_freq, _MODES[mode], sparse,
                   per_sample_weights, include_last_offset, padding_idx)[0]


def _check_bag_arguments(
    input: Tensor, weight: Tensor, offsets: Tensor | None, mode: int | str, by_frequency: bool,
    sparse: bool, weights: Tensor | None,
) -> None:
    if weights is not None and weights.shape != input.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({weights.shape}) is not None, then it must "
            f"have the same shape as the input ({input.shape})"
        )
    if weight.dim() != 2:
        raise ValueError(
            f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}"
        )
    if input.dim() == 2 and offsets is not None:
        raise ValueError(
            "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of "
            f"fixed length sequences. However, found offsets of type {class_of(offsets)}"
        )
    if input.dim() not in (1, 2):
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}"
        )
    if input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError(f"offsets has to be a 1D Tensor, not {offsets.dim()}D")
    if mode not in _MODES:
        raise ValueError(f"mode has to be one of sum, mean or max, not {mode!r}")
    if mode == "max" and by_frequency:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported "
            f"for mode='sum' (got mode='{mode}')."
        )
