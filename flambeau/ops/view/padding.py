"""Padding: constant_pad_nd, and nn.functional.pad, which mirrors, repeats or wraps the borders.

`pad` lists (before, after) per axis, last axis first; negative numbers crop.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...native.foundation.public_names import c_class_name
from ...native.foundation.user_frames import add_notes
from ...native.target.eager_costs import MAX_TWICE_WRITTEN_ELEMENTS
from ...tensor.dtypes import FLOATS
from ...tensor.layout import contiguous_format
from ...tensor.layout import memory_format as MemoryFormat
from ...tensor.meta import MetaArray, meta_array
from ...tensor.promotion import build_missing_kernel_error
from ...tensor.tensor import Tensor
from ..core.autocast import AUTOCAST, Policy, cast_inputs
from ..core.operator import Array, Number
from ..core.output_layout import Layout
from ..core.promotion import compute_dtype
from ..core.registry import composite, opaque
from ..core.sample_inputs import matrices
from ..core.scalar_conversion import ORDINARY, convert_scalar
from ..creation.copies import in_format
from ..native.row_copies import fill

_MODES = {"reflect": "reflection", "replicate": "replication", "circular": "circular"}


def pair_pads(pad: Sequence[int], ndim: int) -> list[tuple[int, int]]:
    """Return (before, after) per axis, first axis first."""
    listed = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    return [(0, 0)] * (ndim - len(listed)) + listed[::-1]


def _compute_padded_shape(shape: tuple[int, ...], pairs: list[tuple[int, int]]) -> tuple[int, ...]:
    result = tuple(n + a + b for n, (a, b) in zip(shape, pairs, strict=True))
    for axis, (n, (before, after)) in enumerate(zip(shape, pairs, strict=True)):
        if n + min(before, 0) + min(after, 0) < 0:
            raise add_notes(
                RuntimeError("narrow(): length must be non-negative."),
                f"Axis {axis} of {list(shape)} has {n} elements, and padding of {before} and "
                f"{after} takes away more.",
            )
    return result


def _allocate(input: Array, shape: tuple[int, ...]) -> Array:
    """Allocate an array whose axes have the same memory order as the input's."""
    if input.ndim < 3 or input.flags.c_contiguous:
        return np.empty(shape, input.dtype)
    order = sorted(range(input.ndim), key=lambda axis: -abs(input.strides[axis]))
    return np.empty([shape[i] for i in order], input.dtype).transpose(np.argsort(order))


@opaque(linear_in="input + value", layout=Layout.CHANNELS_LAST, expose=("torch",),
        ref=lambda x, pad, value=0: np.pad(x, [(pad[2], pad[3]), (pad[0], pad[1])],
                                           constant_values=value),
        samples=matrices(((2, 3), (1, 2, 0, 1), 0.5), ((2, 3), (0, 0, 1, 0))))
def constant_pad_nd(input: Array, pad: Sequence[int], value: Number = 0) -> Array:
    """Pad with `value`; negative amounts crop.

    >>> torch.constant_pad_nd(torch.ones(2), (1, 0))
    tensor([0., 1., 1.])
    """
    if len(pad) % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(pad)}")
    if len(pad) > 2 * input.ndim:
        raise RuntimeError(
            "Length of pad should be no more than twice the number of dimensions of the input. "
            f"Pad length is {len(pad)} while the input has {input.ndim} dimensions."
        )
    pairs = pair_pads(pad, input.ndim)
    shape = _compute_padded_shape(input.shape, pairs)
    if input.__class__ is MetaArray:
        return meta_array(shape, input.dtype)
    result = _allocate(input, shape)
    if isinstance(value, (int, float)) and -ORDINARY < value < ORDINARY and input.dtype in FLOATS:
        border = np.array(value, input.dtype)
    else:
        border = convert_scalar(value, input.dtype)
    if min(pad, default=0) >= 0 and result.size <= MAX_TWICE_WRITTEN_ELEMENTS \
            and input.__class__ is Array:
        result[...] = border  # in one go: each edge would be another NumPy call
        result[tuple([slice(a, a + n) for n, (a, _) in zip(input.shape, pairs, strict=True)])] = (
            input
        )
        return result
    core: list[slice] = []
    for axis, (before, after) in enumerate(pairs):
        start, end = max(before, 0), shape[axis] - max(after, 0)
        for edge in (slice(0, start), slice(end, None)) if before > 0 or after > 0 else ():
            result[(*core, edge)] = border
        core.append(slice(start, end))
    source = tuple(slice(max(-a, 0), n - max(-b, 0))
                   for n, (a, b) in zip(input.shape, pairs, strict=True))
    fill(result[tuple(core)], input[source])
    return result


@constant_pad_nd.vjp
def _(g: Tensor, pad: Sequence[int]) -> Tensor:
    return constant_pad_nd(g, [-n for n in pad], 0)


