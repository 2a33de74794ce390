"""Interpolation: images and signals resampled to other sizes.

Every mode is a linear map along each axis, given by taps (resampling_taps.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...native.foundation.user_frames import warn
from ...tensor.dtypes import FROM_NUMPY
from ...tensor.layout import contiguous_format, suggest_format
from ...tensor.meta import MetaArray, meta_array
from ...tensor.promotion import build_missing_kernel_error
from ...tensor.tensor import Tensor
from ..core.operator import Array
from ..core.output_layout import Layout
from ..core.promotion import compute_dtype
from ..core.registry import composite, opaque
from ..core.sample_inputs import Rng, Sample
from ..core.scalar_conversion import convert_scalar
from ..creation.copies import in_format
from .resample_native import resample_axis
from .resampling_taps import SMOOTH_TAPS, TAPS, Taps, compute_taps

ARRAYS_COME_FROM_SHAPES = True  # those handed to operators here: tensor/capture_marks.py


# ---------------------------------------------------------------------------------- resampling


def _broadcast_along(weights: np.ndarray, axis: int, ndim: int) -> np.ndarray:
    """A vector that broadcasts along one axis."""
    return weights.reshape([-1 if i == axis else 1 for i in range(ndim)])


def _create_unread_taps(axis: int, out: int) -> Taps:
    """Taps of a meta tensor: nobody reads them, and they take no memory."""
    return Taps(axis, np.broadcast_to(np.int64(0), (1, out)), None)


def _resample_axis(x: Array, taps: Taps) -> Array:
    axis, indices, weights = taps
    if weights is None:
        return x.take(indices[0], axis)
    y: Any = resample_axis(x, axis, indices, weights, True)
    if y is not None:
        return y
    for tap, weight in zip(indices, weights, strict=True):
        part = x.take(tap, axis)
        part *= _broadcast_along(weight, axis, x.ndim)
        y = part if y is None else np.add(y, part, y)
    return y


def _transpose_taps(n: int, taps: Taps) -> Taps:
    """Return the taps of the adjoint: for each of n elements, the results it is a tap of, or -1."""
    axis, indices, weights = taps
    count, out = indices.shape
    flat = indices.reshape(-1)
    order = np.argsort(flat, kind="stable")
    element = flat[order]
    uses = np.bincount(element, minlength=n)
    rank = np.arange(element.size) - np.repeat(np.cumsum(uses) - uses, uses)
    results = np.full((uses.max(initial=1), n), -1)
    results[rank, element] = np.tile(np.arange(out), count)[order]
    if weights is None:
        return Taps(axis, results, None)
    transposed = np.zeros(results.shape, weights.dtype)
    transposed[rank, element] = weights.reshape(-1)[order]
    return Taps(axis, results, transposed)


def _spread_axis(g: Array, n: int, taps: Taps) -> Array:
    """The adjoint of `_resample_axis`: indices ascend, so that sums are over runs."""
    axis, indices, weights = taps
    if g.__class__ is np.ndarray:
        y = resample_axis(g, *_transpose_taps(n, taps), False)
        if y is not None:
            return y
    shape = list(g.shape)
    shape[axis] = n
    result = np.zeros(shape, g.dtype)
    head = (slice(None),) * axis
    for k, tap in enumerate(indices):
        part = g if weights is None else g * _broadcast_along(weights[k], axis, g.ndim)
        starts = np.flatnonzero(np.r_[True, tap[1:] != tap[:-1]])
        result[(*head, tap[starts])] += np.add.reduceat(part, starts, axis)
    return result


def _samples(rng: Rng) -> Iterator[Sample]:
    for mode in ("linear", "nearest", "bicubic"):
        taps = tuple(compute_taps(axis, n, out, mode, False, None, False, np.float64)
                     for axis, n, out in ((1, 3, 5), (2, 4, 3)))
        yield (rng.normal(size=(2, 3, 4)), taps), {}


def _reference(x: np.ndarray, taps: tuple[Taps, ...]) -> np.ndarray:
    for axis, indices, weights in taps:
        matrix = np.zeros((indices.shape[1], x.shape[axis]))
        for k, tap in enumerate(indices):
            for i, p in enumerate(tap):
                matrix[i, p] += 1 if weights is None else weights[k, i]
        x = np.moveaxis(np.tensordot(matrix, x, (1, axis)), 0, axis)
    return x


@opaque(linear_in="input", layout=Layout.CHANNELS_LAST, examples=("input",),
        name="_resampled", node="UpsampleBackward0", expose=(), ref=_reference, samples=_samples)
def resampled(input: Array, taps: Any) -> Array:
    """Resample the tensor along axes, one after another."""
    if input.__class__ is MetaArray:
        shape = list(input.shape)
        for t in taps:
            shape[t.axis] = t.indices.shape[1]
        return meta_array(shape, input.dtype)
    if not taps:
        return input.copy()
    if input.dtype == np.uint8 and any(t.weights is not None for t in taps):
        return _resample_bytes(input, taps)
    only_moves = all(t.weights is None for t in taps)
    y = input if only_moves else input.astype(compute_dtype(input.dtype), copy=False)
    for t in taps:
        y = _resample_axis(y, t)
    return y.astype(input.dtype, copy=False)


def _resample_bytes(x: Array, taps: Sequence[Taps]) -> Array:
    """Resample eight-bit values: each axis is rounded to eight bits."""
    for t in taps:
        weighted = _resample_axis(x.astype(np.float32 if t.weights is None else t.weights.dtype), t)
        x = np.clip(np.floor(weighted + 0.5), 0, 255).astype(np.uint8)
    return x


@resampled.vjp
def _(g: Tensor, input_shape: tuple[int, ...], taps: Any) -> Tensor:
    is_cubic = any(len(t.indices) > 2 for t in taps)  # PyTorch's gradients are row-major then
    form = contiguous_format if is_cubic else suggest_format(g._array)
    return in_format(_resampled_adjoint(g, input_shape, taps), form)


@opaque(linear_in="g", examples=("g",),
        layout=Layout.FREE, name="_resampled_adjoint", expose=(), ref=None, samples=None)
def _resampled_adjoint(g: Array, shape: Any, taps: Any) -> Array:
    """The cotangent of `resampled`."""
    if g.__class__ is MetaArray:
        return meta_array(shape, g.dtype)
    y = g.astype(compute_dtype(g.dtype), copy=False)
    for t in reversed(taps):
        y = _spread_axis(y, shape[t.axis], t)
    return y.astype(g.dtype, copy=False)


@_resampled_adjoint.vjp
def _(g: Tensor, taps: Any) -> Tensor:
    return resampled(g, taps)


# ------------------------------------------------------------------------------- nn.functional

_RANKS = {"linear": 3, "bilinear": 4, "bicubic": 4, "trilinear": 5, "lanczos": 4}
_MODES = "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact"


def _name_nodes() -> dict[tuple[str, int, bool], str]:
    """Return PyTorch's names by mode, spatial axes and whether the filter is antialiasing."""
    result = {("area", 1, False): "SqueezeBackward1"}
    for n in (1, 2, 3):
        result["nearest", n, False] = f"UpsampleNearest{n}DBackward0"
        result["nearest-exact", n, False] = f"UpsampleNearestExact{n}DBackward0"
        result.setdefault(("area", n, False), f"AdaptiveAvgPool{n}DBackward0")
    for mode, rank in _RANKS.items():
        result[mode, rank - 2, False] = f"Upsample{mode.capitalize()}{rank - 2}DBackward0"
        result[mode, rank - 2, True] = f"Upsample{mode.capitalize()}{rank - 2}DAaBackward0"
    return result


