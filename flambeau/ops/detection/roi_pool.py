"""RoIPool and PSRoIPool: pool regions of images over bins of whole pixels.

RoIPool takes the maximum of each bin; PSRoIPool the mean, from separate channels for each bin.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...native.target.eager_costs import GATHERED_ELEMENTS_PER_BLOCK
from ...tensor.meta import MetaArray, meta_array
from ...tensor.tensor import Tensor
from ..core.operator import Array
from ..core.promotion import compute_dtype
from ..core.registry import opaque
from ..core.sample_inputs import Rng, Sample
from ..indexing.embedding_bag import MAX, reduced_bags
from ..native.transpose import put_in_order
from .arguments import check_regions, find_images, count_place_channels
from .roi_align import SymInt, draw_regions, channel_mapping
from .sampling import Taps, spread_taps, sum_taps

_INT32 = np.dtype(np.int32)


def _samples(rng: Rng) -> Iterator[Sample]:
    yield (rng.normal(size=(2, 3, 6, 7)), draw_regions(rng, 4), 0.7, 2, 3), {}
    yield (rng.normal(size=(1, 2, 4, 4)), np.zeros((0, 5)), 1.0, 2, 2), {}


def _place_samples(rng: Rng) -> Iterator[Sample]:
    corners = rng.uniform(0, 3, (4, 2))  # not in the last row or column: see the adjoint
    rois = np.concatenate([rng.integers(0, 2, (4, 1)), corners, corners + 4], 1)
    yield (rng.normal(size=(2, 12, 6, 7)), rois, 0.7, 2, 3), {}


def _round_half_away(x: float) -> int:
    return int(np.floor(abs(x) + 0.5) * np.sign(x))


def _locate_window(
    low: float, high: float, bins: int, i: int, size: int, inclusive: int
) -> slice:
    """Reference: the pixels of bin i of a region from `low` to `high`, both rounded."""
    low, high = _round_half_away(low), _round_half_away(high)
    length = max(high - low + inclusive, 1)
    limit = size if inclusive else size - 1
    first = int(np.floor(np.float64(i) * (length / bins))) + low
    last = int(np.ceil((i + 1.0) * (length / bins))) + low
    return slice(min(max(first, 0), limit), min(max(last, 0), limit))


def _pool_reference(
    input: np.ndarray, rois: np.ndarray, scale: float, high: int, width: int
) -> np.ndarray:
    y = np.zeros((len(rois), input.shape[1], high, width))
    for k, i, j in np.ndindex(len(rois), high, width):
        image, x1, y1, x2, y2 = rois[k]
        rows = _locate_window(y1 * scale, y2 * scale, high, i, input.shape[2], 1)
        columns = _locate_window(x1 * scale, x2 * scale, width, j, input.shape[3], 1)
        part = input[int(image), :, rows, columns]
        y[k, :, i, j] = part.max((1, 2)) if part.size else 0
    return y


def _reference_with_places(
    input: np.ndarray, rois: np.ndarray, scale: float, high: int, width: int
) -> np.ndarray:
    y = np.zeros((len(rois), input.shape[1] // (high * width), high, width))
    for k, i, j in np.ndindex(len(rois), high, width):
        image, x1, y1, x2, y2 = rois[k]
        rows = _locate_window(y1 * scale, y2 * scale, high, i, input.shape[2], 0)
        columns = _locate_window(x1 * scale, x2 * scale, width, j, input.shape[3], 0)
        part = input[int(image), i * width + j :: high * width, rows, columns]
        y[k, :, i, j] = part.mean((1, 2)) if part.size else 0
    return y


def _round(x: Array) -> Array:
    """Round to integers, halves away from zero."""
    return np.trunc(x + np.copysign(x.dtype.type(0.5), x)).astype(np.int64)


class _Extents(NamedTuple):
    """The pixels of the bins along an axis, from `first` up to `stop`: (regions, bins)."""

    first: Array
    stop: Array

    @property
    def lengths(self) -> Array:
        return np.maximum(self.stop - self.first, 0)


def _cut_into_bins(low: Array, high: Array, bins: int, limit: int, inclusive: bool) -> _Extents:
    """Cut regions from `low` to `high` into bins, which may overlap; clip them to `limit`."""
    dtype = low.dtype.type
    low, high = _round(low), _round(high)
    length = np.maximum(high - low + inclusive, 1).astype(dtype) / dtype(bins)
    numbers = np.arange(bins + 1).astype(dtype)
    first = np.floor(numbers[:-1] * length[:, None]).astype(np.int64)
    stop = np.ceil(numbers[1:] * length[:, None]).astype(np.int64)
    return _Extents(*[np.clip(edge + low[:, None], 0, limit) for edge in (first, stop)])


def _list_pixels(
    rois: Array, scale: float, bins: tuple[int, int], limits: tuple[int, int], width: int,
    inclusive: bool,
) -> tuple[Array, Array]:
    """Return the pixels (y * width + x) of all bins, ordered by (region, row, column), and the
    bounds of each bin."""
    x1, y1, x2, y2 = (rois[:, 1:] * rois.dtype.type(scale)).T
    vertical = _cut_into_bins(y1, y2, bins[0], limits[0], inclusive)
    horizontal = _cut_into_bins(x1, x2, bins[1], limits[1], inclusive)
    counts = vertical.lengths[:, :, None] * horizontal.lengths[:, None, :]
    bounds = np.concatenate([[0], np.cumsum(counts.ravel())])
    owner = np.repeat(np.arange(counts.size), counts.ravel())  # the bin of each pixel
    rank = np.arange(len(owner)) - bounds[owner]  # of the pixel in its bin
    region, row, column = np.unravel_index(owner, counts.shape)
    row_length = horizontal.lengths[region, column]
    y = vertical.first[region, row] + rank // row_length
    return y * width + horizontal.first[region, column] + rank % row_length, bounds


@opaque(expose=(), ref=_pool_reference, samples=_samples, constant_outputs=(1,))
def roi_pool(
    input: Array, rois: Array, spatial_scale: float, pooled_height: SymInt, pooled_width: SymInt
) -> tuple[Array, Array]:
    """RoIPool (Girshick 2015, Fast R-CNN): maximum of each bin of each region.

    input (n, c, h, w); rois (k, 5): image index, x1, y1, x2, y2, scaled by `spatial_scale`, then
    rounded. Return (the maxima (k, c, pooled_height, pooled_width), the pixel y * w + x of each);
    these are 0 and -1 for an empty bin. RuntimeError for other shapes and for mismatched dtypes,
    IndexError for an image that is not in the batch. Not differentiable in rois.

    >>> from flambeau.ops.detection.roi_pool import roi_pool
    >>> image = torch.arange(16.).reshape(1, 1, 4, 4)
    >>> roi_pool(image, torch.tensor([[0., 0., 0., 3., 3.]]), 1.0, 2, 2)[0]
    tensor([[[[ 5.,  7.],
              [13., 15.]]]])
    """
    check_regions("roi_pool_forward_kernel", input, rois)
    n, c, h, w = input.shape
    shape = len(rois), c, pooled_height, pooled_width
    if input.__class__ is MetaArray:
        return meta_array(shape, input.dtype), meta_array(shape, _INT32)
    dtype, images = compute_dtype(input.dtype), find_images(rois, n)
    bins = pooled_height, pooled_width
    pixels, bounds = _list_pixels(rois, spatial_scale, bins, (h, w), w, True)
    planes = np.repeat(images * (h * w), pooled_height * pooled_width)
    table = put_in_order(input.astype(dtype, copy=False).transpose(0, 2, 3, 1))
    table = np.ascontiguousarray(table).reshape(-1, c)
    maxima, argmax = _find_maxima(table, pixels, bounds, planes)
    if not np.isfinite(maxima).all():  # as in torchvision, only numbers above the lowest count
        lowest = np.finfo(dtype).min
        maxima, argmax = _find_maxima(np.fmax(table, lowest), pixels, bounds, planes)
        argmax[maxima == lowest] = -1
    y = maxima.reshape(len(rois), pooled_height, pooled_width, c).transpose(0, 3, 1, 2)
    argmax_nchw = argmax.reshape(len(rois), pooled_height, pooled_width, c).transpose(0, 3, 1, 2)
    return np.ascontiguousarray(y, input.dtype), np.ascontiguousarray(argmax_nchw)


def _find_maxima(table: Array, pixels: Array, bounds: Array, planes: Array) -> tuple[Array, Array]:
    """Return each bin's maximum and the first pixel that has it; processes bins by size."""
    counts = np.diff(bounds)
    maxima = np.zeros((len(counts), table.shape[1]), table.dtype)
    argmax = np.full(maxima.shape, -1, np.int32)
    by_count = np.argsort(counts, kind="stable")
    lengths, starts = np.unique(counts[by_count], return_index=True)
    for i, length in enumerate(lengths.tolist()):
        bins = by_count[starts[i] : starts[i + 1] if i + 1 < len(starts) else None]
        step = max(GATHERED_ELEMENTS_PER_BLOCK // max(length * table.shape[1], 1), 1)
        for a in range(0, len(bins) if length else 0, step):
            chosen = bins[a : a + step]
            rows = pixels[bounds[chosen][:, None] + np.arange(length)] + planes[chosen][:, None]
            offsets = np.arange(len(chosen)) * length
            maxima[chosen], numbers = reduced_bags.operator.body(table, rows.ravel(), offsets, MAX)
            argmax[chosen] = numbers - planes[chosen][:, None]
    return maxima, argmax


@roi_pool.vjp
def _(
    gs: tuple[Tensor, None], rois: Tensor, ys: tuple[Tensor, ...], spatial_scale: float,
    pooled_height: SymInt, pooled_width: SymInt, input_shape: tuple[int, ...]
) -> tuple[Tensor | None, ...]:
    return roi_pool_backward(gs[0], rois, ys[1], spatial_scale, pooled_height, pooled_width,
                             *input_shape), None


@opaque(name="_roi_pool_backward", expose=(), ref=None, samples=None)
def roi_pool_backward(
    grad: Array, rois: Array, argmax: Array, spatial_scale: float, pooled_height: SymInt,
    pooled_width: SymInt, batch_size: SymInt, channels: SymInt, height: SymInt, width: SymInt,
) -> Array:
    """Add the cotangent of each maximum to the input pixel that it came from."""
    check_regions("roi_pool_backward_kernel", grad, rois, "grad")
    shape = batch_size, channels, height, width
    if grad.__class__ is MetaArray:
        return meta_array(shape, grad.dtype)
    positions, present = _flatten_places(rois, argmax, shape)
    if present.all():
        positions, values = positions.ravel(), grad.ravel()
    else:
        positions, values = positions[present], grad[present]
    y = np.bincount(positions, values, batch_size * channels * height * width)
    return y.reshape(shape).astype(grad.dtype)


def _flatten_places(rois: Array, argmax: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Return each maximum's index in the flat input, and whether the bin has one."""
    batch, channels, height, width = shape
    planes = find_images(rois, batch)[:, None] * channels + np.arange(channels)
    return planes[:, :, None, None] * (height * width) + argmax, argmax >= 0


@roi_pool_backward.vjp
def _(g: Tensor, rois: Tensor, argmax: Tensor) -> tuple[Tensor | None, ...]:
    return _gather_argmax(g, rois, argmax), None, None


@opaque(name="_roi_pool_taken", expose=(), ref=None, samples=None, differentiable=False)
def _gather_argmax(input: Array, rois: Array, argmax: Array) -> Array:
    """Return the input's elements at the positions of the maxima; 0 for empty bins."""
    positions, present = _flatten_places(rois, argmax, input.shape)
    return np.where(present, input.reshape(-1)[np.where(present, positions, 0)],
                    input.dtype.type(0))


def _compute_mean_taps(
    rois: Array, scale: float, shape: tuple[int, ...], bins: tuple[int, int],
    limits: tuple[int, int],
) -> Taps:
    """Return the pixels of bins with separate planes, indexed by (image, row, column, y, x)."""
    n, _, h, w = shape
    images, count = find_images(rois, n), bins[0] * bins[1]
    pixels, bounds = _list_pixels(rois, scale, bins, limits, w, False)
    counts = np.diff(bounds)
    planes = images[:, None] * count + np.arange(count)
    weights = 1 / np.maximum(counts, 1).astype(compute_dtype(rois.dtype))
    places = pixels + np.repeat(planes.ravel() * (h * w), counts)
    return Taps(places, np.repeat(weights, counts), bounds)


@opaque(expose=(), ref=_reference_with_places, samples=_place_samples, constant_outputs=(1,))
def ps_roi_pool(
    input: Array, rois: Array, spatial_scale: float, pooled_height: SymInt, pooled_width: SymInt
) -> tuple[Array, Array]:
    """Position-sensitive RoIPool (Dai et al. 2016, R-FCN): mean of each bin.

    The bin in row i and column j of channel c is read from input channel
    (c * pooled_height + i) * pooled_width + j. Return (the bins, the input channel of each);
    arguments as for roi_pool.

    >>> from flambeau.ops.detection.roi_pool import ps_roi_pool
    >>> image = torch.arange(4.).reshape(1, 4, 1, 1).expand(1, 4, 4, 4)
    >>> ps_roi_pool(image, torch.tensor([[0., 0., 0., 3., 3.]]), 1.0, 2, 2)[0]
    tensor([[[[0., 1.],
              [2., 3.]]]])
    """
    check_regions("ps_roi_pool_forward_kernel", input, rois)
    result = count_place_channels(input, pooled_height, pooled_width)
    shape = len(rois), result, pooled_height, pooled_width
    if input.__class__ is MetaArray:
        return meta_array(shape, input.dtype), meta_array(shape, _INT32)
    kind, (n, _, h, w), bins = compute_dtype(input.dtype), input.shape, pooled_height * pooled_width
    planes = input.astype(kind, copy=False).reshape(n, result, bins, h, w).transpose(0, 2, 3, 4, 1)
    taps = _compute_mean_taps(rois, spatial_scale, input.shape, (pooled_height, pooled_width),
                              (h - 1, w - 1))
    rows = sum_taps(np.ascontiguousarray(planes).reshape(-1, result), taps)
    y = rows.reshape(len(rois), pooled_height, pooled_width, result).transpose(0, 3, 1, 2)
    return np.ascontiguousarray(y, input.dtype), channel_mapping(shape)


@ps_roi_pool.vjp
def _(
    gs: tuple[Tensor, None], rois: Tensor, ys: tuple[Tensor, ...], spatial_scale: float,
    pooled_height: SymInt, pooled_width: SymInt, input_shape: tuple[int, ...]
) -> tuple[Tensor | None, ...]:
    return ps_roi_pool_backward(gs[0], rois, ys[1], spatial_scale, pooled_height, pooled_width,
                                *input_shape), None


@opaque(name="_ps_roi_pool_backward", expose=(), ref=None, samples=None)
def ps_roi_pool_backward(
    grad: Array, rois: Array, channel_mapping: Array, spatial_scale: float, pooled_height: SymInt,
    pooled_width: SymInt, batch_size: SymInt, channels: SymInt, height: SymInt, width: SymInt,
) -> Array:
    """Return the cotangent of ps_roi_pool's input, each mean's split over its pixels.

    As in torchvision, the image's last row and column are counted among the pixels, although
    ps_roi_pool itself never reads them.
    """
    check_regions("ps_roi_pool_backward_kernel", grad, rois, "grad")
    shape = batch_size, channels, height, width
    if grad.__class__ is MetaArray:
        return meta_array(shape, grad.dtype)
    kind, bins = compute_dtype(grad.dtype), pooled_height * pooled_width
    taps = _compute_mean_taps(rois, spatial_scale, shape, (pooled_height, pooled_width),
                              (height, width))
    result = channels // bins
    rows = np.ascontiguousarray(grad.transpose(0, 2, 3, 1), kind).reshape(-1, result)
    y = spread_taps(rows, taps, batch_size * bins * height * width)
    y = y.reshape(batch_size, bins, height, width, result).transpose(0, 4, 1, 2, 3)
    return np.ascontiguousarray(y, grad.dtype).reshape(shape)


@ps_roi_pool_backward.vjp
def _(
    g: Tensor, rois: Tensor, spatial_scale: float, pooled_height: SymInt, pooled_width: SymInt
) -> tuple[Tensor | None, ...]:
    return ps_roi_pool(g, rois, spatial_scale, pooled_height, pooled_width)[0], None, None
