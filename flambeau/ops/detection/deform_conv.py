"""Deformable convolution: each kernel tap reads the image at an offset that is an input.

With the sampled values as columns, it is a matrix product. Columns are (image, position, offset
group, tap, channel), so channels that share an offset are one row of the image table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ...tensor.meta import MetaArray, meta_array
from ...tensor.tensor import Tensor
from ..core.operator import Array
from ..core.promotion import compute_dtype
from ..core.registry import opaque
from ..core.sample_inputs import Rng, Sample
from ..native.transpose import put_in_order
from .arguments import check_dtype
from .roi_align import SymInt
from .sampling import Taps, compute_weights_adjoint, spread_taps, sum_taps


def _samples(rng: Rng) -> Iterator[Sample]:
    for groups, offset_groups, stride, pad, dilation, masked in (
        (1, 1, 1, 1, 1, True), (2, 1, 2, 1, 1, False), (1, 2, 1, 2, 2, True), (2, 2, 1, 0, 1, True)
    ):
        out = [(n + 2 * pad - dilation * (k - 1) - 1) // stride + 1 for n, k in ((5, 3), (6, 2))]
        yield (
            rng.normal(size=(2, 4, 5, 6)), rng.normal(size=(2, 4 // groups, 3, 2)),
            rng.normal(size=(2, offset_groups * 12, *out)),
            rng.normal(size=(2, offset_groups * 6, *out)) if masked else np.zeros((2, 1)),
            rng.normal(size=2), stride, stride, pad, pad, dilation, dilation, groups,
            offset_groups, masked,
        ), {}


def _interpolate_pixel(plane: np.ndarray, y: float, x: float) -> float:
    """Interpolate between four pixels, counting those outside as 0: the reference definition."""
    total, top, left = 0.0, int(np.floor(y)), int(np.floor(x))
    for row, by in ((top, 1 - (y - top)), (top + 1, y - top)):
        for column, across in ((left, 1 - (x - left)), (left + 1, x - left)):
            if 0 <= row < plane.shape[0] and 0 <= column < plane.shape[1]:
                total += by * across * plane[row, column]
    return total


def _reference(
    input: np.ndarray, weight: np.ndarray, offset: np.ndarray, mask: np.ndarray, bias: np.ndarray,
    sy: int, sx: int, py: int, px: int, dy: int, dx: int, groups: int, offset_groups: int,
    masked: bool
) -> np.ndarray:
    (n, channels, _, _), (result, channels_per_group, kh, kw) = input.shape, weight.shape
    y = np.zeros((n, result, *offset.shape[2:]))
    for b, m, i, j in np.ndindex(*y.shape):
        y[b, m, i, j] = bias[m]
        for c, r, s in np.ndindex(channels_per_group, kh, kw):
            channel = m // (result // groups) * channels_per_group + c
            tap = (channel // (channels // offset_groups) * kh + r) * kw + s
            point = (i * sy - py + r * dy + offset[b, 2 * tap, i, j],
                     j * sx - px + s * dx + offset[b, 2 * tap + 1, i, j])
            value = _interpolate_pixel(input[b, channel], *point) * (
                mask[b, tap, i, j] if masked else 1
            )
            y[b, m, i, j] += weight[m, c, r, s] * value
    return y


class _Call(NamedTuple):
    """The settings of a call: per axis (y, x), and the groups of weights and of offsets."""

    stride: tuple[int, int]
    pad: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    offset_groups: int
    masked: bool


class _Sampling(NamedTuple):
    """Four taps per column: `taps`, weighted and masked, and the weights' derivatives."""

    taps: Taps
    shares: Array  # (columns, 4): the weights without masks
    slopes: tuple[Array, Array]  # (columns, 4) each
    factors: Array | None  # (columns,): the masks


