"""grid_sample in recorded operators, differentiable any number of times.

Coordinates use existing operators; a dedicated one gathers the pixels.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...tensor.tensor import Tensor, wrap
from ..core.operator import Array
from ..core.output_layout import Layout
from ..core.promotion import compute_dtype
from ..core.registry import opaque
from ..core.sample_inputs import Rng, Sample
from .resample_native import take_pixels
from .resampling_taps import cubic_weights

BILINEAR, NEAREST, BICUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)


# -------------------------------------------------------------------------------------- pixels


def _samples(rng: Rng) -> Iterator[Sample]:
    yield (rng.normal(size=(2, 3, 4)), rng.integers(0, 4, (2, 5))), {}


@opaque(linear_in="input", layout=Layout.FREE, examples=("input", "places"),
        name="_pixels", node="GridSamplerBackward0", expose=(), samples=_samples,
        ref=lambda x, places: np.stack([x[i][:, p] for i, p in enumerate(places)]))
def pixels(input: Array, places: Array) -> Array:
    """Gather input (n, c, pixels) at positions (n, points): (n, c, points)."""
    y = take_pixels(input, places)
    return np.take_along_axis(input, places[:, None, :], 2) if y is None else y


@pixels.vjp("input")
def _(g: Tensor, input_shape: tuple[int, ...], places: Tensor) -> Tensor:
    return _pixels_adjoint(g, input_shape, places)


@opaque(linear_in="g", examples=("g", "places"),
        layout=Layout.FREE, name="_pixels_adjoint", expose=(), ref=None, samples=None)
def _pixels_adjoint(g: Array, shape: Any, places: Array) -> Array:
    """The cotangent of `pixels`: each point's cotangent scattered to its pixel."""
    n, c, size = shape
    result = np.empty(shape, compute_dtype(g.dtype))
    for i in range(n):
        for k in range(c):
            result[i, k] = np.bincount(places[i], g[i, k].astype(np.float64, copy=False), size)
    return result.astype(g.dtype, copy=False)


@_pixels_adjoint.vjp("g")
def _(g: Tensor, places: Tensor) -> Tensor:
    return pixels(g, places)


# --------------------------------------------------------------------------------- coordinates


def _convert_to_pixels(x: Tensor, size: int, align: bool) -> Tensor:
    """Convert coordinates from -1..1 to pixels."""
    return (x + 1) * ((size - 1) / 2) if align else ((x + 1) * size - 1) * 0.5


def _reflect(x: np.ndarray, size: int, align: bool) -> tuple[np.ndarray, np.ndarray]:
    """Mirror coordinates at the borders until they lie inside; also return the derivative."""
    low, span = (0.0, size - 1.0) if align else (-0.5, float(size))
    if span <= 0:
        return np.zeros_like(x), np.zeros_like(x)
    distance = np.abs(x - low)
    flips = np.floor(distance / span)
    extra = distance - flips * span
    even = flips % 2 == 0
    slope = np.where(even, 1.0, -1.0) * np.where(x < low, -1.0, 1.0)
    return np.where(even, extra + low, span - extra + low), slope


