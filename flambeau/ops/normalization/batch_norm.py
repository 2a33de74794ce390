"""Batch normalization: by the batch's statistics, which move running ones, or by those."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...autograd.mode import MODE
from ...native.foundation.user_frames import add_notes
from ...tensor.dtypes import FLOATS, uint8
from ...tensor.layout import memory_format as MemoryFormat
from ...tensor.tensor import Tensor
from ...tensor.windows.batch import Batch
from ..core.errors import wrap_with_explanation
from ..core.operator import Array, Number, publish
from ..core.output_layout import Layout, lay_out
from ..core.promotion import compute_dtype
from ..core.registry import composite, opaque
from ..core.sample_inputs import Rng, Sample
from ..core.scalar_conversion import number
from ..creation.copies import in_format
from ..reduction.variance import var_mean
from .duals import normalize_channels_with_tangent
from .norm_arrays import affine, channel_moments, channel_sums, combine
from .norm_formulas import (
    allocate_statistics, as_dtype, check_parameter_dtypes, choose_statistics_dtype,
    compute_affine_tangent, compute_channel_scale, compute_input_cotangent, flatten_positions,
    normalize, reshape_along_channels, scale_channels, select_needed,
)
from .small_batch_norm import differentiate_small_batch, normalize_small_batch


def _batch_samples(rng: Rng) -> Iterator[Sample]:
    for shape in ((4, 3), (2, 3, 4)):
        yield (rng.normal(size=shape), rng.normal(size=3), rng.normal(size=3), None, None,
               np.zeros(3), np.zeros(3), 0.1, 1e-5), {}


def _batch_reference(x: np.ndarray, w: np.ndarray, b: np.ndarray, *rest: Any) -> np.ndarray:
    axes = (0, *range(2, x.ndim))
    y = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + rest[-1])
    shape = (1, -1, *(1,) * (x.ndim - 2))
    return y * w.reshape(shape) + b.reshape(shape)


@opaque(layout=Layout.MEMORY,
        name="_batch_norm", node="NativeBatchNormBackward0", expose=(), ref=_batch_reference,
        samples=_batch_samples, writes=("running_mean", "running_var", "save_mean", "save_rstd"))
def _batch_norm(
    input: Array, weight: Array | None, bias: Array | None, running_mean: Array | None,
    running_var: Array | None, save_mean: Array, save_rstd: Array, momentum: float, eps: float,
) -> Array:
    """Each channel normalized by its own statistics, which move the running ones."""
    if not input.size:
        return np.empty(input.shape, input.dtype)
    y = normalize_small_batch(
        input, weight, bias, running_mean, running_var, save_mean, save_rstd, momentum, eps)
    if y is not None:
        return y
    inside = save_mean.dtype
    x, w, b = as_dtype(inside, input, weight, bias)
    x = flatten_positions(x)
    count = x.shape[0] * x.shape[2]
    mean, squares = channel_moments(x)
    save_mean[...] = mean
    deviation = np.sqrt(squares / number(count, inside) + number(eps, inside))
    save_rstd[...] = np.reciprocal(deviation)
    _move_statistics(running_mean, running_var, mean, squares, count, momentum)
    scale = compute_channel_scale(save_rstd, w)
    shift = -mean * scale if b is None else b - mean * scale
    return affine(x, scale, shift).reshape(input.shape).astype(input.dtype, copy=False)


def _move_statistics(
    running_mean: Array | None, running_var: Array | None, mean: Array, squares: Array, count: int,
    momentum: float
) -> None:
    """Move the running statistics, if any, towards those of a batch of `count` numbers."""
    if running_mean is not None:
        _move(running_mean, mean, momentum)
    if running_var is not None:
        _move(running_var, squares / number(max(count - 1, 1), mean.dtype), momentum)


def _move(running: Array, new: Array, momentum: float) -> None:
    """A running statistic moved towards a new one."""
    if running.dtype is new.dtype:
        decay, share = number(1 - momentum, new.dtype), number(momentum, new.dtype)
        running[...] = decay * running + share * new
    else:
        running[...] = (1 - momentum) * running + momentum * new


@_batch_norm.vjp
def _(
    g: Tensor, input: Tensor, weight: Tensor | None, save_mean: Tensor, save_rstd: Tensor,
    eps: float, needs: tuple[bool, ...], input_format: MemoryFormat
) -> tuple[Tensor | None, ...]:
    if not MODE.grad:
        return select_needed(_batch_norm_backward(g, input, weight, save_mean, save_rstd), needs)
    dims = [0, *range(2, input.dim())]
    hat, _, rstd = normalize(input, dims, eps)
    share = g if weight is None else g * reshape_along_channels(weight, input)
    gradient = in_format(compute_input_cotangent(share, hat, rstd, dims), input_format)
    return select_needed((gradient, (g * hat).sum(dims), g.sum(dims)), needs)


@_batch_norm.jvp
def _(
    input_t: Tensor | None, weight_t: Tensor | None, bias_t: Tensor | None, input: Tensor,
    weight: Tensor | None, save_mean: Tensor, save_rstd: Tensor, eps: float
) -> Tensor | None:
    if not MODE.grad:
        return _batch_norm_tangent(
            input_t, input, weight, save_mean, save_rstd, weight_t, bias_t)

    def push(t: Any) -> Any:
        dims = [0, *range(2, input.dim())]
        hat, _, rstd = normalize(input, dims, eps)
        return compute_input_cotangent(t, hat, rstd, dims)

    def affine(scale: Any, shift: Any) -> Any:
        statistics = save_mean.clone(), save_rstd.clone()
        return _batch_norm(input, scale, shift, None, None, *statistics, 0.0, eps)

    return compute_affine_tangent(push, affine, (input_t, weight_t, bias_t), input, weight,
                                  reshape_along_channels)


@_batch_norm.value_and_jvp
def _(
    input: Array, input_t: Array | None, weight: Array | None, weight_t: Array | None,
    bias: Array | None, bias_t: Array | None, running_mean: Array | None,
    running_var: Array | None, save_mean: Array, save_rstd: Array, momentum: float, eps: float
) -> tuple[Array, Array] | None:
    if input_t is None or input.ndim < 3 \
            or not (input.flags.c_contiguous and input_t.flags.c_contiguous):
        return None
    parameters = as_dtype(save_mean.dtype, weight, weight_t, bias, bias_t)
    result = normalize_channels_with_tangent(
        flatten_positions(input), flatten_positions(input_t), tuple(parameters), eps)
    if result is None:
        return None
    y, y_t, save_mean[...], save_rstd[...], squares = result
    count = input.size // input.shape[1]
    _move_statistics(running_mean, running_var, save_mean, squares, count, momentum)
    return y.reshape(input.shape), y_t.reshape(input.shape)


@opaque(layout=Layout.FREE,
        name="_batch_norm_tangent", expose=(), differentiable=False, ref=None, samples=None)
def _batch_norm_tangent(
    input_t: Array | None, input: Array, weight: Array | None, mean: Array, rstd: Array,
    weight_t: Array | None, bias_t: Array | None
) -> Array:
    """The tangent of batch_norm in training: of each channel, linear in the input and its tangent.

    Two passes over memory, one of them for the channels' sums.
    """
    if not input.size:
        return np.empty(input.shape, input.dtype)
    t, x, w, w_t, b_t = as_dtype(mean.dtype, input_t, input, weight, weight_t, bias_t)
    x = flatten_positions(x)
    b = np.zeros(mean.shape, mean.dtype) if w_t is None else rstd * w_t
    c = -b * mean if b_t is None else b_t - b * mean
    if t is None:
        y = affine(x, b, c)
    else:
        t = flatten_positions(t)
        count = number(x.shape[0] * x.shape[2], mean.dtype)
        of_t, of_product = (np.add.reduce(v, 0) for v in channel_sums(t, x, mean))
        a = compute_channel_scale(rstd, w)
        slant = -a * rstd * rstd * of_product / count
        y = combine(t, x, a, b + slant, c - a * of_t / count - slant * mean)
    return y.reshape(input.shape).astype(input.dtype, copy=False)


@opaque(layout=Layout.FREE,
        name="_batch_norm_backward", expose=(), differentiable=False, ref=None, samples=None)
def _batch_norm_backward(
    g: Array, input: Array, weight: Array | None, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    """The cotangents of batch_norm's input, weight and bias, in training."""
    kind = input.dtype if weight is None else weight.dtype
    if not input.size:
        nothing = lay_out(Layout.PRESERVE, np.zeros(input.shape, input.dtype), [g])
        return nothing, np.zeros(len(mean), kind), np.zeros(len(mean), kind)
    small = differentiate_small_batch(g, input, weight, mean, rstd)
    if small is not None:
        return lay_out(Layout.CHANNELS_LAST, small[0], [input]), *small[1:]
    share, x, w = as_dtype(mean.dtype, g, input, weight)
    share, x = flatten_positions(share), flatten_positions(x)
    count = number(x.shape[0] * x.shape[2], mean.dtype)
    of_g, of_product = (np.add.reduce(v, 0) for v in channel_sums(share, x, mean))
    a = compute_channel_scale(rstd, w)
    b = -a * rstd * rstd * of_product / count
    c = -a * of_g / count - b * mean
    result = combine(share, x, a, b, c).reshape(input.shape)
    result = lay_out(Layout.CHANNELS_LAST, result.astype(input.dtype, copy=False), [input])
    return (result, (of_product * rstd).astype(kind, copy=False),
            of_g.astype(kind, copy=False))