def _compute_sampling(offset: Array, mask: Array, kernel: tuple[int, int], sizes: tuple[int, int],
                      call: _Call) -> _Sampling:
    """Compute where each column reads, from offset (n, offset_groups * taps * 2, high, wide)."""
    (n, _, high, width), groups = offset.shape, call.offset_groups
    moved = offset.reshape(n, groups, *kernel, 2, high, width).transpose(0, 5, 6, 1, 2, 3, 4)
    kind, starts = offset.dtype, []  # moved: (n, high, wide, group, row, column of the kernel, 2)
    for axis, count in enumerate((high, width)):
        starts_on_axis = (np.arange(count) * call.stride[axis] - call.pad[axis]).astype(kind)
        step = (np.arange(kernel[axis]) * call.dilation[axis]).astype(kind)
        extents = (count if axis == 0 else 1, count if axis else 1, 1)
        by = (kernel[0] if axis == 0 else 1, kernel[1] if axis else 1)
        starts.append(starts_on_axis.reshape(*extents, 1, 1) + step.reshape(1, 1, 1, *by))
    # In the offsets' dtype: in half precision, the positions of taps depend on it.
    y, x = ((moved[..., axis] + starts[axis]).reshape(-1).astype(mask.dtype) for axis in range(2))
    positions, shares, slopes = _find_corners(y, x, sizes)
    shape = (n, high, width, groups, *kernel)
    image = np.arange(n).reshape(-1, 1, 1, 1, 1, 1) * groups
    plane = np.broadcast_to(image + np.arange(groups).reshape(-1, 1, 1), shape).reshape(-1, 1)
    positions += plane * (sizes[0] * sizes[1])
    factors = None
    if call.masked:
        factors = mask.reshape(n, groups, *kernel, high, width).transpose(0, 4, 5, 1, 2, 3)
        factors = factors.reshape(-1)
    weights = shares if factors is None else shares * factors[:, None]
    bounds = np.arange(len(y) + 1) * 4
    return _Sampling(Taps(positions.reshape(-1), weights.reshape(-1), bounds), shares, slopes,
                     factors)


def _find_corners(y: Array, x: Array, sizes: tuple[int, int]) -> tuple[Array, Array, tuple]:
    """Return the four pixels around each point, their weights, and the weights' derivatives by y
    and x; all 0 outside the image."""
    unit, along = y.dtype.type(1), []
    for value, size in ((y, sizes[0]), (x, sizes[1])):
        low = np.floor(value)
        share = value - low
        here, there = (low >= 0) & (low < size), (low >= -1) & (low < size - 1)
        number = np.where(here | there, low, 0).astype(np.int64)
        along.append((
            (np.where(here, number, 0), np.where(there, number + 1, 0)),
            (np.where(here, unit - share, 0), np.where(there, share, 0)),
            (np.where(here, -unit, 0), np.where(there, unit, 0)),
        ))
    (rows, by, down), (columns, across, right) = along
    pairs = [(i, j) for i in range(2) for j in range(2)]
    positions = np.stack([rows[i] * sizes[1] + columns[j] for i, j in pairs], 1)
    shares = np.stack([by[i] * across[j] for i, j in pairs], 1)
    by_y = np.stack([down[i] * across[j] for i, j in pairs], 1)
    by_x = np.stack([by[i] * right[j] for i, j in pairs], 1)
    return positions, shares, (by_y, by_x)


