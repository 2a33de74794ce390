"""Sample images at grid points: grid_sample, and affine_grid, which creates the grid.

One operator samples and two compute its gradients. Second derivatives use recorded operators
(`ops/spatial/grid_sample_composite.py`).
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...autograd.backward import compute_differentiable_adjoint
from ...autograd.mode import MODE
from ...autograd.tangents import push_through
from ...native.foundation.user_frames import warn
from ...tensor.meta import MetaArray, meta_array
from ...tensor.promotion import legacy_name
from ...tensor.tensor import Tensor, wrap
from ..core.autocast import Policy
from ..core.operator import Array
from ..core.output_layout import Layout
from ..core.promotion import compute_dtype
from ..core.registry import composite, opaque
from ..core.sample_inputs import Rng, Sample
from ..creation.interchange import tensor
from ..creation.sequences import linspace
from ..view.join import stack
from .grid_native import compute_image_adjoint, compute_points_adjoint, sample
from .grid_sample_composite import (
    BICUBIC, BILINEAR, BORDER, NEAREST, place_points, sample_by_operators,
)
from .resampling_taps import cubic_slopes, cubic_weights

_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
_PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}
_WORDS, _PADS = tuple(_MODES), tuple(_PADDINGS)


# ----------------------------------------------------------------------------------- operators


class _Taps(NamedTuple):
    """The pixels that contribute to each point, (taps, n, points): their indices, whether they lie
    inside, their weights, and the weights' derivatives by coordinate (axes, taps, n, points)."""

    places: np.ndarray
    inside: np.ndarray
    weights: np.ndarray
    slopes: np.ndarray


def _multiply_subtract(x: Array, factor: Array, shift: float) -> Array:
    """Return x * factor - shift, rounded once. `factor` has few bits: half a size."""
    if x.dtype != np.float64:
        return (x * factor.astype(np.float64) - shift).astype(x.dtype)
    far = np.abs(x) > 2.0**52  # whole numbers, outside of any image
    spread = x * (2.0**27 + 1)
    high = np.where(far, x, spread - (spread - x))  # half of the bits (Dekker, 1971): their product
    low = np.where(far, 0.0, x - high)  # is exact
    return (high * factor - shift) + low * factor


def _compute_axis_taps(
    coordinates: Array, size: int, mode: int, padding: int, align: bool
) -> list[tuple[Array, Array, Array]]:
    """The taps along one axis: indices, weights, and the weights' derivatives by the grid."""
    factor = np.asarray((size - 1) / 2 if align else size / 2, coordinates.dtype)
    # Rounded once, as in PyTorch and the kernels: the nearest pixel depends on it.
    x = _multiply_subtract(coordinates + 1, factor, 0 if align else 0.5)
    ones = np.ones_like(x)
    if mode != BICUBIC:
        x, slope = place_points(x, size, padding, align)
        if mode == NEAREST:
            return [(np.rint(x), ones, 0 * ones)]
        floor, slope = np.floor(x), slope * factor
        return [(floor, 1 - (x - floor), -slope), (floor + 1, x - floor, slope)]
    floor = np.floor(x)
    weights, slopes = cubic_weights(x - floor), cubic_slopes(x - floor)
    return [
        (place_points(floor + k - 1, size, padding, align)[0], weights[k], slopes[k] * factor)
        for k in range(4)
    ]


def _compute_taps(input: Array, grid: Array, mode: int, padding: int, align: bool) -> _Taps:
    """Return the taps of all points."""
    sizes = input.shape[2:]
    along = [
        _compute_axis_taps(
            grid[..., len(sizes) - 1 - i].reshape(len(grid), -1), n, mode, padding, align
        )
        for i, n in enumerate(sizes)
    ]
    result: list[tuple] = []
    for taps in itertools.product(*along):
        place, inside = np.int64(0), np.True_
        for (x, _, _), n in zip(taps, sizes, strict=True):
            is_inside = (x >= 0) & (x <= n - 1)
            place = place * n + np.where(is_inside, x, 0).astype(np.int64)
            inside = inside & is_inside
        slopes = [prod(t[2 if k == i else 1] for k, t in enumerate(taps)) for i in range(len(taps))]
        result.append((place, inside, prod(t[1] for t in taps), np.stack(slopes)))
    offsets, present, weights, by = zip(*result, strict=True)
    return _Taps(np.stack(offsets), np.stack(present), np.stack(weights), np.stack(by, 1))


def _gather_tap(flat: Array, taps: _Taps, k: int) -> Array:
    """The pixels (n, c, points) of one tap, 0 outside the image."""
    values = np.take_along_axis(flat, taps.places[k][:, None], 2)
    return np.where(taps.inside[k][:, None], values, 0)


