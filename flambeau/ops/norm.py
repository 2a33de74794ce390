"""Normalisation layers: batch, layer, group, instance, root mean square, local response."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..autograd.mode import MODE
from ..tensor.dtypes import FROM_NUMPY, HALF, finfo
from ..tensor.promote import legacy_name
from ..tensor.tensor import Tensor, wrap
from .join import cat
from .norm_kernels import (
    affine, channel_moments, channel_sums, combined, rows_backward, rows_forward,
)  # fmt: skip
from .promotion import compute_dtype
from .registry import Array, composite, opaque, publish
from .samples import Rng, Sample


def _as(kind: np.dtype, *arrays: Array | None) -> list[Array | None]:
    return [None if a is None else a.astype(kind, copy=False) for a in arrays]


def _floating(name: str, input: Tensor) -> np.dtype:
    """The dtype of the statistics; NotImplementedError for integers."""
    kind = input._array.dtype
    if kind.kind not in "fV":
        raise NotImplementedError(
            f"\"{name}\" not implemented for '{legacy_name(FROM_NUMPY[kind])}'"
        )
    return compute_dtype(kind)


def _check_parameter_dtypes(input: Tensor, *parameters: Tensor | None) -> None:
    for p in parameters:
        if p is None or p._array.dtype == input._array.dtype:
            continue
        if input.dtype in HALF:
            if p._array.dtype == np.float32:
                continue
            raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
        if p._array.itemsize > input._array.itemsize:
            raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
        raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")


def _statistics(shape: Any, kind: np.dtype) -> tuple[Tensor, Tensor]:
    """Where an operator leaves its mean and 1 / deviation, for its derivative."""
    return wrap(np.empty(shape, kind)), wrap(np.empty(shape, kind))


def _slope(g: Tensor, hat: Tensor, rstd: Tensor, dims: list[int]) -> Tensor:
    """The derivative of normalisation over `dims`, in operators."""
    return rstd * (g - g.mean(dims, True) - hat * (g * hat).mean(dims, True))


def _normalised(input: Tensor, dims: list[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """(input less mean) / deviation, the mean and 1 / deviation over `dims`, in operators."""
    mean = input.mean(dims, True)
    centred = input - mean
    rstd = ((centred * centred).mean(dims, True) + eps).rsqrt()
    return centred * rstd, mean, rstd


# ------------------------------------------------------------------------------- layer norm


def _layer_samples(rng: Rng) -> Iterator[Sample]:
    for shape, n in (((3, 4), 1), ((2, 3, 4), 2)):
        tail = shape[len(shape) - n :]
        rows = math.prod(shape[: len(shape) - n])
        yield (rng.normal(size=shape), rng.normal(size=tail), rng.normal(size=tail),
               np.zeros(rows), np.zeros(rows), n, 1e-5), {}  # fmt: skip


def _layer_reference(x, w, b, mean, rstd, n, eps):
    axes = tuple(range(x.ndim - n, x.ndim))
    y = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)
    return y * w + b


@opaque(name="_layer_norm", node="NativeLayerNormBackward0", expose=(), ref=_layer_reference,
        samples=_layer_samples)  # fmt: skip
def _layer_norm(
    input: Array, weight: Array | None, bias: Array | None, save_mean: Array, save_rstd: Array,
    n: int, eps: float,
) -> Array:  # fmt: skip
    """Normalised over the last n axes; leaves the statistics of each row."""
    if not input.size:
        return np.empty(input.shape, input.dtype)
    inside = save_mean.dtype
    x, w, b = _as(inside, input, weight, bias)
    rows = x.reshape(len(save_mean), -1)
    w, b = (None if v is None else v.reshape(-1) for v in (w, b))
    y = rows_forward(rows, w, b, save_mean, save_rstd, eps)
    return y.reshape(input.shape).astype(input.dtype, copy=False)


@_layer_norm.vjp
def _(g, input, weight, save_mean, save_rstd, n, eps, needs):
    if not MODE.grad:
        found = _layer_norm_backward(g, input, weight, save_mean, save_rstd, n)
        return _given(found, needs)
    dims = list(range(-n, 0))
    hat, _, rstd = _normalised(input, dims, eps)
    share = g if weight is None else g * weight
    lead = list(range(input.dim() - n))
    of_weight, of_bias = (g * hat, g) if not lead else ((g * hat).sum(lead), g.sum(lead))
    return _given((_slope(share, hat, rstd, dims), of_weight, of_bias), needs)


def _given(found: Any, needs: tuple[bool, ...]) -> tuple:
    """A joint derivative's answer: gradients for the first three inputs, None for the rest."""
    three = [y if need else None for y, need in zip(found, needs, strict=False)]
    return (*three, *(None,) * (len(needs) - 3))