def _running_samples(rng: Rng) -> Iterator[Sample]:
    for shape in ((4, 3), (2, 3, 4)):
        yield (rng.normal(size=shape), rng.normal(size=3), rng.normal(size=3), rng.normal(size=3),
               rng.uniform(0.5, 2, 3), 1e-5), {}


def _running_reference(
    x: np.ndarray, w: np.ndarray, b: np.ndarray, mean: np.ndarray, var: np.ndarray, eps: float
) -> np.ndarray:
    mean, var, w, b = (v.reshape(1, -1, *(1,) * (x.ndim - 2)) for v in (mean, var, w, b))
    return (x - mean) / np.sqrt(var + eps) * w + b


@opaque(layout=Layout.MEMORY,
        name="_batch_norm_running", node="NativeBatchNormBackward0", expose=(),
        constant_inputs=("running_mean", "running_var"), torch_kernel="native_batch_norm",
        ref=_running_reference, samples=_running_samples)
def _batch_norm_running(
    input: Array, weight: Array | None, bias: Array | None, running_mean: Array,
    running_var: Array, eps: float,
) -> Array:
    """Each channel normalized by the statistics given."""
    inside = compute_dtype(input.dtype)
    x, w, b, mean, var = as_dtype(inside, input, weight, bias, running_mean, running_var)
    scale = compute_channel_scale(1 / np.sqrt(var + inside.type(eps)), w)
    shift = -mean * scale if b is None else b - mean * scale
    if not input.size:
        return np.empty(input.shape, input.dtype)
    y = affine(flatten_positions(x), scale, shift).reshape(input.shape)
    return y.astype(input.dtype, copy=False)