NODES = _name_nodes()


def _find_overload(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> tuple[str, int, bool]:
    return mode, input._array.ndim - 2, antialias


@composite(expose=("nn.functional",), explains=True, node=NODES,
           overload=_find_overload)
def interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    antialias: bool = False
) -> Tensor:
    """Resize input (n, c, [d, [h,]] w) to `size` or by `scale_factor`.

    mode: "nearest" (as OpenCV), "nearest-exact" (as PIL), "linear" for 3D, "bilinear", "bicubic"
    and "lanczos" for 4D, "trilinear" for 5D input, "area". `align_corners` aligns the centers of
    the corner pixels instead of their edges. `antialias` low-pass filters when downsampling.
    ValueError and NotImplementedError, as in PyTorch, for invalid arguments.

    >>> torch.nn.functional.interpolate(torch.tensor([[[1., 2.]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    align = _check_align(mode, align_corners)
    spatial = input._array.shape[2:]
    sizes, factors = _choose_sizes(spatial, size, scale_factor)
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if factors is not None:
        sizes = choose_lengths(spatial, factors)
        if recompute_scale_factor or mode == "area":
            factors = None
    if antialias and not (mode in SMOOTH_TAPS and input.dim() == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires "
            f"a 4-D tensor as input, not {mode} and {input.dim()}-D"
        )
    _check_mode(input, mode)
    if mode == "lanczos" and (align or not antialias):
        raise ValueError("Lanczos mode does not support align_corners=True" if align
                         else "Lanczos mode requires antialias=True")
    return resample(input, sizes, factors, mode, align, antialias)


def choose_lengths(spatial: tuple[int, ...], factors: Any) -> list[int]:
    """Return the lengths of axes that are resized by factors."""
    return [convert_scalar(float(n * f), np.dtype(np.int64)).item()
            for n, f in zip(spatial, factors, strict=True)]


def resample(
    input: Tensor, sizes: list[int], factors: Any, mode: str, align: bool, antialias: bool
) -> Tensor:
    """Resize images to `sizes`. `factors`: for each axis the factor that stands for the ratio of
    the lengths, or None."""
    _check_input(input, sizes, mode)
    spatial = input._array.shape[2:]
    fixed_point = input._array.dtype == np.uint8 and mode in SMOOTH_TAPS  # the modes of images
    kind = np.float64 if input._array.dtype == np.float64 or fixed_point else np.float32
    factors = factors or [None] * len(sizes)
    if input.is_meta:
        return resampled(input, tuple(_create_unread_taps(i + 2, n) for i, n in enumerate(sizes)))
    # From the last axis on, as the partial results stay smaller and the loops longer.
    return resampled(input, tuple(
        compute_taps(i + 2, spatial[i], sizes[i], mode, align, factors[i], antialias, kind,
                     fixed_point)
        for i in reversed(range(len(sizes)))
        if antialias or mode == "area" or (spatial[i], factors[i]) != (sizes[i], None)
    ))


def _check_align(mode: str, align: bool | None) -> bool:
    if align is not None and mode in ("nearest", "area", "nearest-exact"):
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear "
            "| bicubic | trilinear"
        )
    return bool(align)


def _choose_sizes(spatial: tuple[int, ...], size: Any, factor: Any) -> tuple[Any, Any]:
    """(output sizes or None, scale factors or None)."""
    if size is not None and factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and factor is None:
        raise ValueError("either size or scale_factor should be defined")
    per_axis = size if factor is None else factor
    if isinstance(per_axis, Tensor):
        per_axis = per_axis.tolist()
    if isinstance(per_axis, (tuple, list)):
        if len(per_axis) != len(spatial):
            label, of, letter = (("output size", "output size of", "o") if factor is None
                                else ("scale_factor", "scale_factor of shape", "s"))
            raise ValueError(
                f"Input and {label.removesuffix(' size')} must have the same number of spatial "
                f"dimensions, but got input with spatial dimensions of {list(spatial)} and {of} "
                f"{per_axis}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and "
                f"{label} in ({letter}1, {letter}2, ...,{letter}K) format."
            )
        result = list(per_axis)
    else:
        result = [per_axis] * len(spatial)
    if factor is not None:
        return None, [float(f) for f in result]
    for n in result:
        if isinstance(n, (bool, float)) or not hasattr(n, "__index__") or (
            isinstance(n, Tensor) and n.dtype.is_floating_point
        ):
            kinds = [type(m) for m in size] if hasattr(size, "__iter__") else type(size)
            raise TypeError("expected size to be one of int or Tuple[int] or Tuple[int, int] or "
                            f"Tuple[int, int, int], but got size with types {kinds}")
    return [n.__index__() for n in result], None


def _check_mode(input: Tensor, mode: str) -> None:
    rank = input.dim()
    if rank in (3, 4, 5) and mode in ("linear", "bilinear", "trilinear") and _RANKS[mode] != rank:
        raise NotImplementedError(
            f"Got {rank}D input, but {mode} mode needs {_RANKS[mode]}D input"
        )
    if rank not in (3, 4, 5) or (mode not in TAPS and mode != "lanczos") or (
        _RANKS.get(mode, rank) != rank
    ):
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {rank}D) for the modes: "
            f"{_MODES} (got {mode})"
        )


def _check_input(input: Tensor, sizes: Sequence[int], mode: str) -> None:
    shape, kind = input._array.shape, FROM_NUMPY[input._array.dtype]
    if min(shape[2:]) <= 0 or min(sizes) <= 0:
        names = "DHW"[-len(sizes) :]
        supplied, wanted = (", ".join(f"{a}: {n}" for a, n in zip(names, s, strict=True))
                            for s in (shape[2:], sizes))
        raise RuntimeError(
            "Input and output sizes should be greater than 0, but got input "
            f"({supplied}) output ({wanted})"
        )
    if shape[1] == 0:
        raise RuntimeError(
            f"Non-empty {len(shape)}D data tensor expected but got a tensor with sizes "
            f"{list(shape)}"
        )
    takes_bytes = mode not in ("linear", "trilinear", "area")
    if not kind.is_floating_point and not (takes_bytes and input._array.dtype == np.uint8):
        kernel_name = "nearest" if mode.startswith("nearest") else "linear"
        raise build_missing_kernel_error(f"compute_indices_weights_{kernel_name}", kind)


def _warn_old(name: str) -> None:
    warn(f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.")


@composite(expose=("nn.functional",))
def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: Any = None
) -> Tensor:
    """Deprecated name of `interpolate`.

    >>> torch.nn.functional.upsample(torch.tensor([[[1., 2.]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    _warn_old("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


@composite(expose=("nn.functional",))
def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Call `interpolate` with mode "nearest".

    >>> torch.nn.functional.upsample_nearest(torch.tensor([[[1., 2.]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    _warn_old("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")


@composite(expose=("nn.functional",))
def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Call `interpolate` with mode "bilinear" and aligned corners.

    >>> torch.nn.functional.upsample_bilinear(torch.tensor([[[[1., 2.]]]]), size=(1, 3))
    tensor([[[[1.0000, 1.5000, 2.0000]]]])
    """
    _warn_old("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