@opaque(name="_layer_norm_backward", expose=(), differentiable=False, ref=None, samples=None)
def _layer_norm_backward(
    g: Array, input: Array, weight: Array | None, mean: Array, rstd: Array, n: int
) -> tuple[Array, Array, Array]:
    """The cotangents of layer_norm's input, weight and bias."""
    tail = input.shape[input.ndim - n :]
    kind = input.dtype if weight is None else weight.dtype
    if not input.size:
        return np.zeros(input.shape, input.dtype), np.zeros(tail, kind), np.zeros(tail, kind)
    share, x, w = _as(mean.dtype, g, input, weight)
    found = rows_backward(share.reshape(len(mean), -1), x.reshape(len(mean), -1),
                          None if w is None else w.reshape(-1), mean, rstd)  # fmt: skip
    return (found[0].reshape(input.shape).astype(input.dtype, copy=False),
            found[1].reshape(tail).astype(kind, copy=False),
            found[2].reshape(tail).astype(kind, copy=False))  # fmt: skip


def _check_shapes(
    input: Tensor, normalized: tuple[int, ...], weight: Tensor | None, bias: Tensor | None,
    form: str,
) -> None:  # fmt: skip
    if not normalized:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            "element, but got normalized_shape = []"
        )
    for name, p in (("weight", weight), ("bias", bias)):
        if p is not None and p._array.shape != normalized:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{list(p.shape)} and normalized_shape = {list(normalized)}"
            )
    shape = input._array.shape
    if shape[len(shape) - len(normalized) :] != normalized or len(shape) < len(normalized):
        wanted = ", ".join(map(str, normalized))
        raise RuntimeError(
            f"Given normalized_shape={list(normalized)}, expected input with shape "
            f"{form.format(wanted)}, but got input of size{list(shape)}"
        )


def _shape_tuple(normalized_shape: Any, name: str) -> tuple[int, ...]:
    if isinstance(normalized_shape, int):
        raise TypeError(
            f"{name}(): argument 'normalized_shape' (position 2) must be tuple of ints, not int"
        )
    return tuple(normalized_shape)


def _layer(input: Tensor, normalized: tuple, weight: Any, bias: Any, eps: float) -> tuple:
    _check_shapes(input, normalized, weight, bias, "[*, {}]")
    kind = _floating("LayerNormKernelImpl", input)
    _check_parameter_dtypes(input, weight, bias)
    n = len(normalized)
    rows = math.prod(input._array.shape[: input._array.ndim - n])
    mean, rstd = _statistics((rows,), kind)
    return _layer_norm(input, weight, bias, mean, rstd, n, eps), mean, rstd


@composite(expose=("nn.functional",))
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """(x - mean) / sqrt(var + eps) over the last axes, times weight plus bias.

    normalized_shape, weight and bias: the lengths of those axes.

    >>> torch.nn.functional.layer_norm(torch.tensor([1., 3.]), (2,))
    tensor([-1.0000,  1.0000])
    """
    return _layer(input, _shape_tuple(normalized_shape, "layer_norm"), weight, bias, eps)[0]


def _torch_layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5,
                      cudnn_enable=True):  # fmt: skip
    """(x - mean) / sqrt(var + eps) over the last axes, times weight plus bias."""
    return layer_norm(input, normalized_shape, weight, bias, eps)


publish(_torch_layer_norm, ("layer_norm",), ("torch",))


@composite(expose=("torch",))
def native_layer_norm(input, normalized_shape, weight, bias, eps):
    """layer_norm, and the mean and 1 / deviation of each row."""
    normalized = tuple(normalized_shape)
    y, mean, rstd = _layer(input, normalized, weight, bias, eps)
    n = len(normalized)
    if MODE.grad and input.requires_grad:
        _, mean, rstd = _normalised(input, list(range(-n, 0)), eps)
        return y, mean, rstd
    shape = (*input.shape[: input.dim() - n], *(1,) * n)
    return y, mean.reshape(shape), rstd.reshape(shape)


# ------------------------------------------------------------------------------- batch norm