@_batch_norm_running.vjp("input")
def _(g: Tensor, weight: Tensor | None, running_var: Tensor, eps: float,
      input_format: MemoryFormat) -> Tensor:
    scale = (running_var + eps).rsqrt()
    scale = scale if weight is None else scale * weight
    return in_format(g * reshape_along_channels(scale, g).to(g.dtype), input_format)


@_batch_norm_running.vjp("weight")
def _(g: Tensor, input: Tensor, running_mean: Tensor, running_var: Tensor, eps: float) -> Tensor:
    dims = [0, *range(2, input.dim())]
    centred = input - reshape_along_channels(running_mean, input)
    return (g * centred).sum(dims) * (running_var + eps).rsqrt()


@_batch_norm_running.vjp("bias")
def _(g: Tensor) -> Tensor:
    return g.sum([0, *range(2, g._array.ndim)])


@_batch_norm_running.jvp
def _(
    input_t: Tensor | None, weight_t: Tensor | None, bias_t: Tensor | None, input: Tensor,
    weight: Tensor | None, running_mean: Tensor, running_var: Tensor, eps: float
) -> Tensor | None:
    def push(t: Any) -> Any:
        return _batch_norm_running(t, weight, None, running_mean * 0, running_var, eps)

    def affine(scale: Any, shift: Any) -> Any:
        return _batch_norm_running(input, scale, shift, running_mean, running_var, eps)

    return compute_affine_tangent(push, affine, (input_t, weight_t, bias_t), input, None,
                                  reshape_along_channels)