# ---------------------------------------------------------------------------- borders from inside


@lru_cache(256)
def locate_sources(n: int, before: int, after: int, mode: str) -> np.ndarray:
    """Return, for each position of the padded axis, its source position on an axis of length n."""
    if mode == "circular":
        first = max(-before, 0)
        length = n - first - max(-after, 0)
        return first + (np.arange(n + before + after) - max(before, 0)) % max(length, 1)
    sources = np.arange(-before, n + after)
    if mode == "replicate":
        return np.clip(sources, 0, n - 1)
    sources = np.abs(sources)
    return np.where(sources >= n, 2 * (n - 1) - sources, sources)


def _on_axis(axis: int, index: Any) -> tuple:
    return (*(slice(None),) * axis, index)


def _extend(input: Array, axis: int, before: int, after: int, mode: str) -> Array:
    n = input.shape[axis]
    sources = locate_sources(n, before, after, mode)
    if before < 0 or after < 0 or (
            input.size <= MAX_TWICE_WRITTEN_ELEMENTS and input.flags.c_contiguous):
        return input.take(sources, axis)
    shape = list(input.shape)
    shape[axis] = sources.size
    result = _allocate(input, tuple(shape))
    fill(result[_on_axis(axis, slice(before, before + n))], input)
    result[_on_axis(axis, slice(0, before))] = input.take(sources[:before], axis)
    result[_on_axis(axis, slice(before + n, None))] = input.take(sources[before + n :], axis)
    return result


def _contract(g: Array, n: int, axis: int, before: int, after: int, mode: str) -> Array:
    """The adjoint of `_extend`: sum the cotangents that come from the same position."""
    sources = locate_sources(n, before, after, mode)
    if before < 0 or after < 0:
        shape = list(g.shape)
        shape[axis] = n
        result = np.zeros(shape, g.dtype)
        np.add.at(np.moveaxis(result, axis, 0), sources, np.moveaxis(g, axis, 0))
        return result
    result = g[_on_axis(axis, slice(before, before + n))].copy()
    for edge in (slice(0, before), slice(before + n, None)):
        part, edge_sources = g[_on_axis(axis, edge)], sources[edge]
        if mode == "replicate" and edge_sources.size:
            result[_on_axis(axis, slice(edge_sources[0],
                                        edge_sources[0] + 1))] += part.sum(axis, keepdims=True)
        elif edge_sources.size:
            result[_on_axis(axis, edge_sources)] += part
    return result


_NUMPY_MODES: dict[str, Any] = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


_NODES = {("reflect", n): f"ReflectionPad{n}DBackward0" for n in (1, 2, 3)}
_NODES |= {("replicate", n): f"ReplicationPad{n}DBackward0" for n in (1, 2, 3)}
_NODES |= {("circular", n): "CopySlices" for n in (1, 2, 3)}