def _tabulate_pixels(input: Array, groups: int) -> Array:
    """Return the image's pixels (n, group, y, x) as rows of one offset group's channels."""
    n, c, h, w = input.shape
    parts = input.reshape(n, groups, c // groups, h, w).transpose(0, 1, 3, 4, 2)
    return np.ascontiguousarray(put_in_order(parts)).reshape(-1, c // groups)


def _order_by_weight_group(columns: Array, call: _Call, taps: int) -> Array:
    """Reorder (position, offset group, tap, channel) to (weight group, position, channel * tap)."""
    pixels = columns.size // (taps * columns.shape[-1] * call.offset_groups)
    grouped = columns.reshape(pixels, call.offset_groups, taps, -1).transpose(1, 3, 2, 0)
    merged = grouped.reshape(call.groups, -1, pixels)  # channels first, then taps
    return merged.transpose(0, 2, 1)


def _from_weight_group(g: Array, call: _Call, taps: int) -> Array:
    """The inverse of `_order_by_weight_group`, as rows of channels."""
    pixels = g.shape[1]
    grouped = g.transpose(0, 2, 1).reshape(call.offset_groups, -1, taps, pixels)
    return np.ascontiguousarray(grouped.transpose(3, 0, 2, 1)).reshape(-1, grouped.shape[1])


@opaque(expose=(), ref=_reference, samples=_samples, second_order=False)
def deform_conv2d(
    input: Array, weight: Array, offset: Array, mask: Array, bias: Array, stride_h: SymInt,
    stride_w: SymInt, pad_h: SymInt, pad_w: SymInt, dilation_h: SymInt, dilation_w: SymInt,
    groups: SymInt, offset_groups: SymInt, use_mask: bool,
) -> Array:
    """Deformable convolution (Dai et al. 2017; with masks Zhu et al. 2019).

    input (n, c, h, w), weight (m, c / groups, kh, kw), bias (m,), offset (n, offset_groups * kh *
    kw * 2, high, wide): the y and x displacement of each tap, per offset group of channels; mask
    (n, offset_groups * kh * kw, high, wide) multiplies the taps if `use_mask`. Return (n, m,
    high, wide): y(p) = bias + sum_k weight_k * mask_k(p) * input(p * stride - pad + k * dilation +
    offset_k(p)), where input is bilinear between pixels and 0 outside. RuntimeError if shapes do
    not fit. Differentiable once.

    >>> from flambeau.ops.detection.deform_conv import deform_conv2d
    >>> image, weight = torch.arange(9.).reshape(1, 1, 3, 3), torch.ones(1, 1, 1, 1)
    >>> moved = torch.full((1, 2, 3, 3), 0.5)
    >>> none = torch.zeros(1, 1), torch.zeros(1)
    >>> deform_conv2d(image, weight, moved, *none, 1, 1, 0, 0, 1, 1, 1, 1, False)[0, 0, 0]
    tensor([2.0000, 3.0000, 1.7500])
    """
    call = _Call((stride_h, stride_w), (pad_h, pad_w), (dilation_h, dilation_w), groups,
                 offset_groups, use_mask)
    _check(input, weight, offset, mask, call)
    shape = len(input), len(weight), *offset.shape[2:]
    if input.__class__ is MetaArray:
        return meta_array(shape, input.dtype)
    kind = compute_dtype(input.dtype)
    x, w, factors = (v.astype(kind, copy=False) for v in (input, weight, mask))
    y = np.empty(shape, kind)
    for i in range(len(x)):  # one image at a time: columns take `taps` times its memory
        part = slice(i, i + 1)
        columns = _compute_columns(x[part], w, offset[part], factors[part], call)
        products = columns @ w.reshape(groups, len(w) // groups, -1).transpose(0, 2, 1)
        y[i] = products.transpose(0, 2, 1).reshape(shape[1:])
    y += bias.astype(kind)[:, None, None]
    return y.astype(input.dtype, copy=False)


def _compute_columns(x: Array, w: Array, offset: Array, mask: Array, call: _Call) -> Array:
    """Return the columns of one image: (weight group, position, channel * tap)."""
    sampling = _compute_sampling(offset, mask, w.shape[2:], x.shape[2:], call)
    rows = sum_taps(_tabulate_pixels(x, call.offset_groups), sampling.taps)
    return _order_by_weight_group(rows, call, w.shape[2] * w.shape[3])


@deform_conv2d.vjp
def _(
    g: Tensor, input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor,
    stride_h: SymInt, stride_w: SymInt, pad_h: SymInt, pad_w: SymInt, dilation_h: SymInt,
    dilation_w: SymInt, groups: SymInt, offset_groups: SymInt, use_mask: bool
) -> tuple[Tensor | None, ...]:
    result = deform_conv2d_backward(
        g, input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h,
        dilation_w, groups, offset_groups, use_mask,
    )
    return result if use_mask else (*result[:3], None, result[4])


@opaque(name="_deform_conv2d_backward", expose=(), ref=None, samples=None)
def deform_conv2d_backward(
    grad: Array, input: Array, weight: Array, offset: Array, mask: Array, bias: Array,
    stride_h: SymInt, stride_w: SymInt, pad_h: SymInt, pad_w: SymInt, dilation_h: SymInt,
    dilation_w: SymInt, groups: SymInt, offset_groups: SymInt, use_mask: bool,
) -> tuple[Array, Array, Array, Array, Array]:
    """Return the cotangents of deform_conv2d's five inputs; 0 for an unused mask."""
    call = _Call((stride_h, stride_w), (pad_h, pad_w), (dilation_h, dilation_w), groups,
                 offset_groups, use_mask)
    sources = input, weight, offset, mask, bias
    if grad.__class__ is MetaArray:
        return _unpack_cotangents(meta_array(v.shape, v.dtype) for v in sources)
    kind = compute_dtype(input.dtype)
    g, x, w, factors = (v.astype(kind, copy=False) for v in (grad, input, weight, mask))
    totals = [np.zeros(v.shape, kind) for v in sources]
    totals[4] += g.sum((0, 2, 3))
    matrix = w.reshape(groups, len(w) // groups, -1)
    for i in range(len(x)):
        part = slice(i, i + 1)
        above = g[i].reshape(groups, len(w) // groups, -1)  # (weight group, feature, position)
        columns = _compute_columns(x[part], w, offset[part], factors[part], call)
        totals[1] += (above @ columns).reshape(w.shape)
        rows = _from_weight_group(above.transpose(0, 2, 1) @ matrix, call, w[0, 0].size)
        totals[0][i], totals[2][i], moved = _differentiate_places(
            rows, x[part], offset[part], factors[part], w.shape[2:], call
        )
        if use_mask:
            totals[3][i] = moved
    return _unpack_cotangents(
        t.astype(v.dtype, copy=False) for t, v in zip(totals, sources, strict=True))


def _unpack_cotangents(arrays: Iterable[Any]) -> tuple[Array, Array, Array, Array, Array]:
    input, weight, offset, mask, bias = arrays
    return input, weight, offset, mask, bias


def _differentiate_places(
    rows: Array, x: Array, offset: Array, mask: Array, kernel: tuple[int, int], call: _Call
) -> tuple[Array, Array, Array | None]:
    """Return the cotangents of one image, its offsets and masks, from those of column rows."""
    _, c, h, w = x.shape
    groups, taps, (high, width) = call.offset_groups, kernel[0] * kernel[1], offset.shape[2:]
    sampling, table = _compute_sampling(offset, mask, kernel, (h, w), call), _tabulate_pixels(
        x, call.offset_groups
    )
    pixels = spread_taps(rows, sampling.taps, len(table)).reshape(groups, h, w, c // groups)
    dots = compute_weights_adjoint(rows, table, sampling.taps).reshape(-1, 4)
    by_axis = np.stack([(dots * slope).sum(1) for slope in sampling.slopes], 1)
    by_mask = None
    if sampling.factors is not None:
        by_axis *= sampling.factors[:, None]
        by_mask = (dots * sampling.shares).sum(1).reshape(high, width, groups * taps)
        by_mask = by_mask.transpose(2, 0, 1)
    moved = by_axis.reshape(high, width, groups * taps * 2).transpose(2, 0, 1)
    return pixels.transpose(0, 3, 1, 2).reshape(c, h, w), moved, by_mask


@deform_conv2d_backward.vjp
def _(gs: Tensor) -> Tensor:
    raise RuntimeError("double backwards on deform_conv2d not supported")


def _check(input: Array, weight: Array, offset: Array, mask: Array, call: _Call) -> None:
    if input.ndim != 4 or offset.ndim != 4 or weight.ndim != 4:
        raise RuntimeError("deform_conv2d: input, offset and weight must have four dimensions")
    check_dtype("deformable_im2col", input)
    n, _, kernel = len(input), weight.shape[1], weight.shape[2:]
    taps = kernel[0] * kernel[1] * call.offset_groups
    if weight.shape[1] * call.groups != input.shape[1]:
        raise RuntimeError(
            f"deform_conv2d: weight of {weight.shape[1]} channels in {call.groups} groups and "
            f"input of {input.shape[1]} channels"
        )
    if len(weight) % call.groups:
        raise RuntimeError(
            "Expected weight_c.size(0) % n_weight_grps == 0 to be true, but got false."
        )
    if input.shape[1] % call.offset_groups:
        raise RuntimeError("Expected input.size(1) % n_offset_grps == 0 to be true, but got false.")
    _check_size("offset.shape[1]", offset.shape[1], 2 * taps)
    if call.masked:
        _check_size("mask.shape[1]", mask.shape[1], taps)
    if len(offset) != n:
        raise RuntimeError("invalid batch size of offset")
    out = tuple(
        (size + 2 * pad - (dilation * (k - 1) + 1)) // stride + 1
        for size, pad, dilation, k, stride in zip(
            input.shape[2:], call.pad, call.dilation, kernel, call.stride, strict=True
        )
    )
    for name, operand in (("offset", offset), ("mask", mask)):
        if (name == "offset" or call.masked) and operand.shape[2:] != out:
            raise RuntimeError(
                f"{name} output dims: ({operand.shape[2]}, {operand.shape[3]}) - "
                f"computed output dims: ({out[0]}, {out[1]})"
            )


def _check_size(subject: str, size: int, expected: int) -> None:
    if size != expected:
        raise RuntimeError(f"{subject} is not valid: got: {size} expected: {expected}")
