"""Convolutions in one, two and three dimensions, and their transposes.

Three operators are each other's derivatives: the convolution, its transpose (the cotangent of its
input), and the cotangent of its weight. All public functions are built from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from inspect import signature
from typing import Any

import numpy as np

from ...native.foundation.user_frames import add_notes
from ...tensor.dtypes import FROM_NUMPY
from ...tensor.layout import contiguous_format, suggest_format
from ...tensor.layout import memory_format as MemoryFormat
from ...tensor.meta import MetaArray, meta_array
from ...tensor.tensor import Tensor
from ...tensor.windows.batch import Batch
from ..core.arguments.checks import freeze_integers
from ..core.autocast import Policy
from ..core.operator import Array
from ..core.output_layout import Layout
from ..core.promotion import compute_dtype
from ..core.registry import composite, opaque
from ..core.sample_inputs import Rng, Sample
from ..creation.copies import in_format
from .conv_reference import (
    Window, backward_data, backward_weight, forward, forward_channels_last, is_channels_last,
)


def _compute(kernel: Any, arrays: Sequence[Any], *rest: Any) -> Array:
    """Run a kernel and return its result in the inputs' dtype; half precision uses float32."""
    kind = arrays[0].dtype
    inside = compute_dtype(kind)
    if inside != kind:
        arrays = [None if a is None else a.astype(inside) for a in arrays]
    return kernel(*arrays, *rest).astype(kind, copy=False)


# ---------------------------------------------------------------------------- the operators


def _create_window(
    kernel: Any = (2, 3), stride: Any = (1, 1), padding: Any = ((0, 0), (0, 0)),
    dilation: Any = (1, 1)
) -> Window:
    return Window(kernel, stride, padding, dilation)


_WINDOWS = (
    (_create_window(), 1), (_create_window(stride=(2, 1), padding=((1, 1), (2, 1))), 1),
    (_create_window(dilation=(2, 1), padding=((2, 2), (0, 0))), 2),
    (_create_window(stride=(2, 2)), 4),
)


