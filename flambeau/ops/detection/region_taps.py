"""Which pixels the bins of regions are made of, where bins are means of points between pixels.

A point (y, x) takes the four pixels around it by bilinear interpolation; the weights of a bin are
products of weights along its axes, in which points that share a pixel are added up first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...native.target.eager_costs import TAPS_PER_BLOCK
from .sampling import Taps

Array = np.ndarray


class Grid(NamedTuple):
    """How regions are cut into bins and points.

    Bins along both axes, points along each axis of a bin (0: as many as pixels), whether
    coordinates are those of pixel centers, and whether regions smaller than a pixel count as one.
    """

    height: int
    width: int
    ratio: int
    centred: bool
    at_least_one: bool


class _Axis(NamedTuple):
    """Along one axis: taps of (region, bin), `bounds` as in Taps, and points of each bin (k,)."""

    places: Array
    weights: Array
    bounds: Array
    counts: Array


def _compute_axis(start: Array, end: Array, bins: int, size: int, grid: Grid, inside: np.dtype
                  ) -> _Axis:
    """The taps of bins along an axis of `size` pixels, for regions from `start` to `end` (k,)."""
    kind = start.dtype.type
    length = end - start
    if grid.at_least_one:
        length = np.maximum(length, kind(1))
    step = length / kind(bins)
    counts = np.full(len(start), grid.ratio) if grid.ratio > 0 \
        else np.ceil(length / kind(bins)).astype(np.int64)
    points = np.repeat(np.maximum(counts, 0), bins)  # points of each (region, bin)
    owner = np.repeat(np.arange(len(points)), points)
    nth = np.arange(len(owner)) - np.repeat(np.cumsum(points) - points, points)
    region, bin = owner // bins, owner % bins
    by = counts.astype(start.dtype)
    x = start[region] + bin.astype(start.dtype) * step[region] \
        + (nth.astype(start.dtype) + kind(0.5)) * step[region] / by[region]
    is_near = (x >= -1) & (x <= size)
    x, owner = np.maximum(x[is_near], kind(0)), owner[is_near]
    low = np.minimum(x.astype(np.int64), size - 1)
    share = np.where(low >= size - 1, kind(0), x - low.astype(x.dtype))
    high = np.minimum(low + 1, size - 1)
    keys = np.concatenate([owner * size + low, owner * size + high])
    unique, inverse = np.unique(keys, return_inverse=True)
    weights = np.bincount(inverse, np.concatenate([1 - share, share]), len(unique))
    present = weights != 0
    unique, weights = unique[present], weights[present].astype(inside)
    bounds = np.searchsorted(unique, np.arange(len(points) + 1) * size)
    return _Axis(unique % size, weights, bounds, counts)


def compute_region_taps(
    rois: Array, images: Array, scale: float, sizes: tuple[int, int], grid: Grid, placed: bool,
    inside: np.dtype,
) -> Iterator[tuple[slice, Taps]]:
    """Return runs of regions, and taps of bins (region, row, column), as rows of pixels.

    Coordinates are computed in the dtype of `rois`; weights have the dtype `inside`.

    Pixels are numbered (image, y, x); if `placed`, each bin has its own planes: (image, row,
    column, y, x). Weights are divided by the number of points.
    """
    kind, (high, width) = rois.dtype.type, sizes
    shift = kind(0.5) if grid.centred else kind(0)
    edges = rois[:, 1:] * kind(scale) - shift
    y = _compute_axis(edges[:, 1], edges[:, 3], grid.height, high, grid, inside)
    x = _compute_axis(edges[:, 0], edges[:, 2], grid.width, width, grid, inside)
    ny = np.diff(y.bounds).reshape(-1, grid.height)
    nx = np.diff(x.bounds).reshape(-1, grid.width)
    counts = y.counts * x.counts
    scales = 1 / np.maximum(counts, 1).astype(inside)
    totals = np.cumsum(ny.sum(1) * nx.sum(1))
    first = 0
    while first < len(rois):
        before = totals[first - 1] if first else 0
        last = max(int(np.searchsorted(totals, before + TAPS_PER_BLOCK, "right")), first + 1)
        part = slice(first, last)
        yield part, _cross(y, x, part, ny[part], nx[part], images[part], scales[part], sizes,
                           grid, placed)
        first = last


def _cross(
    y: _Axis, x: _Axis, part: slice, ny: Array, nx: Array, images: Array, scales: Array,
    sizes: tuple[int, int], grid: Grid, placed: bool,
) -> Taps:
    """The taps of bins as products of those of their rows and columns."""
    bins_y, bins_x = grid.height, grid.width
    per_bin = ny[:, :, None] * nx[:, None, :]  # (region, row, column)
    bounds = np.concatenate([[0], np.cumsum(per_bin.ravel())])
    owner = np.repeat(np.arange(per_bin.size), per_bin.ravel())
    nth = np.arange(len(owner)) - bounds[owner]
    region, row, column = np.unravel_index(owner, per_bin.shape)
    across = nx[region, column]
    at_y = y.bounds[(part.start + region) * bins_y + row] + nth // across
    at_x = x.bounds[(part.start + region) * bins_x + column] + nth % across
    plane = images[region]
    if placed:
        plane = (plane * bins_y + row) * bins_x + column
    pixels = (plane * sizes[0] + y.places[at_y]) * sizes[1] + x.places[at_x]
    weights = y.weights[at_y] * x.weights[at_x] * scales[region]
    return Taps(pixels, weights, bounds)