def place_points(
    x: np.ndarray, size: int, padding: int, align: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return (coordinates after padding, their derivative by the original ones)."""
    slope = np.ones_like(x)
    if padding == REFLECTION:
        x, slope = _reflect(x, size, align)
    if padding != ZEROS:
        slope = slope * ((x > 0) & (x < size - 1))
        x = np.clip(np.where(np.isnan(x), 0, x), 0, size - 1)
    return x.astype(slope.dtype), slope


def _pad(x: Tensor, size: int, padding: int, align: bool) -> Tensor:
    """`place_points` in recorded operators."""
    if padding == ZEROS:
        return x
    result, slope = (v.astype(x._array.dtype) for v in place_points(x._array, size, padding, align))
    outside = ~np.isfinite(x._array)
    if outside.any():
        x, slope = x.masked_fill(wrap(outside), 0), np.where(outside, 0, slope)
    return x * wrap(slope) + wrap(result - x._array * slope)


class _Image:
    """An image (n, c, *sizes), indexed by integer coordinates (n, *points), last axis first."""

    def __init__(self, input: Tensor, points: tuple[int, ...]) -> None:
        n, c, *sizes = input._array.shape
        self.flat = input.reshape(n, c, -1)
        self.sizes, self.points = sizes, points
        self.shape = (n, c, *points)

    def at(self, coordinates: list[np.ndarray]) -> tuple[Tensor, Any]:
        """Return (the pixels (n, c, *points), whether each lies inside (n, *points))."""
        inside: Any = True
        offset: Any = 0
        for x, size in zip(coordinates, self.sizes, strict=True):
            inside = inside & (x >= 0) & (x < size)
            offset = offset * size + np.clip(x, 0, size - 1)
        result = pixels(self.flat, wrap(offset.reshape(len(offset), -1)))
        return result.reshape(self.shape), inside


def _convert_to_integers(x: np.ndarray) -> np.ndarray:
    """Convert whole floats to integers; values far outside stay outside."""
    widened = x.astype(np.float64)
    return np.clip(np.where(np.isnan(widened), -1e9, widened), -1e9, 1e9).astype(np.int64)


def _weigh(image: _Image, coordinates: list[np.ndarray], weight: Tensor) -> Tensor:
    """Return pixels times their weights, 0 outside the image."""
    result, inside = image.at(coordinates)
    if not inside.all():
        weight = weight * wrap(inside.astype(weight._array.dtype))
    y: Tensor = result * weight.unsqueeze(1)
    return y


def _interpolate_linearly(image: _Image, xs: list[Tensor]) -> Tensor:
    """Linear interpolation between the 2 ** axes pixels around each point."""
    floors = [np.floor(x._array) for x in xs]
    beyond = [x - wrap(f) for x, f in zip(xs, floors, strict=True)]
    origins = [_convert_to_integers(f) for f in floors]
    y: Any = None
    for corner in itertools.product((0, 1), repeat=len(xs)):
        weight: Any = None
        for b, t in zip(corner, beyond, strict=True):
            factor = t if b else 1 - t
            weight = factor if weight is None else weight * factor
        part = _weigh(image, [f + b for f, b in zip(origins, corner, strict=True)], weight)
        y = part if y is None else y + part
    return y


def _interpolate_cubically(image: _Image, xs: list[Tensor], padding: int, align: bool) -> Tensor:
    """Cubic interpolation of the 16 pixels around each point; padding applies to each pixel."""
    floors = [np.floor(x._array) for x in xs]
    weights = [cubic_weights(x - wrap(f)) for x, f in zip(xs, floors, strict=True)]
    y: Any = None
    for i, j in itertools.product(range(4), repeat=2):
        taps = [
            _convert_to_integers(place_points(f + k - 1, size, padding, align)[0])
            for f, k, size in zip(floors, (i, j), image.sizes, strict=True)
        ]
        part = _weigh(image, taps, weights[0][i] * weights[1][j])
        y = part if y is None else y + part
    return y


def sample_by_operators(
    input: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool
) -> Tensor:
    """Sample with recorded operators."""
    sizes = input._array.shape[2:]
    image = _Image(input, grid._array.shape[1:-1])
    # The grid's last axis lists x, y, z; axes are d, h, w.
    xs = [
        _convert_to_pixels(grid.select(-1, len(sizes) - 1 - i), size, align_corners)
        for i, size in enumerate(sizes)
    ]
    if mode == BICUBIC:
        return _interpolate_cubically(image, xs, padding, align_corners)
    xs = [_pad(x, n, padding, align_corners) for x, n in zip(xs, sizes, strict=True)]
    if mode == BILINEAR:
        return _interpolate_linearly(image, xs)
    # 0 * x: the gradient of the grid is zero, not absent.
    weight = 1 + wrap(np.zeros((), input._array.dtype)) * xs[0]
    return _weigh(image, [_convert_to_integers(np.rint(x._array)) for x in xs], weight)
