"""RoIAlign and PSRoIAlign: resample image regions to a fixed number of bins.

In PSRoIAlign each bin has its own channels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...tensor.meta import MetaArray, meta_array
from ...tensor.tensor import Tensor
from ..core.operator import Array
from ..core.promotion import compute_dtype
from ..core.registry import opaque
from ..core.sample_inputs import Rng, Sample
from ..native.transpose import put_in_order
from .arguments import check_regions, find_images, count_place_channels
from .region_taps import Grid, compute_region_taps
from .sampling import spread_taps, sum_taps

SymInt = int  # a size, named as in operator schemas


def draw_regions(rng: Rng, count: int) -> np.ndarray:
    images = rng.integers(0, 2, (count, 1))
    corners = rng.uniform(-1, 6, (count, 2))
    return np.concatenate([images, corners, corners + rng.uniform(0.5, 7, (count, 2))], 1)


def _align_samples(rng: Rng) -> Iterator[Sample]:
    for ratio, aligned in ((2, False), (0, True), (-1, False)):
        rois = draw_regions(rng, 3)
        yield (rng.normal(size=(2, 3, 6, 7)), rois, 0.7, 2, 3, ratio, aligned), {}
    yield (rng.normal(size=(1, 2, 4, 4)), np.zeros((0, 5)), 1.0, 2, 2, 2, True), {}


def _place_samples(rng: Rng) -> Iterator[Sample]:
    for ratio in (2, 0):
        yield (rng.normal(size=(2, 12, 6, 7)), draw_regions(rng, 3), 0.7, 2, 3, ratio), {}


def bilinear(plane: Any, y: float, x: float) -> float:
    """Sample bilinearly at one point: 0 outside, the edge up to one pixel beyond it."""
    height, width = plane.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0.0
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    dy, dx = y - top, x - left
    return ((1 - dy) * ((1 - dx) * plane[top, left] + dx * plane[top, right])
            + dy * ((1 - dx) * plane[bottom, left] + dx * plane[bottom, right]))


def _pool_bin(
    plane: np.ndarray, roi: np.ndarray, scale: float, bins: tuple[int, ...],
    index: tuple[int, ...], ratio: int, shift: float, min_length: float
) -> float:
    """Reference: the mean over the grid of points of the bin at an index."""
    x1, y1, x2, y2 = roi[1:] * scale - shift
    lengths = max(y2 - y1, min_length), max(x2 - x1, min_length)
    coordinates = []  # of the bin's points, along each axis
    for start, length, count, i in zip((y1, x1), lengths, bins, index, strict=True):
        points = ratio if ratio > 0 else int(np.ceil(length / count))
        coordinates.append(
            [start + length / count * (i + (k + 0.5) / points) for k in range(points)])
    ys, xs = coordinates
    return float(np.mean([bilinear(plane, y, x) for y in ys for x in xs]))


def _align_reference(
    input: np.ndarray, rois: np.ndarray, scale: float, height: int, width: int, ratio: int,
    aligned: bool
) -> np.ndarray:
    y = np.zeros((len(rois), input.shape[1], height, width))
    for k, c, i, j in np.ndindex(*y.shape):
        plane = input[int(rois[k, 0]), c]
        shift, min_length = (0.5, -np.inf) if aligned else (0.0, 1.0)
        y[k, c, i, j] = _pool_bin(plane, rois[k], scale, (height, width), (i, j), ratio,
                                  shift, min_length)
    return y


def _reference_with_places(
    input: np.ndarray, rois: np.ndarray, scale: float, height: int, width: int, ratio: int
) -> np.ndarray:
    y = np.zeros((len(rois), input.shape[1] // (height * width), height, width))
    for k, c, i, j in np.ndindex(*y.shape):
        plane = input[int(rois[k, 0]), (c * height + i) * width + j]
        y[k, c, i, j] = _pool_bin(plane, rois[k], scale, (height, width), (i, j), ratio,
                                  0.5, -np.inf)
    return y


def _sample(input: Array, rois: Array, scale: float, grid: Grid, has_bin_channels: bool) -> Array:
    """Return (regions, channels, *bins) of input (n, c, h, w), computed in `compute_dtype`.

    `has_bin_channels`: whether each bin reads its own channels.
    """
    dtype, (n, c, h, w) = compute_dtype(input.dtype), input.shape
    bins = grid.height * grid.width
    if has_bin_channels:  # (n, c, row, column, h, w): the channels of one bin innermost
        c //= bins
        input = input.reshape(n, c, bins, h, w).transpose(0, 2, 3, 4, 1)
    else:
        input = input.transpose(0, 2, 3, 1)
    table = put_in_order(input.astype(dtype, copy=False))
    table = np.ascontiguousarray(table).reshape(-1, c)
    y = np.empty((len(rois), c, grid.height, grid.width), dtype)
    images = find_images(rois, n)
    for part, taps in compute_region_taps(
        rois, images, scale, (h, w), grid, has_bin_channels, dtype
    ):
        rows = sum_taps(table, taps).reshape(-1, grid.height, grid.width, c)
        y[part] = rows.transpose(0, 3, 1, 2)
    return y


def _scatter_cotangents(
    g: Array, rois: Array, scale: float, grid: Grid, shape: tuple[int, ...], has_bin_channels: bool
) -> Array:
    """Return the cotangent of `_sample`'s input, of `shape` (n, c, h, w)."""
    dtype, (n, c, h, w) = compute_dtype(g.dtype), shape
    bins = grid.height * grid.width
    planes = n * bins if has_bin_channels else n
    width = c // bins if has_bin_channels else c
    total = np.zeros((planes * h * w, width), dtype)
    images = find_images(rois, n)
    for part, taps in compute_region_taps(
        rois, images, scale, (h, w), grid, has_bin_channels, dtype
    ):
        rows = np.ascontiguousarray(g[part].transpose(0, 2, 3, 1), dtype).reshape(-1, width)
        total += spread_taps(rows, taps, len(total))
    if has_bin_channels:
        y = total.reshape(n, bins, h, w, width).transpose(0, 4, 1, 2, 3)
    else:
        y = total.reshape(n, h, w, c).transpose(0, 3, 1, 2)
    return np.ascontiguousarray(y.astype(g.dtype, copy=False)).reshape(shape)