def _samples(rng: Rng) -> Iterator[Sample]:
    for mode, padding, align in itertools.product(range(3), range(3), (False, True)):
        points = rng.uniform(-1.4, 1.4, (2, 2, 3, 2))
        yield (rng.normal(size=(2, 2, 3, 4)), points, mode, padding, align), {}
    points = rng.uniform(-1.4, 1.4, (1, 1, 2, 3, 3))
    yield (rng.normal(size=(1, 2, 3, 2, 4)), points, BILINEAR, BORDER, False), {}


def _reference(
    input: np.ndarray, grid: np.ndarray, mode: int, padding: int, align: bool
) -> np.ndarray:
    return sample_by_operators(wrap(input), wrap(grid), mode, padding, align)._array


@opaque(examples=("input", "grid"),
        name="_grid_sampler", expose=(), samples=_samples,
        node=("GridSampler2DBackward0", "GridSampler3DBackward0"),
        overload=lambda input, *_: input._array.ndim - 4,
        ref=_reference)
def _sampler(input: Array, grid: Array, mode: int, padding: Any, align: bool) -> Array:
    """Sample input (n, c, *sizes) at grid (n, *points, axes); return (n, c, *points)."""
    n, c, points = *input.shape[:2], grid.shape[1:-1]
    if input.__class__ is MetaArray or grid.__class__ is MetaArray:
        return meta_array((n, c, *points), input.dtype)
    if not n * c * prod(points):
        return np.empty((n, c, *points), input.dtype)
    words = _WORDS[mode], _PADS[padding]
    y = sample(input, grid, *words, align)
    if y is not None:
        return y
    taps, flat = _compute_taps(input, grid, mode, padding, align), input.reshape(n, c, -1)
    y = np.zeros((n, c, taps.places.shape[-1]), input.dtype)
    for k, weight in enumerate(taps.weights):
        y += _gather_tap(flat, taps, k) * weight[:, None]
    return y.reshape(n, c, *points)


@_sampler.jvp
def _(
    input_t: Tensor | None, grid_t: Tensor | None, input: Tensor, grid: Tensor, mode: int,
    padding: Any, align: bool
) -> Tensor | None:
    return push_through(lambda x, points: (sample_by_operators(x, points, mode, padding, align),),
                        (input, grid), (input_t, grid_t), 1)[0]


@_sampler.vjp
def _(
    g: Tensor, input: Tensor, grid: Tensor, mode: int, padding: Any, align: bool,
    needs: tuple[bool, ...]
) -> tuple[Tensor | None, ...]:
    if MODE.grad:
        return compute_differentiable_adjoint(
            lambda x, points: (sample_by_operators(x, points, mode, padding, align),),
            (input, grid), (g,), needs[:2],
        )
    args = g, input, grid, mode, padding, align
    return (_image_adjoint(*args) if needs[0] else None,
            _points_adjoint(*args) if needs[1] else None)


@opaque(layout=Layout.FREE, examples=("g", "input", "grid"),
        name="_grid_sampler_image_backward", expose=(), differentiable=False, ref=None,
        samples=None)
def _image_adjoint(
    g: Array, input: Array, grid: Array, mode: int, padding: Any, align: bool
) -> Array:
    """The cotangent of the image: each point's cotangent scattered to its pixels."""
    if g.__class__ is MetaArray or input.__class__ is MetaArray:
        return meta_array(input.shape, input.dtype)
    if not g.size:
        return np.zeros(input.shape, input.dtype)
    y = compute_image_adjoint(g, input, grid, _WORDS[mode], _PADS[padding], align)
    if y is not None:
        return y
    taps, (n, c, *sizes) = _compute_taps(input, grid, mode, padding, align), input.shape
    above, result = g.reshape(n, c, -1), np.zeros((n, c, prod(sizes)), np.float64)
    for k, (weight, inside) in enumerate(zip(taps.weights, taps.inside, strict=True)):
        for i, valid in enumerate(inside):
            to, by = taps.places[k, i][valid], weight[i][valid].astype(np.float64)
            for channel in range(c):
                weighted = above[i, channel][valid] * by
                result[i, channel] += np.bincount(to, weighted, result.shape[-1])
    return result.reshape(input.shape).astype(input.dtype)


@opaque(layout=Layout.FREE, examples=("g", "input", "grid"),
        name="_grid_sampler_points_backward", expose=(), differentiable=False, ref=None,
        samples=None)
def _points_adjoint(
    g: Array, input: Array, grid: Array, mode: int, padding: Any, align: bool
) -> Array:
    """The cotangent of the grid."""
    if g.__class__ is MetaArray or grid.__class__ is MetaArray:
        return meta_array(grid.shape, grid.dtype)
    if mode == NEAREST or not g.size:
        return np.zeros(grid.shape, grid.dtype)
    y = compute_points_adjoint(g, input, grid, _WORDS[mode], _PADS[padding], align)
    if y is not None:
        return y
    n, c = input.shape[:2]
    taps, flat, above = _compute_taps(input, grid, mode, padding, align), input.reshape(n, c, -1), \
        g.reshape(n, c, -1)
    result = np.zeros((grid.shape[-1], *taps.places.shape[1:]), grid.dtype)
    for k in range(len(taps.places)):
        result += taps.slopes[:, k] * (_gather_tap(flat, taps, k) * above).sum(1)
    return np.stack([*result[::-1]], -1).reshape(grid.shape)