def _batch_samples(rng: Rng) -> Iterator[Sample]:
    for shape in ((4, 3), (2, 3, 4)):
        yield (rng.normal(size=shape), rng.normal(size=3), rng.normal(size=3), None, None,
               np.zeros(3), np.zeros(3), 0.1, 1e-5), {}  # fmt: skip


def _batch_reference(x, w, b, *rest):
    axes = (0, *range(2, x.ndim))
    y = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + rest[-1])
    shape = (1, -1, *(1,) * (x.ndim - 2))
    return y * w.reshape(shape) + b.reshape(shape)


def _images(x: Array) -> Array:
    return x.reshape(*x.shape[:2], -1)


def _scaled(rstd: Array, weight: Array | None) -> Array:
    return rstd if weight is None else rstd * weight


@opaque(name="_batch_norm", node="NativeBatchNormBackward0", expose=(), ref=_batch_reference,
        samples=_batch_samples)  # fmt: skip
def _batch_norm(
    input: Array, weight: Array | None, bias: Array | None, running_mean: Array | None,
    running_var: Array | None, save_mean: Array, save_rstd: Array, momentum: float, eps: float,
) -> Array:  # fmt: skip
    """Each channel normalised by its own statistics, which move the running ones."""
    if not input.size:
        return np.empty(input.shape, input.dtype)
    inside = save_mean.dtype
    x, w, b = _as(inside, input, weight, bias)
    x = _images(x)
    count = x.shape[0] * x.shape[2]
    mean, squares = channel_moments(x)
    save_mean[...], save_rstd[...] = mean, 1 / np.sqrt(squares / inside.type(count) + inside.type(eps))
    for running, new in ((running_mean, mean), (running_var, squares / max(count - 1, 1))):
        if running is not None:
            running[...] = (1 - momentum) * running + momentum * new
    scale = _scaled(save_rstd, w)
    shift = -mean * scale if b is None else b - mean * scale
    return affine(x, scale, shift).reshape(input.shape).astype(input.dtype, copy=False)


@_batch_norm.vjp
def _(g, input, weight, save_mean, save_rstd, eps, needs):
    if not MODE.grad:
        return _given(_batch_norm_backward(g, input, weight, save_mean, save_rstd), needs)
    dims = [0, *range(2, input.dim())]
    hat, _, rstd = _normalised(input, dims, eps)
    share = g if weight is None else g * _channels(weight, input)
    return _given((_slope(share, hat, rstd, dims), (g * hat).sum(dims), g.sum(dims)), needs)


def _channels(v: Tensor, like: Tensor) -> Tensor:
    return v.reshape(1, -1, *(1,) * (like.dim() - 2))


@opaque(name="_batch_norm_backward", expose=(), differentiable=False, ref=None, samples=None)
def _batch_norm_backward(
    g: Array, input: Array, weight: Array | None, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    """The cotangents of batch_norm's input, weight and bias, in training."""
    kind = input.dtype if weight is None else weight.dtype
    if not input.size:
        return np.zeros(input.shape, input.dtype), np.zeros(len(mean), kind), np.zeros(
            len(mean), kind)  # fmt: skip
    share, x, w = _as(mean.dtype, g, input, weight)
    share, x = _images(share), _images(x)
    count = mean.dtype.type(x.shape[0] * x.shape[2])
    of_g, of_product = (np.add.reduce(v, 0) for v in channel_sums(share, x, mean))
    a = _scaled(rstd, w)
    b = -a * rstd * rstd * of_product / count
    c = -a * of_g / count - b * mean
    made = combined(share, x, a, b, c).reshape(input.shape)
    return (made.astype(input.dtype, copy=False), (of_product * rstd).astype(kind, copy=False),
            of_g.astype(kind, copy=False))  # fmt: skip


def _running_samples(rng: Rng) -> Iterator[Sample]:
    for shape in ((4, 3), (2, 3, 4)):
        yield (rng.normal(size=shape), rng.normal(size=3), rng.normal(size=3), rng.normal(size=3),
               rng.uniform(0.5, 2, 3), 1e-5), {}  # fmt: skip


def _running_reference(x, w, b, mean, var, eps):
    mean, var, w, b = (v.reshape(1, -1, *(1,) * (x.ndim - 2)) for v in (mean, var, w, b))
    return (x - mean) / np.sqrt(var + eps) * w + b


@opaque(name="_batch_norm_running", node="NativeBatchNormBackward0", expose=(),
        ref=_running_reference, samples=_running_samples)  # fmt: skip
def _batch_norm_running(
    input: Array, weight: Array | None, bias: Array | None, running_mean: Array,
    running_var: Array, eps: float,
) -> Array:  # fmt: skip
    """Each channel normalised by the statistics given."""
    inside = compute_dtype(input.dtype)
    x, w, b, mean, var = _as(inside, input, weight, bias, running_mean, running_var)
    scale = _scaled(1 / np.sqrt(var + inside.type(eps)), w)
    shift = -mean * scale if b is None else b - mean * scale
    if not input.size:
        return np.empty(input.shape, input.dtype)
    return affine(_images(x), scale, shift).reshape(input.shape).astype(input.dtype, copy=False)


@_batch_norm_running.vjp("input")
def _(g, weight, running_var, eps):
    scale = (running_var + eps).rsqrt()
    scale = scale if weight is None else scale * weight
    return g * _channels(scale, g).to(g.dtype)


@_batch_norm_running.vjp("weight")
def _(g, input, running_mean, running_var, eps):
    dims = [0, *range(2, input.dim())]
    centred = input - _channels(running_mean, input)
    return (g * centred).sum(dims) * (running_var + eps).rsqrt()


@_batch_norm_running.vjp("bias")
def _(g):
    return g.sum([0, *range(2, g._array.ndim)])


def _check_batch(input: Tensor, eps: float, named: dict[str, Tensor | None]) -> None:
    shape = input._array.shape
    if len(shape) < 2 and input._array.size:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-len(shape)}, "
            f"{len(shape) - 1}], but got 1): batch_norm expects input (n, c, ...), got {list(shape)}"
        )
    if eps < 0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    for name, p in named.items():
        if p is not None and p._array.size != shape[-1 if len(shape) < 2 else 1]:
            raise RuntimeError(
                f"{name} should contain {shape[1]} elements not {p._array.size}"
            )