@opaque(expose=(), ref=_align_reference, samples=_align_samples)
def roi_align(
    input: Array, rois: Array, spatial_scale: float, pooled_height: SymInt, pooled_width: SymInt,
    sampling_ratio: int, aligned: bool,
) -> Array:
    """RoIAlign (He et al. 2017, Mask R-CNN): average interpolated points in each region's bins.

    input (n, c, h, w); rois (k, 5): image index, x1, y1, x2, y2, scaled by `spatial_scale`. Return
    (k, c, pooled_height, pooled_width). A bin is the mean of `sampling_ratio` squared points, or of
    about one per pixel if that is 0 or less. `aligned` treats coordinates as those of pixel
    centers, a shift of half a pixel. RuntimeError for other shapes and for mismatched dtypes,
    IndexError for an image that is not in the batch. Not differentiable in rois.

    >>> from flambeau.ops.detection.roi_align import roi_align
    >>> image = torch.arange(16.).reshape(1, 1, 4, 4)
    >>> roi_align(image, torch.tensor([[0., 0., 0., 4., 4.]]), 1.0, 2, 2, 2, True)
    tensor([[[[ 2.5000,  4.5000],
              [10.5000, 12.5000]]]])
    """
    check_regions("roi_align_forward_kernel", input, rois)
    if input.__class__ is MetaArray:
        return meta_array((len(rois), input.shape[1], pooled_height, pooled_width), input.dtype)
    grid = Grid(pooled_height, pooled_width, sampling_ratio, aligned, not aligned)
    return _sample(input, rois, spatial_scale, grid, False).astype(input.dtype, copy=False)


@roi_align.vjp
def _(
    g: Tensor, rois: Tensor, spatial_scale: float, pooled_height: SymInt, pooled_width: SymInt,
    sampling_ratio: int, aligned: bool, input_shape: tuple[int, ...]
) -> tuple[Tensor | None, ...]:
    return roi_align_backward(g, rois, spatial_scale, pooled_height, pooled_width, *input_shape,
                              sampling_ratio, aligned), None


@opaque(name="_roi_align_backward", expose=(), ref=None, samples=None)
def roi_align_backward(
    grad: Array, rois: Array, spatial_scale: float, pooled_height: SymInt, pooled_width: SymInt,
    batch_size: SymInt, channels: SymInt, height: SymInt, width: SymInt, sampling_ratio: int,
    aligned: bool,
) -> Array:
    """Distribute the cotangents of bins to the input pixels that they average."""
    check_regions("roi_align_backward_kernel", grad, rois, "grad")
    shape = batch_size, channels, height, width
    if grad.__class__ is MetaArray:
        return meta_array(shape, grad.dtype)
    grid = Grid(pooled_height, pooled_width, sampling_ratio, aligned, not aligned)
    return _scatter_cotangents(grad, rois, spatial_scale, grid, shape, False)