@composite(autocast=Policy.FULL, expose=("torch",))
def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sample` with its modes given as numbers: 0, 1, 2 in the order of its docs.

    Args:
        padding_mode (int): What lies outside: 0: zeros, 1: border, 2: reflection.

    >>> grid = torch.tensor([[[[0., 0.], [1., 1.]]]])  # the centre, the last corner: (x, y)
    >>> torch.grid_sampler_2d(torch.tensor([[[[1., 2.], [3., 4.]]]]), grid, 0, 0, True)
    tensor([[[[2.5000, 4.0000]]]])
    """
    _check(input, grid, interpolation_mode)
    kind, half = input.dtype, compute_dtype(input._array.dtype) != input._array.dtype
    if half:
        input, grid = input.float(), grid.float()
    y = _sampler(input, grid, interpolation_mode, padding_mode, bool(align_corners))
    return y.to(kind) if half else y


def _check(input: Tensor, grid: Tensor, mode: int) -> None:
    shape, points = input._array.shape, grid._array.shape
    sizes = f"got input with sizes {list(shape)} and grid with sizes {list(points)}"
    if len(shape) not in (4, 5) or len(points) != len(shape):
        if points and points[-1] != len(shape) - 2:
            raise RuntimeError(
                f"grid_sampler(): expected grid to have size {len(shape) - 2} in last dimension, "
                f"but got grid with sizes {list(points)}"
            )
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but "
            + sizes
        )
    if shape[0] != points[0]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, but {sizes}"
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
    if mode == BICUBIC and len(shape) != 4:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if input._array.dtype != grid._array.dtype:
        names = [legacy_name(x.dtype).removesuffix("Tensor") for x in (input, grid)]
        raise RuntimeError(f"expected scalar type {names[0]} but found {names[1]} (grid_sampler)")


def _choose_alignment(align: bool | None) -> bool:
    if align is None:
        warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since "
            "1.3.0. Please specify align_corners=True if the old behavior is desired.",
        )
    return bool(align)


@composite(expose=("nn.functional",))
def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool | None = None
) -> Tensor:
    """Sample input (n, c, [d,] h, w) at the points of grid (n, [d',] h', w', 2 or 3).

    A point is (x, y[, z]), with -1 and 1 at the outer edges of the border pixels, or at their
    centers with `align_corners`. mode: "bilinear", "nearest", "bicubic"; padding_mode, for points
    outside: "zeros", "border", "reflection". ValueError for other modes, RuntimeError if shapes
    do not fit.

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
        input, grid, _MODES[mode], _PADDINGS[padding_mode], _choose_alignment(align_corners)
    )


for _name in ("grid_sampler_2d", "grid_sampler_3d"):
    composite(name=_name, expose=("torch",))(grid_sampler)


# ------------------------------------------------------------------------------------ affine grids


def _create_axis(n: int, align: bool, kind: Any) -> Tensor:
    """n points along an axis, from border to border, rounded as PyTorch's: an identity map reads
    whole pixels, where a difference in the last bit decides between two slopes."""
    if n <= 1:
        return tensor([0.0] * n, dtype=kind)
    points = linspace(-1, 1, n, dtype=kind)
    return points if align else points * (n - 1) / n


@composite(expose=("torch",))
def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """`affine_grid` without its checks.

    >>> torch.affine_grid_generator(torch.eye(2, 3)[None], [1, 1, 1, 2], False)
    tensor([[[[-0.5000,  0.0000],
              [ 0.5000,  0.0000]]]])
    """
    sizes, kind = [operator.index(n) for n in tuple(size)[2:]], theta.dtype
    axes = [_create_axis(n, align_corners, kind) for n in sizes]
    lines = [a.reshape(*(-1 if i == k else 1 for i in range(len(sizes)))).expand(*sizes)
             for k, a in enumerate(axes)]
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


@composite(expose=("nn.functional",), explains=True)
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Return the sampling grid of affine maps `theta` (n, 2, 3) for images of `size`.

    size (n, c, h, w) gives grid (n, h, w, 2) for grid_sample; theta (n, 3, 4) and (n, c, d, h, w)
    give (n, d, h, w, 3). ValueError if shapes do not fit.

    >>> grid = torch.nn.functional.affine_grid(torch.eye(2, 3)[None], (1, 1, 2, 2), True)
    >>> grid[0, 0]  # the first row of pixels, as (x, y)
    tensor([[-1., -1.],
            [ 1., -1.]])
    """
    align = _choose_alignment(align_corners)
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
        warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when "
            "align_corners=True. This is not an intended use case of affine_grid. See the "
            "documentation of affine_grid for details.",
        )
    elif min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return affine_grid_generator(theta, size, align)