def _batch(input, running_mean, running_var, weight, bias, training, momentum, eps):
    """batch_norm, with the mean and 1 / deviation that it used in training."""
    _check_batch(input, eps, {"running_mean": running_mean, "running_var": running_var,
                              "weight": weight, "bias": bias})  # fmt: skip
    kind = _floating("batch_norm", input)
    _check_parameter_dtypes(input, weight, bias)
    if input._array.ndim < 2:
        return input.clone(), None, None  # empty, the only vectors that pass
    if not training:
        for name, p in (("running_mean", running_mean), ("running_var", running_var)):
            if p is None:
                raise RuntimeError(f"{name} must be defined in evaluation mode")
        return _batch_norm_running(input, weight, bias, running_mean, running_var, eps), None, None
    mean, rstd = _statistics((input._array.shape[1],), kind)
    y = _batch_norm(input, weight, bias, running_mean, running_var, mean, rstd,
                    0.0 if momentum is None else momentum, eps)  # fmt: skip
    return y, mean, rstd


@composite(expose=("nn.functional",))
def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False,
               momentum=0.1, eps=1e-5):  # fmt: skip
    """(x - mean) / sqrt(var + eps) for each channel of (n, c, ...), times weight plus bias.

    In training the statistics are the batch's, and the running ones move by `momentum` towards
    them (the variance without bias); otherwise they are the running ones. ValueError in training
    for a single value a channel.
    """
    if training:
        shape = input._array.shape
        if len(shape) > 1 and shape[0] * math.prod(shape[2:]) == 1:
            raise ValueError(
                f"Expected more than 1 value per channel when training, got input size {input.size()}"
            )
    return _batch(input, running_mean, running_var, weight, bias, training, momentum, eps)[0]


def _torch_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps,
                      cudnn_enabled):  # fmt: skip
    """batch_norm, with the parameters first."""
    return _batch(input, running_mean, running_var, weight, bias, training, momentum, eps)[0]


publish(_torch_batch_norm, ("batch_norm",), ("torch",))