@roi_align_backward.vjp
def _(
    g: Tensor, rois: Tensor, spatial_scale: float, pooled_height: SymInt, pooled_width: SymInt,
    sampling_ratio: int, aligned: bool
) -> tuple[Tensor | None, ...]:
    return roi_align(g, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio,
                     aligned), None


@opaque(expose=(), ref=_reference_with_places, samples=_place_samples, constant_outputs=(1,))
def ps_roi_align(
    input: Array, rois: Array, spatial_scale: float, pooled_height: SymInt, pooled_width: SymInt,
    sampling_ratio: int,
) -> tuple[Array, Array]:
    """Position-sensitive RoIAlign (Li et al. 2018, Light-Head R-CNN).

    The bin in row i and column j of channel c is read from input channel
    (c * pooled_height + i) * pooled_width + j. Return (the bins, the input channel of each);
    arguments as for roi_align with `aligned`.

    >>> from flambeau.ops.detection.roi_align import ps_roi_align
    >>> image = torch.arange(4.).reshape(1, 4, 1, 1).expand(1, 4, 4, 4)
    >>> ps_roi_align(image, torch.tensor([[0., 0., 0., 4., 4.]]), 1.0, 2, 2, 2)[0]
    tensor([[[[0., 1.],
              [2., 3.]]]])
    """
    check_regions("ps_roi_align_forward_kernel", input, rois)
    result = count_place_channels(input, pooled_height, pooled_width)
    shape = len(rois), result, pooled_height, pooled_width
    if input.__class__ is MetaArray:
        return meta_array(shape, input.dtype), meta_array(shape, np.dtype(np.int32))
    grid = Grid(pooled_height, pooled_width, sampling_ratio, True, False)
    y = _sample(input, rois, spatial_scale, grid, True).astype(input.dtype, copy=False)
    if sampling_ratio <= 0:  # the mean of no points
        y[_has_no_points(rois, spatial_scale, grid)] = np.nan
    return y, channel_mapping(shape)


def _has_no_points(rois: Array, scale: float, grid: Grid) -> Array:
    """Return which regions have no points in their bins: those of no height or width."""
    edges = rois[:, 1:] * rois.dtype.type(scale) - rois.dtype.type(0.5)
    points = [np.ceil((edges[:, 2 + i] - edges[:, i]) / bins)
              for i, bins in enumerate((grid.width, grid.height))]
    return points[0] * points[1] == 0


def channel_mapping(shape: tuple[int, ...]) -> Array:
    """Return the input channel of each bin (k, c, row, column)."""
    numbers = np.arange(np.prod(shape[1:]), dtype=np.int32).reshape(shape[1:])
    return np.ascontiguousarray(np.broadcast_to(numbers, shape))


@ps_roi_align.vjp
def _(
    gs: tuple[Tensor, None], rois: Tensor, spatial_scale: float, pooled_height: SymInt,
    pooled_width: SymInt, sampling_ratio: int, ys: tuple[Tensor, ...], input_shape: tuple[int, ...]
) -> tuple[Tensor | None, ...]:
    return ps_roi_align_backward(gs[0], rois, ys[1], spatial_scale, pooled_height, pooled_width,
                                 sampling_ratio, *input_shape), None


@opaque(name="_ps_roi_align_backward", expose=(), ref=None, samples=None)
def ps_roi_align_backward(
    grad: Array, rois: Array, channel_mapping: Array, spatial_scale: float, pooled_height: SymInt,
    pooled_width: SymInt, sampling_ratio: int, batch_size: SymInt, channels: SymInt,
    height: SymInt, width: SymInt,
) -> Array:
    """Return the cotangent of ps_roi_align's input."""
    check_regions("ps_roi_align_backward_kernel", grad, rois, "grad")
    shape = batch_size, channels, height, width
    if grad.__class__ is MetaArray:
        return meta_array(shape, grad.dtype)
    grid = Grid(pooled_height, pooled_width, sampling_ratio, True, False)
    return _scatter_cotangents(grad, rois, spatial_scale, grid, shape, True)


@ps_roi_align_backward.vjp
def _(
    g: Tensor, rois: Tensor, spatial_scale: float, pooled_height: SymInt, pooled_width: SymInt,
    sampling_ratio: int
) -> tuple[Tensor | None, ...]:
    y, _ = ps_roi_align(g, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio)
    return y, None, None