@_batch_norm_running.value_and_jvp
def _(
    input_t: Array | None, input: Array, weight: Array | None, weight_t: Array | None,
    bias: Array | None, bias_t: Array | None, running_mean: Array, running_var: Array, eps: float
) -> tuple[Array, Array] | None:
    if input_t is None or weight_t is not None or bias_t is not None or not input.size \
            or input.dtype not in FLOATS or input_t.dtype is not input.dtype:
        return None
    w, b, mean, var = as_dtype(input.dtype, weight, bias, running_mean, running_var)
    scale = compute_channel_scale(1 / np.sqrt(var + input.dtype.type(eps)), w)
    shift = -mean * scale if b is None else b - mean * scale
    y, y_t = (affine(flatten_positions(x), scale, shift_of).reshape(input.shape)
              for x, shift_of in ((input, shift), (input_t, np.zeros_like(shift))))
    return y, y_t


def _check_batch(input: Tensor, by_name: dict[str, Tensor | None]) -> None:
    shape = input._array.shape
    if len(shape) < 2 and input._array.size:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-len(shape)}, "
            f"{len(shape) - 1}], but got 1): batch_norm expects input (n, c, ...), got "
            f"{list(shape)}"
        )
    for name, p in by_name.items():
        if p is not None and p._array.size != shape[-1 if len(shape) < 2 else 1]:
            raise RuntimeError(
                f"{name} should contain {shape[1]} elements not {p._array.size}"
            )


def normalize_batch(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None,
    bias: Tensor | None, training: bool, momentum: float, eps: float
) -> tuple[Any, ...]:
    """Compute batch_norm, and the mean and 1 / deviation used in training."""
    _check_batch(input, {"running_mean": running_mean, "running_var": running_var,
                         "weight": weight, "bias": bias})
    kind = choose_statistics_dtype("batch_norm", input)
    check_parameter_dtypes(input, weight, bias)
    if input._array.ndim < 2:
        return input.clone(), None, None  # empty, the only vectors that pass
    if not training:
        for name, p in (("running_mean", running_mean), ("running_var", running_var)):
            if p is None:
                raise RuntimeError(f"{name} must be defined in evaluation mode")
        return _batch_norm_running(input, weight, bias, running_mean, running_var, eps), None, None
    mean, rstd = allocate_statistics((input._array.shape[1],), kind)
    y = _batch_norm(input, weight, bias, running_mean, running_var, mean, rstd,
                    0.0 if momentum is None else momentum, eps)
    return y, mean, rstd


@composite(expose=("nn.functional",), explains=True)
def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
    weight: Tensor | None = None, bias: Tensor | None = None, training: bool = False,
    momentum: float = 0.1, eps: float = 1e-5
) -> Tensor:
    """Normalize each channel of (n, c, ...) by its mean and variance, then scale and shift it.

    Computes (x - mean) / sqrt(var + eps) * weight + bias. In training the statistics are those of
    the batch, and the running ones move toward them by `momentum` (the variance unbiased);
    otherwise the running ones are used. Raises ValueError in training for one value per channel.

    >>> x, mean, var = torch.tensor([[1.], [3.]]), torch.zeros(1), torch.ones(1)
    >>> torch.nn.functional.batch_norm(x, mean, var, training=True).flatten()
    tensor([-1.0000,  1.0000])
    >>> mean, var
    (tensor([0.2000]), tensor([1.1000]))
    """
    if training:
        shape = input._array.shape
        if len(shape) > 1 and shape[0] * math.prod(shape[2:]) == 1:
            raise add_notes(
                ValueError("Expected more than 1 value per channel when training, got input size "
                           f"{input.size()}"),
                "A batch of one sample has no variance: DataLoader(..., drop_last=True) leaves the "
                "last, short batch out; model.eval() uses the running statistics.",
            )
        if eps <= 0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    elif eps < 0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    y: Tensor = normalize_batch(
        input, running_mean, running_var, weight, bias, training, momentum, eps)[0]
    return y