def _images(rng: Rng) -> Iterator[Sample]:
    for window, groups in _WINDOWS:
        x, w = rng.normal(size=(2, 4, 5, 5)), rng.normal(size=(4, 4 // groups, 2, 3))
        yield (x, w, rng.normal(size=4), window, groups), {}


def _reference(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray, window: Any, groups: int
) -> np.ndarray:
    x = np.pad(x, [(0, 0), (0, 0), *window.padding])
    channels_per_group, out = x.shape[1] // groups, w.shape[0] // groups
    span = [d * (k - 1) + 1 for k, d in zip(window.kernel, window.dilation, strict=True)]
    view = np.lib.stride_tricks.sliding_window_view(x, span, (2, 3))
    view = view[:, :, :: window.stride[0], :: window.stride[1]]
    view = view[..., :: window.dilation[0], :: window.dilation[1]]
    y = np.concatenate([
        np.einsum("nchwij,ocij->nohw",
                  view[:, g * channels_per_group : (g + 1) * channels_per_group],
                  w[g * out : (g + 1) * out])
        for g in range(groups)
    ], 1)
    return y if bias is None else y + bias[:, None, None]


@opaque(linear_in="input * weight + bias", layout=Layout.ANY_CHANNELS_LAST,
        name="_convolution", node="ConvolutionBackward0", expose=(), ref=_reference,
        samples=_images)
def convolution_op(
    input: Array, weight: Array, bias: Array | None, window: Window, groups: int
) -> Array:
    """Weighted sum over input windows: input (n, c, ...), weight (o, c / groups, ...)."""
    if input.__class__ is MetaArray:
        shape = (input.shape[0], weight.shape[0], *window.output(input.shape[2:]))
        return meta_array(shape, input.dtype)
    if input.ndim == 4 and groups == 1 and (is_channels_last(input) or is_channels_last(weight)):
        return _compute(forward_channels_last, (input, weight, bias), window)
    return _compute(forward, (input, weight, bias), window, groups)


@convolution_op.batch
def _(
    batch: Batch, input: Tensor, weight: Tensor, bias: Tensor | None, window: Window, groups: int
) -> Tensor:
    def convolve(x: Tensor, w: Tensor, b: Tensor | None, groups: int) -> Tensor:
        return convolution_op(x, w, b, window, groups)

    return _convolve_batch(batch, convolve, input, weight, bias, groups)


def _convolve_batch(
    batch: Batch, convolve: Any, input: Tensor, weight: Tensor, bias: Tensor | None, groups: int
) -> Tensor:
    """Fold examples into the batch if they share the weight, into groups if they do not."""
    if not batch.holds(weight):
        shared = None if batch.holds(bias) else batch.lower(bias)
        images = batch.lower(input).flatten(0, 1) if batch.holds(input) else batch.lower(input)
        y = convolve(images, batch.lower(weight), shared, groups)
        examples = batch.size if batch.holds(input) else 1
        y = y.reshape(examples, *input.shape[:1], *y.shape[1:])
        bias = bias if batch.holds(bias) else None
    else:
        y = convolve(_join_channels(batch, input), batch.lower(weight).flatten(0, 1), None,
                     groups * batch.size)
        y = y.reshape(
            y.shape[0], batch.size, y.shape[1] // batch.size, *y.shape[2:]
        ).movedim(1, 0)
    if bias is None:
        return y
    axes = [1] * (input.dim() - 2)
    return y + batch.expand(bias).reshape(batch.size, 1, -1, *axes)


def _join_channels(batch: Batch, images: Tensor) -> Tensor:
    """Concatenate the examples' channels: (n, batch * c, ...)."""
    return batch.expand(images).movedim(0, 1).flatten(1, 2)


@convolution_op.vjp("input")
def _(
    g: Tensor, weight: Tensor, input_shape: tuple[int, ...], window: Window, groups: int,
    input_format: MemoryFormat
) -> Tensor:
    y = transposed_op(g, weight, None, input_shape[2:], window, groups)
    return _in_format_of(y, input_format, weight)


@convolution_op.vjp("weight")
def _(g: Tensor, input: Tensor, window: Window, groups: int, weight_format: MemoryFormat) -> Tensor:
    return _in_format_of(weight_op(input, g, window, groups), weight_format, input)


@convolution_op.vjp("bias")
def _(g: Tensor, input_shape: tuple[int, ...]) -> Tensor:
    if not input_shape[1]:  # PyTorch treats an input without channels like one without elements
        return g.new_zeros(g._array.shape[1])
    return _sum_to_channels(g)


def _sum_to_channels(g: Tensor) -> Tensor:
    return g.sum([0, *range(2, g._array.ndim)])


def _in_format_of(y: Tensor, form: MemoryFormat, other: Tensor) -> Tensor:
    """A gradient in the format of a convolution's input or weight: channels last if one of them
    is, of which the other one is given."""
    if form is contiguous_format:
        form = suggest_format(other._array)
    return in_format(y, form)


def _transpose_images(rng: Rng) -> Iterator[Sample]:
    for window, groups in _WINDOWS:
        output = window.output((5, 5))
        x, w = rng.normal(size=(2, 4, *output)), rng.normal(size=(4, 4 // groups, 2, 3))
        yield (x, w, rng.normal(size=4), (5, 5), window, groups), {}


def _reference_of_transposed(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray, spatial: tuple[int, ...], window: Any,
    groups: int
) -> np.ndarray:
    lengths = [n + lo + hi for n, (lo, hi) in zip(spatial, window.padding, strict=True)]
    channels_per_group, out = w.shape[0] // groups, w.shape[1]
    y = np.zeros((len(x), groups * out, *lengths))
    for n, c, h, v in np.ndindex(*x.shape):
        origin, group = (h * window.stride[0], v * window.stride[1]), c // channels_per_group
        for i, j in np.ndindex(*window.kernel):
            place = (origin[0] + i * window.dilation[0], origin[1] + j * window.dilation[1])
            y[(n, slice(group * out, (group + 1) * out), *place)] += x[n, c, h, v] * w[c, :, i, j]
    (top, _), (left, _) = window.padding
    y = y[:, :, top : top + spatial[0], left : left + spatial[1]]
    return y if bias is None else y + bias[:, None, None]


@opaque(linear_in="input * weight + bias", layout=Layout.ANY_CHANNELS_LAST,
        name="_transposed_convolution", node="ConvolutionBackward0", expose=(),
        ref=_reference_of_transposed, samples=_transpose_images)
def transposed_op(
    input: Array, weight: Array, bias: Array | None, spatial: Any, window: Window, groups: int
) -> Array:
    """Cotangent of a convolution's input, whose spatial axes have the lengths `spatial`."""
    if input.__class__ is MetaArray:
        return meta_array((input.shape[0], weight.shape[1] * groups, *spatial), input.dtype)
    y = _compute(backward_data, (input, weight), spatial, window, groups)
    if bias is not None:
        np.add(y, bias.reshape(-1, *(1,) * len(spatial)), out=y)
    return y


@transposed_op.batch
def _(
    batch: Batch, input: Tensor, weight: Tensor, bias: Tensor | None, spatial: Any, window: Window,
    groups: int
) -> Tensor:
    def convolve(x: Tensor, w: Tensor, b: Tensor | None, groups: int) -> Tensor:
        return transposed_op(x, w, b, spatial, window, groups)

    return _convolve_batch(batch, convolve, input, weight, bias, groups)


@transposed_op.vjp("input")
def _(
    g: Tensor, weight: Tensor, input_shape: tuple[int, ...], window: Window, groups: int,
    input_format: MemoryFormat
) -> Tensor:
    y = convolution_op(g, weight, None, window, groups)
    for axis, n in enumerate(input_shape[2:], 2):
        if y._array.shape[axis] != n:  # output_padding beyond the stride: unused windows
            y = y.narrow(axis, 0, n)
    return _in_format_of(y, input_format, weight)


@transposed_op.vjp("weight")
def _(g: Tensor, input: Tensor, window: Window, groups: int, weight_format: MemoryFormat) -> Tensor:
    return _in_format_of(weight_op(g, input, window, groups), weight_format, input)


@transposed_op.vjp("bias")
def _(g: Tensor) -> Tensor:
    return _sum_to_channels(g)


def _weight_reference(x: np.ndarray, g: np.ndarray, window: Any, groups: int) -> np.ndarray:
    x = np.pad(x, [(0, 0), (0, 0), *window.padding])
    channels_per_group, out = x.shape[1] // groups, g.shape[1] // groups
    result = np.zeros((g.shape[1], channels_per_group, *window.kernel))
    for i, j in np.ndindex(*window.kernel):
        part = x[:, :, i * window.dilation[0] :, j * window.dilation[1] :]
        part = part[:, :, :: window.stride[0], :: window.stride[1]]
        part = part[:, :, : g.shape[2], : g.shape[3]]
        for o in range(g.shape[1]):
            c = o // out * channels_per_group
            result[o, :, i, j] = np.einsum("nchw,nhw->c", part[:, c : c + channels_per_group],
                                           g[:, o])
    return result


def _weight_images(rng: Rng) -> Iterator[Sample]:
    for window, groups in _WINDOWS:
        output = window.output((5, 5))
        x, g = rng.normal(size=(2, 4, 5, 5)), rng.normal(size=(2, 4, *output))
        yield (x, g, window, groups), {}


@opaque(linear_in="input * output", layout=Layout.FREE,
        name="_convolution_weight", node="ConvolutionBackwardBackward0", expose=(),
        ref=_weight_reference, samples=_weight_images)
def weight_op(input: Array, output: Array, window: Window, groups: int) -> Array:
    """Cotangent of a convolution's weight, given its input and its output's cotangent."""
    return _compute(backward_weight, (input, output), window, groups)


@weight_op.batch
def _(batch: Batch, input: Tensor, output: Tensor, window: Window, groups: int) -> Tensor:
    y = weight_op(_join_channels(batch, input), _join_channels(batch, output), window,
                  groups * batch.size)
    return y.reshape(batch.size, -1, *y.shape[1:])


@weight_op.vjp("input")
def _(
    g: Tensor, output: Tensor, input_shape: tuple[int, ...], window: Window, groups: int
) -> Tensor:
    return transposed_op(output, g, None, input_shape[2:], window, groups)


@weight_op.vjp("output")
def _(
    g: Tensor, input: Tensor, output_shape: tuple[int, ...], window: Window, groups: int
) -> Tensor:
    y = convolution_op(input, g, None, window, groups)
    for axis, n in enumerate(output_shape[2:], 2):
        if y._array.shape[axis] != n:
            y = y.narrow(axis, 0, n)
    return y


# --------------------------------------------------------------------------------- arguments


def _expand_setting(value: Any, n: int, name: str) -> tuple[int, ...]:
    """Expand a setting to n spatial axes, from one number or a list of 1 or n."""
    if value.__class__ is int:
        return (value,) * n
    values = tuple(int(v) for v in value) if hasattr(value, "__iter__") else (int(value),) * n
    if len(values) == 1:
        return values * n
    if len(values) != n:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {n} values to match the "
            f"convolution dimensions, but got {name}={list(values)}"
        )
    return values


def _expand_settings(n: int, stride: Any, dilation: Any, groups: int) -> tuple:
    stride, dilation = _expand_setting(stride, n, "stride"), _expand_setting(
        dilation, n, "dilation"
    )
    if any(s <= 0 for s in stride):
        raise RuntimeError("non-positive stride is not supported")
    if any(d <= 0 for d in dilation):
        raise RuntimeError(f"dilation should be greater than zero, but got {list(dilation)}")
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    return stride, dilation


def _expand_padding(padding: Any, kernel: tuple, stride: tuple, dilation: tuple) -> tuple:
    if isinstance(padding, str):
        if padding == "valid":
            return ((0, 0),) * len(kernel)
        if padding != "same":
            raise RuntimeError(f"Invalid padding string: '{padding}'")
        if any(s != 1 for s in stride):
            raise RuntimeError("padding='same' is not supported for strided convolutions")
        totals = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        return tuple([(t // 2, t - t // 2) for t in totals])
    pads = _expand_setting(padding, len(kernel), "padding")
    if any(p < 0 for p in pads):
        raise RuntimeError("negative padding is not supported")
    return tuple([(p, p) for p in pads])


def _advise_on_channels(x: tuple, channels: int) -> str | None:
    """Return advice for an input whose channels lie on the last axis."""
    if x[-1] == channels:
        axes = ", ".join(map(str, (0, len(x) - 1, *range(1, len(x) - 1))))
        return f"the last axis has {channels}: are the channels last? x.permute({axes})"
    return None


def _check(x: tuple, w: tuple, bias: tuple | None, groups: int, transposed: bool) -> None:
    """Raise RuntimeError unless the shapes of input, weight and bias match."""
    setting = "transposed=1" if transposed else f"groups={groups}"
    prefix = f"Given {setting}, weight of size {list(w)}"
    channels = w[0] if transposed else w[1] * groups
    if w[0] == 0 or (transposed and w[1] == 0):
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least 1 at dimension 0, but got "
            f"weight of size {list(w)} instead"
        )
    if w[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but "
            f"got weight of size {list(w)} instead" if w[0] < groups else
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
            f"but got weight of size [{list(w)}] instead"
        )
    if x[1] != channels:
        raise add_notes(
            RuntimeError(
                f"{prefix}, expected input{list(x)} to have {channels} channels, but got "
                f"{x[1]} channels instead"
            ),
            _advise_on_channels(x, channels),
        )
    out = w[1] * groups if transposed else w[0]
    if bias is not None and bias != (out,):
        raise RuntimeError(
            f"Given {'transposed=1, ' if transposed else ''}weight of size {list(w)}, expected "
            f"bias to be 1-dimensional with {out} elements, but got bias of size {list(bias)} "
            "instead"
        )


def _check_rank(name: str, n: int, x: tuple, w: tuple) -> None:
    if len(x) not in (n + 1, n + 2):
        raise RuntimeError(
            f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {name}, but got input "
            f"of size: {list(x)}"
        )
    if len(w) < 3:
        raise RuntimeError("weight should have at least three dimensions")
    if len(w) == n + 1 and len(x) == n + 2:
        raise RuntimeError(
            f"Expected {len(w)}-dimensional input for {len(w)}-dimensional weight{list(w)}, but "
            f"got {len(x)}-dimensional input of size {list(x)} instead"
        )
    if len(w) != n + 2:
        raise RuntimeError(
            f"Expected {n + 2}D weight for {name}, but got weight of size: {list(w)}: expected "
            f"stride to be a single integer value or a list of {len(w) - 2} values to match the "
            "convolution dimensions"
        )


@lru_cache(maxsize=1024)
def _plan(
    name: str, n: int, x: tuple, w: tuple, bias: tuple | None, stride: Any, padding: Any,
    dilation: Any, groups: int,
) -> Window:
    """Check the arguments and return the convolution's window."""
    _check_rank(name, n, x, w)
    x = x if len(x) == n + 2 else (1, *x)
    stride, dilation = _expand_settings(n, stride, dilation, groups)
    pads = _expand_padding(padding, w[2:], stride, dilation)
    _check(x, w, bias, groups, False)
    window = Window(w[2:], stride, pads, dilation)
    spans = [d * (k - 1) + 1 for k, d in zip(w[2:], dilation, strict=True)]
    lengths = [m + lo + hi for m, (lo, hi) in zip(x[2:], pads, strict=True)]
    if any(m < k for m, k in zip(lengths, spans, strict=True)):
        raise RuntimeError(
            f"Calculated padded input size per channel: ({' x '.join(map(str, lengths))}). Kernel "
            f"size: ({' x '.join(map(str, spans))}). Kernel size can't be greater than actual "
            "input size"
        )
    return window


@lru_cache(maxsize=1024)
def _plan_transposed(
    name: str, n: int, x: tuple, w: tuple, bias: tuple | None, stride: Any, padding: Any,
    output_padding: Any, dilation: Any, groups: int,
) -> tuple[Window, tuple[int, ...]]:
    """Check the arguments; return a transposed convolution's window and its result's lengths."""
    _check_rank(name, n, x, w)
    x = x if len(x) == n + 2 else (1, *x)
    stride, dilation = _expand_settings(n, stride, dilation, groups)
    pads = _expand_padding(padding, w[2:], stride, dilation)
    _check(x, w, bias, groups, True)
    extra = _expand_setting(output_padding, n, "output_padding")
    if any(e >= s and e >= d for e, s, d in zip(extra, stride, dilation, strict=True)):
        axes = ("depth", "height", "width")[-n:] if n > 1 else ("width",)
        words = [f"{label}_{a}: {v}" for label, values in (
            ("output_padding", extra), ("stride", stride), ("dilation", dilation))
            for a, v in zip(axes, values, strict=True)]
        raise RuntimeError("output padding must be smaller than either stride or dilation, but got "
                           + " ".join(words))
    lengths = tuple([
        (m - 1) * s - lo - hi + d * (k - 1) + 1 + e
        for m, s, (lo, hi), d, k, e in zip(x[2:], stride, pads, dilation, w[2:], extra, strict=True)
    ])
    if any(m <= 0 for m in lengths):
        raise RuntimeError(
            f"Given input size per channel: ({' x '.join(map(str, x[2:]))}). Calculated output "
            f"size per channel: ({' x '.join(map(str, lengths))}). Output size is too small"
        )
    return Window(w[2:], stride, pads, dilation), lengths


def _check_dtypes(input: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    for name, other in (("weight", weight), ("bias", bias)):
        if other is not None and other._array.dtype != input._array.dtype:
            kinds = [FROM_NUMPY[t._array.dtype] for t in (input, other)]
            short = [{"float32": "float", "float64": "double"}.get(k.name, k.name) for k in kinds]
            from ...tensor.promotion import legacy_name

            raise RuntimeError(
                f"Input type ({short[0]}) and {name} type ({short[1]}) should be the same: "
                f"expected scalar type {legacy_name(kinds[0])} but found {legacy_name(kinds[1])}"
            )


def _convolve(name: str, n: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any,
              padding: Any, dilation: Any, groups: int) -> Tensor:
    x, w = input._array, weight._array
    window = _plan(name, n, x.shape, w.shape, None if bias is None else bias._array.shape,
                   freeze_integers(name, "stride", stride),
                   freeze_integers(name, "padding", padding),
                   freeze_integers(name, "dilation", dilation),
                   freeze_integers(name, "groups", groups))
    if x.dtype is not w.dtype or bias is not None:
        _check_dtypes(input, weight, bias)
    if x.ndim == n + 2:
        return convolution_op(input, weight, bias, window, groups)
    return convolution_op(input.unsqueeze(0), weight, bias, window, groups).squeeze(0)


def _convolve_transposed(
    name: str, n: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any,
    padding: Any, output_padding: Any, groups: int, dilation: Any,
) -> Tensor:
    window, lengths = _plan_transposed(
        name, n, input._array.shape, weight._array.shape,
        None if bias is None else bias._array.shape, freeze_integers(name, "stride", stride),
        freeze_integers(name, "padding", padding),
        freeze_integers(name, "output_padding", output_padding),
        freeze_integers(name, "dilation", dilation), freeze_integers(name, "groups", groups),
    )
    _check_dtypes(input, weight, bias)
    if input._array.ndim == n + 2:
        return transposed_op(input, weight, bias, lengths, window, groups)
    y = transposed_op(input.unsqueeze(0), weight, bias, lengths, window, groups)
    return y.squeeze(0)


# --------------------------------------------------------------------------- public functions

_SPACES = ("torch", "nn.functional")


@composite(autocast=Policy.LOWER, expose=_SPACES)
def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1,
    padding: Any = 0, dilation: int | Sequence[int] = 1, groups: int = 1
) -> Tensor:
    """Convolve over one axis.

    input (n, c, length) or (c, length), weight (o, c / groups, kernel), bias (o,).

    >>> torch.conv1d(torch.tensor([[[1., 2., 4., 8.]]]), torch.tensor([[[-1., 1.]]]))
    tensor([[[1., 2., 4.]]])
    """
    return _convolve("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


@composite(autocast=Policy.LOWER, expose=_SPACES)
def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1,
    padding: Any = 0, dilation: int | Sequence[int] = 1, groups: int = 1
) -> Tensor:
    """Convolve over two axes.

    input (n, c, h, w) or (c, h, w), weight (o, c / groups, kh, kw), bias (o,); padding is a number,
    one per axis, 'same' or 'valid'. Return (n, o, h', w'), channels-last in memory if the input is.

    >>> torch.conv2d(torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2))
    tensor([[[[4.]]]])
    """
    return _convolve("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


@composite(autocast=Policy.LOWER, expose=_SPACES)
def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1,
    padding: Any = 0, dilation: int | Sequence[int] = 1, groups: int = 1
) -> Tensor:
    """Convolve over three axes.

    input (n, c, d, h, w) or (c, d, h, w), weight (o, c / groups, kd, kh, kw), bias (o,).

    >>> torch.conv3d(torch.ones(1, 2, 4, 5, 6), torch.ones(3, 2, 2, 2, 2)).shape
    torch.Size([1, 3, 3, 4, 5])
    """
    return _convolve("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


@composite(autocast=Policy.LOWER, expose=_SPACES)
def conv_transpose1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1,
    dilation: int | Sequence[int] = 1
) -> Tensor:
    """Apply a transposed convolution over one axis: weight (c, o / groups, kernel).

    Args:
        weight: The kernels, (c, o / groups, kernel).
        padding (int or tuple of ints): How much of the result to leave out on both sides.

    >>> torch.conv_transpose1d(torch.tensor([[[1., 2.]]]), torch.tensor([[[1., 10.]]]), stride=2)
    tensor([[[ 1., 10.,  2., 20.]]])
    """
    return _convolve_transposed("conv_transpose1d", 1, input, weight, bias, stride, padding,
                                output_padding, groups, dilation)


@composite(autocast=Policy.LOWER, expose=_SPACES)
def conv_transpose2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1,
    dilation: int | Sequence[int] = 1
) -> Tensor:
    """Transposed convolution over two axes: input (n, c, h, w), weight (c, o / groups, kh, kw).

    Args:
        weight: The kernels, (c, o / groups, kh, kw).
        padding (int or tuple of ints): How much of the result to leave out on both sides.

    >>> torch.conv_transpose2d(torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1, 2))
    tensor([[[[1., 1.]]]])
    """
    return _convolve_transposed("conv_transpose2d", 2, input, weight, bias, stride, padding,
                                output_padding, groups, dilation)


@composite(autocast=Policy.LOWER, expose=_SPACES)
def conv_transpose3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1,
    dilation: int | Sequence[int] = 1
) -> Tensor:
    """Transposed convolution over three axes: weight (c, o / groups, kd, kh, kw).

    Args:
        weight: The kernels, (c, o / groups, kd, kh, kw).
        padding (int or tuple of ints): How much of the result to leave out on both sides.

    >>> torch.conv_transpose3d(torch.ones(1, 2, 3, 4, 5), torch.ones(2, 3, 2, 2, 2), stride=2).shape
    torch.Size([1, 3, 6, 8, 10])
    """
    return _convolve_transposed("conv_transpose3d", 3, input, weight, bias, stride, padding,
                                output_padding, groups, dilation)


@composite(autocast=Policy.LOWER, expose=("torch",))
def convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    output_padding: Sequence[int], groups: int
) -> Tensor:
    """Convolve, or convolve transposed, over all axes of the weight beyond the first two.

    >>> x, weight = torch.ones(1, 2, 5), torch.ones(3, 2, 2)
    >>> torch.convolution(x, weight, None, [1], [0], [1], False, [0], 1).shape
    torch.Size([1, 3, 4])
    """
    n = weight.dim() - 2
    if transposed:
        return _convolve_transposed("convolution", n, input, weight, bias, stride, padding,
                                    output_padding, groups, dilation)
    return _convolve("convolution", n, input, weight, bias, stride, padding, dilation, groups)


@composite(autocast=Policy.LOWER, expose=_SPACES)
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Convolve over time: input (time, batch, c), weight (kernel, c, o), bias (o,).

    Args:
        input: The input, (time, batch, c).
        weight: The kernels, (kernel, c, o).
        pad (int): Zeros at both ends of the time.

    >>> torch.conv_tbc(torch.ones(5, 2, 3), torch.ones(2, 3, 4), torch.zeros(4)).shape
    torch.Size([4, 2, 4])
    """
    y = conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return y.permute(2, 0, 1)


@composite(expose=("aten",), explains=True)
def convolution_backward(
    grad_output: Tensor, input: Tensor, weight: Tensor, bias_sizes: Sequence[int] | None,
    stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    output_padding: Sequence[int], groups: int, output_mask: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    """Return the cotangents of input, weight and bias; None for those masked out.

    >>> x, weight, g = torch.ones(1, 1, 3), torch.ones(1, 1, 2), torch.ones(1, 1, 2)
    >>> settings = [1], [0], [1], False, [0], 1
    >>> torch.ops.aten.convolution_backward(g, x, weight, [1], *settings, [True, False, True])
    (tensor([[[1., 2., 1.]]]), None, tensor([2.]))
    """
    name, n, shapes = "convolution_backward", weight.dim() - 2, (input.shape, weight.shape, None)
    plan = [freeze_integers(name, "stride", stride), freeze_integers(name, "padding", padding)]
    after = [freeze_integers(name, "dilation", dilation), groups]
    if transposed:
        window, _ = _plan_transposed(
            name, n, *shapes, *plan,
            freeze_integers(name, "output_padding", output_padding), *after)
    else:
        window = _plan(name, n, *shapes, *plan, *after)
    operator = (transposed_op if transposed else convolution_op).operator
    alone = input.dim() == n + 1
    g, x = (t.unsqueeze(0) if alone else t for t in (grad_output, input))
    sizes = {"input_shape": tuple(x.shape), "weight": weight, "input": x, "window": window,
             "groups": groups, "input_format": suggest_format(x._array),
             "weight_format": suggest_format(weight._array)}
    result: list[Tensor | None] = []
    for slot, is_needed in zip(("input", "weight", "bias"), output_mask, strict=True):
        vjp = operator.vjps[slot]
        names = list(signature(vjp).parameters)[1:]
        result.append(vjp(g, *[sizes[key] for key in names]) if is_needed else None)
    if alone and result[0] is not None:
        result[0] = result[0].squeeze(0)
    return tuple(result)