@composite(expose=("torch",))
def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    """batch_norm, and the mean and 1 / deviation used in training (empty otherwise)."""
    y, mean, rstd = _batch(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if mean is None:
        return y, input.new_empty(0), input.new_empty(0)
    return y, mean, rstd


def _legit(input, weight, bias, *rest):
    """native_batch_norm, with or without the two running statistics."""
    running, settings = ((None, None), rest) if len(rest) == 3 else (rest[:2], rest[2:])
    return native_batch_norm(input, weight, bias, *running, *settings)


publish(_legit, ("_native_batch_norm_legit",), ("torch",))


# ----------------------------------------------------------------------- group, instance norm


def _group_samples(rng: Rng) -> Iterator[Sample]:
    yield (rng.normal(size=(2, 4, 3)), rng.normal(size=4), rng.normal(size=4), np.zeros((2, 2)),
           np.zeros((2, 2)), 2, 1e-5), {}  # fmt: skip


def _group_reference(x, w, b, mean, rstd, groups, eps):
    rows = x.reshape(x.shape[0], groups, -1)
    y = (rows - rows.mean(2, keepdims=True)) / np.sqrt(rows.var(2, keepdims=True) + eps)
    return y.reshape(x.shape) * w[:, None] + b[:, None]


@opaque(name="_group_norm", node="NativeGroupNormBackward0", expose=(), ref=_group_reference,
        samples=_group_samples)  # fmt: skip
def _group_norm(
    input: Array, weight: Array | None, bias: Array | None, save_mean: Array, save_rstd: Array,
    groups: int, eps: float,
) -> Array:  # fmt: skip
    """Groups of channels normalised; leaves the statistics of each, (n, groups)."""
    if not input.size:
        return np.empty(input.shape, input.dtype)
    inside = save_mean.dtype
    x, w, b = _as(inside, input, weight, bias)
    x = _images(x)
    mean, squares = channel_moments(x.reshape(1, x.shape[0] * groups, -1))
    size = inside.type(x.shape[1] // groups * x.shape[2])
    save_mean[...] = mean.reshape(save_mean.shape)
    save_rstd[...] = (1 / np.sqrt(squares / size + inside.type(eps))).reshape(save_rstd.shape)
    scale, mean = (np.repeat(v, x.shape[1] // groups, 1) for v in (save_rstd, save_mean))
    scale = _scaled(scale, w)
    shift = -mean * scale if b is None else b - mean * scale
    return affine(x, scale, shift).reshape(input.shape).astype(input.dtype, copy=False)


@_group_norm.vjp
def _(g, input, weight, save_mean, save_rstd, groups, eps, needs):
    if not MODE.grad:
        return _given(_group_norm_backward(g, input, weight, save_mean, save_rstd, groups), needs)
    size = math.prod(input.shape[1:]) // groups
    rows = input.reshape(input.shape[0], groups, size)
    hat, _, rstd = _normalised(rows, [2], eps)
    share = g if weight is None else g * _channels(weight, input)
    found = _slope(share.reshape(rows.shape), hat, rstd, [2]).reshape(input.shape)
    dims = [0, *range(2, input.dim())]
    return _given((found, (g * hat.reshape(input.shape)).sum(dims), g.sum(dims)), needs)


@opaque(name="_group_norm_backward", expose=(), differentiable=False, ref=None, samples=None)
def _group_norm_backward(
    g: Array, input: Array, weight: Array | None, mean: Array, rstd: Array, groups: int
) -> tuple[Array, Array, Array]:
    """The cotangents of group_norm's input, weight and bias."""
    kind, channels = input.dtype if weight is None else weight.dtype, input.shape[1]
    if not input.size:
        zeros = np.zeros(channels, kind)
        return np.zeros(input.shape, input.dtype), zeros, zeros.copy()
    share, x, w = _as(mean.dtype, g, input, weight)
    share, x = _images(share), _images(x)
    each = channels // groups
    means, rstds = np.repeat(mean, each, 1), np.repeat(rstd, each, 1)  # (n, c)
    of_g, of_product = channel_sums(share, x, means)
    a = _scaled(rstds, w)
    weighted = [v if w is None else v * w for v in (of_g, of_product)]
    size = mean.dtype.type(each * x.shape[2])
    of_group = [np.add.reduce(v.reshape(*mean.shape, each), 2) / size for v in weighted]
    b = np.repeat(-of_group[1] * rstd**3, each, 1)
    c = np.repeat(-of_group[0] * rstd, each, 1) - b * means
    made = combined(share, x, a, b, c).reshape(input.shape).astype(input.dtype, copy=False)
    return (made, np.add.reduce(of_product * rstds, 0).astype(kind, copy=False),
            np.add.reduce(of_g, 0).astype(kind, copy=False))  # fmt: skip


def _group(input: Tensor, groups: int, weight: Any, bias: Any, eps: float) -> tuple:
    kind = _floating("GroupNormKernelImpl", input)
    _check_parameter_dtypes(input, weight, bias)
    mean, rstd = _statistics((input._array.shape[0], groups), kind)
    return _group_norm(input, weight, bias, mean, rstd, groups, eps), mean, rstd


@composite(expose=("nn.functional",))
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """(x - mean) / sqrt(var + eps) for each group of channels of each image.

    input (n, c, ...), weight and bias (c,); num_groups divides c.
    """
    shape = input._array.shape
    if len(shape) < 2:
        raise RuntimeError(
            f"Expected at least 2 dimensions for input tensor but received {len(shape)}"
        )
    if num_groups and shape[0] * shape[1] // num_groups * math.prod(shape[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {list(shape)}"
        )
    if num_groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    if shape[1] % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of "
            f"shape {list(shape)} and num_groups={num_groups}"
        )
    for name, p in (("weight", weight), ("bias", bias)):
        if p is not None and p._array.shape != (shape[1],):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, "
                f"but got {name} of shape {list(p.shape)} and input of shape {list(shape)}"
            )
    return _group(input, num_groups, weight, bias, eps)[0]


def _torch_group_norm(input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    """(x - mean) / sqrt(var + eps) for each group of channels of each image."""
    return group_norm(input, num_groups, weight, bias, eps)


publish(_torch_group_norm, ("group_norm",), ("torch",))


@composite(expose=("torch",))
def native_group_norm(input, weight, bias, N, C, HxW, group, eps):  # noqa: N803
    """group_norm, and the mean and 1 / deviation of each group, (N, group)."""
    y, mean, rstd = _group(input, group, weight, bias, eps)
    if MODE.grad and input.requires_grad:
        _, mean, rstd = (v.squeeze(2) if i else v for i, v in enumerate(
            _normalised(input.reshape(N, group, C // group * HxW), [2], eps)))  # fmt: skip
    return y, mean, rstd


@composite(expose=("nn.functional",))
def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None,
                  use_input_stats=True, momentum=0.1, eps=1e-5):  # fmt: skip
    """(x - mean) / sqrt(var + eps) for each channel of each image of (n, c, ...).

    The running statistics, where given, move by `momentum` towards the mean over the images.
    """
    shape = input._array.shape
    if use_input_stats and math.prod(shape[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {input.size()}"
        )
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError(
            "Expected running_mean and running_var to be defined when use_input_stats is false"
        )
    n, c = shape[:2]
    repeated = [None if p is None else p.repeat(n) for p in
                (running_mean, running_var, weight, bias)]  # fmt: skip
    y = _batch(input.reshape(1, n * c, *shape[2:]), *repeated, use_input_stats, momentum, eps)[0]
    for p, moved in ((running_mean, repeated[0]), (running_var, repeated[1])):
        if p is not None and use_input_stats:
            p.detach().copy_(moved.reshape(n, c).mean(0))
    return y.reshape(shape)


def _torch_instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum,
                         eps, cudnn_enabled):  # fmt: skip
    """instance_norm, with the parameters first."""
    return instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum,
                         eps)  # fmt: skip


publish(_torch_instance_norm, ("instance_norm",), ("torch",))


# ------------------------------------------------------------------------------------ others


@composite(expose=("torch", "nn.functional"))
def rms_norm(input, normalized_shape, weight=None, eps=None):
    """x / sqrt(mean(x ** 2) + eps) over the last axes, times weight; eps is the dtype's if None."""
    normalized = _shape_tuple(normalized_shape, "rms_norm")
    _check_shapes(input, normalized, weight, None, "[*{}]")
    eps = finfo(input.dtype).eps if eps is None else eps
    x = input.float() if input.dtype in HALF else input
    dims = list(range(-len(normalized), 0))
    y = x * (x.pow(2).mean(dims, True) + eps).rsqrt()
    if weight is not None:
        y = y * weight
    return y.to(input.dtype) if y.dtype is not input.dtype else y


@composite(expose=("nn.functional",))
def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """x / (k + alpha * mean of squares over `size` neighbouring channels) ** beta.

    input (n, c, ...). Krizhevsky et al., 2012.
    """
    if input.dim() < 3:
        raise ValueError(
            f"Expected 3D or higher dimensionality input (got {input.dim()} dimensions)"
        )
    if not input.numel():
        return input
    squares = input * input
    shape = list(input.shape)
    ends = [squares.new_zeros([shape[0], n, *shape[2:]]) for n in (size // 2, (size - 1) // 2)]
    wide = cat([ends[0], squares, ends[1]], 1)
    total = wide.narrow(1, 0, shape[1])
    for i in range(1, size):
        total = total + wide.narrow(1, i, shape[1])
    mean = total / size if input.is_floating_point() else total // size
    return input / (mean * alpha + k).pow(beta)