@batch_norm.batch
def _(
    batch: Batch, input: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
    weight: Tensor | None = None, bias: Tensor | None = None, training: bool = False,
    momentum: float = 0.1, eps: float = 1e-5
) -> Tensor:
    if input.dim() < 2:
        return NotImplemented
    axes, ends = [0, *range(2, input.dim())], [1] * (input.dim() - 2)
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError("running_mean and running_var must be defined in evaluation mode")
        mean, var = running_mean.reshape(-1, *ends), running_var.reshape(-1, *ends)
        return scale_channels((input - mean) * (var + eps).rsqrt(), weight, bias)
    for running in (running_mean, running_var):
        if running is not None and batch.holds(input) and not batch.holds(running):
            raise RuntimeError(_SHARED_STATISTICS)
    var, mean = var_mean(input, axes, correction=0)
    count = math.prod(input.shape[a] for a in axes)
    unbiased = var.detach() * (count / max(count - 1, 1))
    for running, new in ((running_mean, mean.detach()), (running_var, unbiased)):
        if running is not None:
            running.mul_(1 - momentum).add_(new, alpha=momentum)
    y = (input - mean.reshape(-1, *ends)) * (var.reshape(-1, *ends) + eps).rsqrt()
    return scale_channels(y, weight, bias)


_SHARED_STATISTICS = (
    "Batch norm got a batched tensor as input while the running_mean or running_var, which will be "
    "updated in place, were not batched.\nIf you are using a module and do not need eval mode, "
    "please set `track_running_stats` to be False.If you are using a prebuilt module and do not "
    "need eval mode, please see the functorch website for resources on how to patch your module to "
    "not be stateful"
)


def _torch_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float, cudnn_enabled: bool
) -> Tensor:
    """Compute batch_norm, with the parameters first.

    >>> x = torch.tensor([[1.], [3.]])
    >>> torch.batch_norm(x, None, None, None, None, True, 0.1, 0.0, False).flatten()
    tensor([-1.,  1.])
    """
    y: Tensor = normalize_batch(
        input, running_mean, running_var, weight, bias, training, momentum, eps)[0]
    return y


publish(wrap_with_explanation("batch_norm", _torch_batch_norm), ("batch_norm",), ("torch",))


@composite(expose=("torch",), explains=True)
def native_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float
) -> Any:
    """Compute batch_norm, and the mean and 1 / deviation used in training (empty otherwise).

    >>> x = torch.tensor([[1.], [3.]])
    >>> torch.native_batch_norm(x, None, None, None, None, True, 0.1, 0.0)[1]
    tensor([2.])
    """
    y, mean, rstd = normalize_batch(
        input, running_mean, running_var, weight, bias, training, momentum, eps)
    if mean is None:
        return y, input.new_empty(0), input.new_empty(0)
    return y, mean, rstd


def _legit(input: Tensor, weight: Tensor | None, bias: Tensor | None, *rest: Any) -> Tensor:
    """native_batch_norm, with or without the two running statistics."""
    running, settings = ((None, None), rest) if len(rest) == 3 else (rest[:2], rest[2:])
    return native_batch_norm(input, weight, bias, *running, *settings)


publish(_legit, ("_native_batch_norm_legit",), ("torch",))


@composite(expose=("aten",))
def _batch_norm_with_update(
    input: Tensor, weight: Tensor, bias: Tensor | None, running_mean: Tensor, running_var: Tensor,
    momentum: float, eps: Number | Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute native_batch_norm in training, and update the running statistics.

    Also returns memory reserved for backward.

    >>> x, mean, var = torch.ones(2, 3), torch.zeros(3), torch.ones(3)
    >>> torch.ops.aten._batch_norm_with_update(x, None, None, mean, var, 0.5, 1e-5)[0].sum()
    tensor(0.)
    >>> mean
    tensor([0.5000, 0.5000, 0.5000])
    """
    result = native_batch_norm(input, weight, bias, running_mean, running_var, True, momentum, eps)
    return (*result, input.new_empty((0,), dtype=uint8))
