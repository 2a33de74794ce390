"""Sampling images at the points of a grid: grid_sample, and affine_grid, which makes the points.

Coordinates are computed in recorded operators and pixels gathered by one operator of their own, so
that everything differentiates any number of times.
"""

from __future__ import annotations

import itertools
import warnings

import numpy as np

from ..tensor.promote import legacy_name
from ..tensor.tensor import Tensor, wrap
from .conversion import tensor
from .interpolation import cubic_weights
from .join import stack
from .promotion import compute_dtype
from .registry import Array, composite, opaque
from .resampled_native import pixels_taken
from .samples import Rng

_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
_PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}
_BILINEAR, _NEAREST, _BICUBIC = range(3)
_ZEROS, _BORDER, _REFLECTION = range(3)


# -------------------------------------------------------------------------------------- pixels


def _samples(rng: Rng):
    yield (rng.normal(size=(2, 3, 4)), rng.integers(0, 4, (2, 5))), {}


@opaque(name="_pixels", node="GridSamplerBackward0", expose=(), samples=_samples,
        ref=lambda x, places: np.stack([x[i][:, p] for i, p in enumerate(places)]))  # fmt: skip
def pixels(input: Array, places: Array) -> Array:
    """input (n, c, pixels) at places (n, points): (n, c, points)."""
    y = pixels_taken(input, places)
    return np.take_along_axis(input, places[:, None, :], 2) if y is None else y


@pixels.vjp("input")
def _(g, input_shape, places):
    return _pixels_adjoint(g, input_shape, places)


@opaque(name="_pixels_adjoint", expose=(), ref=None, samples=None)
def _pixels_adjoint(g: Array, shape, places: Array) -> Array:
    """The cotangent of `pixels`: points added up in their pixels."""
    n, c, size = shape
    made = np.empty(shape, compute_dtype(g.dtype))
    for i in range(n):
        for k in range(c):
            made[i, k] = np.bincount(places[i], g[i, k].astype(np.float64, copy=False), size)
    return made.astype(g.dtype, copy=False)


@_pixels_adjoint.vjp("g")
def _(g, places):
    return pixels(g, places)


# --------------------------------------------------------------------------------- coordinates


def _in_pixels(x: Tensor, size: int, align: bool) -> Tensor:
    """Coordinates from -1..1 to pixels."""
    return (x + 1) * ((size - 1) / 2) if align else ((x + 1) * size - 1) * 0.5