@opaque(linear_in="input",
        layout=Layout.CHANNELS_LAST, name="_padded", expose=(), node=_NODES,
        overload=lambda input, pad, mode: (mode, min(len(pad) // 2, 3)),
        ref=lambda x, pad, mode: np.pad(
            x, [(0, 0), (pad[2], pad[3]), (pad[0], pad[1])], _NUMPY_MODES[mode]),
        samples=lambda rng: iter([((rng.normal(size=(2, 4, 3)), (1, 2, 3, 1), mode), {})
                                  for mode in _MODES]))
def _padded(input: Array, pad: Any, mode: str) -> Array:
    """Pad by mirroring ("reflect"), repeating ("replicate") or wrapping the borders."""
    if input.__class__ is MetaArray:
        shape = _compute_padded_shape(input.shape, pair_pads(pad, input.ndim))
        return meta_array(shape, input.dtype)
    y = input
    for axis, (before, after) in enumerate(pair_pads(pad, input.ndim)):
        if before or after:
            y = _extend(y, axis, before, after, mode)
    return y if y is not input else input.copy()


@_padded.vjp
def _(g: Tensor, input_shape: tuple[int, ...], pad: Any, mode: str, input_format: MemoryFormat
      ) -> Tensor:
    form = contiguous_format if mode == "circular" else input_format
    return in_format(_padded_adjoint(g, input_shape, pad, mode), form)


@opaque(linear_in="g",
        layout=Layout.FREE, name="_padded_adjoint", expose=(), ref=None, samples=None)
def _padded_adjoint(g: Array, shape: Any, pad: Any, mode: str) -> Array:
    """The cotangent of `_padded`."""
    y = g.astype(compute_dtype(g.dtype), copy=False)
    for axis, (before, after) in reversed(list(enumerate(pair_pads(pad, g.ndim)))):
        if before or after:
            y = _contract(y, shape[axis], axis, before, after, mode)
    return y.astype(g.dtype, copy=False)


@_padded_adjoint.vjp
def _(g: Tensor, pad: Any, mode: str) -> Tensor:
    return _padded(g, pad, mode)


# ------------------------------------------------------------------------------ nn.functional


_KERNELS = {"reflect": "reflection", "replicate": "replication"}


@composite(expose=("nn.functional",), explains=True)
def pad(input: Tensor, pad: Any, mode: str = "constant", value: Any = None) -> Tensor:
    """Pad each axis by (before, after) elements, listed from the last axis.

    `mode` is "constant" (fill with `value`, 0 by default), "reflect" (mirror, border excluded),
    "replicate" (repeat the border) or "circular" (wrap around). Negative amounts crop.
    RuntimeError if the padding does not fit, NotImplementedError for a rank that the mode does not
    support.

    >>> torch.nn.functional.pad(torch.tensor([[1., 2., 3.]]), (2, 1), mode="reflect")
    tensor([[3., 2., 1., 2., 3., 2.]])
    """
    pad = _check_pad(pad)
    shape = input._array.shape
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) > 2 * len(shape):
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(pad)} and input of dimension {len(shape)}"
        )
    if mode == "constant":
        if isinstance(value, (str, list, tuple)):
            raise TypeError("pad(): argument 'value' (position 4) must be float, not "
                            f"{c_class_name(value)}")
        return constant_pad_nd(input, pad, 0 if value is None else float(value))
    if not isinstance(mode, str):
        raise TypeError("pad(): argument 'mode' (position 3) must be str, not "
                        f"{c_class_name(mode)}")
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in _MODES:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    axes = len(pad) // 2
    if axes not in (1, 2, 3) or len(shape) not in (axes + 1, axes + 2):
        raise NotImplementedError(
            f"Padding size {len(pad)} is not supported for {len(shape)}D input tensor.\n"
            "Supported combinations for non-constant padding:\n"
            "  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
            "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
            "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
        )
    _check_borders(input, pad, mode)
    if input._array.dtype == np.bool_ and mode != "circular":
        raise build_missing_kernel_error(f"{_KERNELS[mode]}_pad{axes}d", input.dtype)
    if AUTOCAST.count and (mode == "replicate" or (mode == "reflect" and axes < 3)):
        (input,) = cast_inputs(Policy.FULL, (input,))
    y: Tensor = _padded(input, pad, mode)
    return in_format(y, contiguous_format) if mode == "circular" else y


def _check_pad(pad: Any) -> list[int]:
    if not isinstance(pad, (tuple, list)):
        raise TypeError(
            f"pad(): argument 'pad' (position 2) must be tuple of ints, not {type(pad).__name__}"
        )
    for i, n in enumerate(pad):
        if n.__class__ is not int and (isinstance(n, (bool, float)) or not hasattr(n, "__index__")):
            raise TypeError(
                "pad(): argument 'pad' (position 2) must be tuple of ints, but found element of "
                f"type {type(n).__name__} at pos {i}"
            )
    return [n.__index__() for n in pad]


def _check_borders(input: Tensor, pad: list[int], mode: str) -> None:
    shape, ndim, axes = input._array.shape, input._array.ndim, len(pad) // 2
    pairs = pair_pads(pad, ndim)
    if mode == "circular":
        for axis, (before, after) in enumerate(pairs):
            if before > shape[axis] or after > shape[axis]:
                raise RuntimeError(
                    "Padding value causes wrapping around more than once. "
                    f"({(before, after)} at dimension {axis} of input {list(shape)})"
                )
            if shape[axis] + before + after < 0:
                raise RuntimeError("Negative padding value is resulting in an empty dimension")
        return
    if 0 in shape[ndim - axes - 1 :]:
        raise RuntimeError(
            f"Expected {axes + 1}D or {axes + 2}D (batch mode) tensor with possibly 0 batch size "
            f"and other non-zero dimensions for input, but got: {list(shape)}"
        )
    for i in range(axes):
        axis = ndim - 1 - i
        before, after = pairs[axis]
        if mode == "reflect" and (before >= shape[axis] or after >= shape[axis]):
            raise RuntimeError(
                f"Argument #{4 + 2 * i}: Padding size should be less than the corresponding input "
                f"dimension, but got: padding ({before}, {after}) at dimension {axis} of input "
                f"{list(shape)}"
            )
        if shape[axis] + before + after < 1:
            raise RuntimeError(
                f"input ({'WHD'[i]}: {shape[axis]}) is too small. Calculated output {'WHD'[i]}: "
                f"{shape[axis] + before + after}"
            )
    if mode == "replicate" and input._array.dtype == np.bool_:
        raise build_missing_kernel_error(f"replication_pad{axes}d", input.dtype)