def _reflected(x: np.ndarray, size: int, align: bool) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates mirrored at the borders until they lie inside, and their derivative."""
    low, span = (0.0, size - 1.0) if align else (-0.5, float(size))
    if span <= 0:
        return np.zeros_like(x), np.zeros_like(x)
    distance = np.abs(x - low)
    flips = np.floor(distance / span)
    extra = distance - flips * span
    even = flips % 2 == 0
    slope = np.where(even, 1.0, -1.0) * np.where(x < low, -1.0, 1.0)
    return np.where(even, extra + low, span - extra + low), slope


def _placed(x: np.ndarray, size: int, padding: int, align: bool) -> tuple[np.ndarray, np.ndarray]:
    """(coordinates after padding, their derivative by what they were)."""
    slope = np.ones_like(x)
    if padding == _REFLECTION:
        x, slope = _reflected(x, size, align)
    if padding != _ZEROS:
        slope = slope * ((x > 0) & (x < size - 1))
        x = np.clip(np.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0), 0, size - 1)
    return x.astype(slope.dtype), slope


def _padded(x: Tensor, size: int, padding: int, align: bool) -> Tensor:
    """The same on recorded coordinates."""
    if padding == _ZEROS:
        return x
    made, slope = (v.astype(x._array.dtype) for v in _placed(x._array, size, padding, align))
    outside = ~np.isfinite(x._array)
    if outside.any():
        x, slope = x.masked_fill(wrap(outside), 0), np.where(outside, 0, slope)
    return x * wrap(slope) + wrap(made - x._array * slope)


class _Image:
    """An image (n, c, *sizes), looked up by whole coordinates (n, *points), the last axis first."""

    def __init__(self, input: Tensor, points: tuple[int, ...]) -> None:
        n, c, *sizes = input._array.shape
        self.flat = input.reshape(n, c, -1)
        self.sizes, self.points = sizes, points
        self.shape = (n, c, *points)

    def at(self, coordinates: list[np.ndarray]) -> tuple[Tensor, np.ndarray]:
        """(the pixels (n, c, *points), which of them lie inside (n, *points))."""
        inside, places = True, 0
        for x, size in zip(coordinates, self.sizes, strict=True):
            inside = inside & (x >= 0) & (x < size)
            places = places * size + np.clip(x, 0, size - 1)
        found = pixels(self.flat, wrap(places.reshape(len(places), -1)))
        return found.reshape(self.shape), inside


def _whole(x: np.ndarray) -> np.ndarray:
    """Floats that are whole numbers, as integers; what is far outside stays outside."""
    return np.clip(np.nan_to_num(x.astype(np.float64), nan=-1e9), -1e9, 1e9).astype(np.int64)


def _weighted(image: _Image, coordinates: list[np.ndarray], weight: Tensor) -> Tensor:
    """Pixels times their weights, nothing outside."""
    found, inside = image.at(coordinates)
    if not inside.all():
        weight = weight * wrap(inside.astype(weight._array.dtype))
    return found * weight.unsqueeze(1)


def _linear(image: _Image, xs: list[Tensor]) -> Tensor:
    """The mean of the 2 ** axes pixels around each point, by nearness."""
    floors = [np.floor(x._array) for x in xs]
    beyond = [x - wrap(f) for x, f in zip(xs, floors, strict=True)]
    whole = [_whole(f) for f in floors]
    y = None
    for corner in itertools.product((0, 1), repeat=len(xs)):
        weight = None
        for b, t in zip(corner, beyond, strict=True):
            factor = t if b else 1 - t
            weight = factor if weight is None else weight * factor
        part = _weighted(image, [f + b for f, b in zip(whole, corner, strict=True)], weight)
        y = part if y is None else y + part
    return y


def _cubic(image: _Image, xs: list[Tensor], padding: int, align: bool) -> Tensor:
    """The cubic convolution of the 16 pixels around each point; each is padded by itself."""
    floors = [np.floor(x._array) for x in xs]
    weights = [cubic_weights(x - wrap(f)) for x, f in zip(xs, floors, strict=True)]
    y = None
    for i, j in itertools.product(range(4), repeat=2):
        taps = [
            _whole(_placed(f + k - 1, size, padding, align)[0])
            for f, k, size in zip(floors, (i, j), image.sizes, strict=True)
        ]
        part = _weighted(image, taps, weights[0][i] * weights[1][j])
        y = part if y is None else y + part
    return y


@composite(expose=("torch",))
def grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    """grid_sample with its modes as numbers, in the order in which it lists them."""
    _check(input, grid, interpolation_mode)
    kind, half = input.dtype, compute_dtype(input._array.dtype) != input._array.dtype
    if half:
        input, grid = input.float(), grid.float()
    sizes = input._array.shape[2:]
    image = _Image(input, grid._array.shape[1:-1])
    # The grid's last axis lists x, y, z; axes are d, h, w.
    xs = [
        _in_pixels(grid.select(-1, len(sizes) - 1 - i), size, align_corners)
        for i, size in enumerate(sizes)
    ]
    if interpolation_mode == _BICUBIC:
        y = _cubic(image, xs, padding_mode, align_corners)
    else:
        xs = [_padded(x, n, padding_mode, align_corners) for x, n in zip(xs, sizes, strict=True)]
        if interpolation_mode == _BILINEAR:
            y = _linear(image, xs)
        else:
            # 0 * x: the gradient of the grid is zero, not absent.
            weight = 1 + wrap(np.zeros((), input._array.dtype)) * xs[0]
            y = _weighted(image, [_whole(np.rint(x._array)) for x in xs], weight)
    return y.to(kind) if half else y


def _check(input: Tensor, grid: Tensor, mode: int) -> None:
    shape, points = input._array.shape, grid._array.shape
    given = f"got input with sizes {list(shape)} and grid with sizes {list(points)}"
    if len(shape) not in (4, 5) or len(points) != len(shape):
        if points and points[-1] != len(shape) - 2:
            raise RuntimeError(
                f"grid_sampler(): expected grid to have size {len(shape) - 2} in last dimension, "
                f"but got grid with sizes {list(points)}"
            )
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but "
            + given
        )
    if shape[0] != points[0]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, but {given}"
        )
    if points[-1] != len(shape) - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {len(shape) - 2} in last dimension, but "
            f"got grid with sizes {list(points)}"
        )
    for axis, n in enumerate(shape[2:], 2):
        if n == 0:
            raise RuntimeError(
                "grid_sampler(): expected input to have non-empty spatial dimensions, but input "
                f"has sizes {list(shape)} with dimension {axis} being empty"
            )
    if mode == _BICUBIC and len(shape) != 4:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if input._array.dtype != grid._array.dtype:
        names = [legacy_name(x.dtype).removesuffix("Tensor") for x in (input, grid)]
        raise RuntimeError(f"expected scalar type {names[0]} but found {names[1]} (grid_sampler)")


def _aligned(align: bool | None) -> bool:
    if align is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since "
            "1.3.0. Please specify align_corners=True if the old behavior is desired.",
            stacklevel=3,
        )
    return bool(align)


@composite(expose=("nn.functional",))
def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """input (n, c, [d,] h, w) at the points of grid (n, [d',] h', w', 2 or 3).

    A point is (x, y[, z]) with -1 and 1 at the borders: of the pixels, or with `align_corners` of
    their centres. mode: "bilinear", "nearest", "bicubic"; padding_mode, for points outside:
    "zeros", "border", "reflection". ValueError for other modes, RuntimeError where shapes do not
    fit.

    >>> image = torch.tensor([[[[1., 3.]]]])
    >>> torch.nn.functional.grid_sample(image, torch.zeros(1, 1, 1, 2), align_corners=True)
    tensor([[[[2.]]]])
    """
    if mode not in _MODES:
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    if padding_mode not in _PADDINGS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    return grid_sampler(
        input, grid, _MODES[mode], _PADDINGS[padding_mode], _aligned(align_corners)
    )


for _name in ("grid_sampler_2d", "grid_sampler_3d"):
    composite(name=_name, expose=("torch",))(grid_sampler)


# ------------------------------------------------------------------------------------ affine grids


def _axis(n: int, align: bool) -> np.ndarray:
    """n points along an axis from border to border."""
    if n <= 1:
        return np.zeros(n)
    points = np.linspace(-1, 1, n)
    return points if align else points * (n - 1) / n


@composite(expose=("torch",))
def affine_grid_generator(theta, size, align_corners):
    """affine_grid without its checks."""
    sizes, kind = tuple(size)[2:], theta.dtype
    axes = [tensor(_axis(n, align_corners).tolist(), dtype=kind) for n in sizes]
    lines = [a.reshape(*(-1 if i == k else 1 for i in range(len(sizes)))).expand(*sizes)
             for k, a in enumerate(axes)]  # fmt: skip
    ones = tensor(1.0, dtype=kind).expand(*sizes)
    base = stack([*lines[::-1], ones], -1).reshape(1, -1, len(sizes) + 1)
    n = size[0]
    if theta._array.shape[0] != n:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{n}, "
            f"{len(sizes) + 1}] but got: [{theta._array.shape[0]}, {len(sizes) + 1}]."
        )
    grid = base.expand(n, -1, -1) @ theta.transpose(1, 2)
    return grid.reshape(n, *sizes, len(sizes))


@composite(expose=("nn.functional",))
def affine_grid(theta, size, align_corners=None):
    """The points that affine maps `theta` (n, 2, 3) send the pixels of images of `size` to.

    size (n, c, h, w): grid (n, h, w, 2) for grid_sample; theta (n, 3, 4) and (n, c, d, h, w) give
    (n, d, h, w, 3). ValueError where shapes do not fit.
    """
    align = _aligned(align_corners)
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    if len(size) not in (4, 5):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {size}."
        )
    k = len(size) - 2
    if theta.dim() != 3 or tuple(theta.shape[1:]) != (k, k + 1):
        raise ValueError(
            f"Expected a batch of {k}D affine matrices of shape Nx{k}x{k + 1} for size {size}. "
            f"Got {theta.shape}."
        )
    if align and min(size[2:]) == 1:
        warnings.warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when "
            "align_corners=True. This is not an intended use case of affine_grid.",
            stacklevel=2,
        )
    elif min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return affine_grid_generator(theta, size, align)
