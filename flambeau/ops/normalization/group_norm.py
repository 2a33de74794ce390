"""Group and instance normalization: each image by itself."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...autograd.mode import MODE
from ...autograd.tangents import LEVELS
from ...native.target.eager_costs import MAX_COUNTED_ROW_ELEMENTS, MAX_SMALL_ELEMENTS
from ...tensor.tensor import Tensor
from ...tensor.windows.batch import Batch
from ..core.operator import Array, publish
from ..core.output_layout import Layout, lay_out
from ..core.registry import composite, opaque
from ..core.sample_inputs import Rng, Sample
from ..native import group_norm as group_native
from .batch_norm import normalize_batch
from .duals import normalize_groups_with_tangent
from .norm_arrays import affine, channel_moments, channel_sums, combine, rows_forward
from .norm_formulas import (
    allocate_statistics, as_dtype, check_parameter_dtypes, choose_statistics_dtype,
    compute_affine_tangent, compute_channel_scale, compute_input_cotangent, flatten_positions,
    normalize, reshape_along_channels, scale_channels, select_needed,
)


def _group_samples(rng: Rng) -> Iterator[Sample]:
    yield (rng.normal(size=(2, 4, 3)), rng.normal(size=4), rng.normal(size=4), np.zeros((2, 2)),
           np.zeros((2, 2)), 2, 1e-5), {}


def _group_reference(
    x: np.ndarray, w: np.ndarray, b: np.ndarray, mean: np.ndarray, rstd: np.ndarray, groups: int,
    eps: float
) -> np.ndarray:
    rows = x.reshape(x.shape[0], groups, -1)
    y = (rows - rows.mean(2, keepdims=True)) / np.sqrt(rows.var(2, keepdims=True) + eps)
    return y.reshape(x.shape) * w[:, None] + b[:, None]


@opaque(layout=Layout.CHANNELS_LAST,
        name="_group_norm", node="NativeGroupNormBackward0", expose=(), ref=_group_reference,
        samples=_group_samples, writes=("save_mean", "save_rstd"))
def _group_norm(
    input: Array, weight: Array | None, bias: Array | None, save_mean: Array, save_rstd: Array,
    groups: int, eps: float,
) -> Array:
    """Groups of channels normalized; leaves the statistics of each, (n, groups)."""
    if not input.size:
        return np.empty(input.shape, input.dtype)
    inside = save_mean.dtype
    x, w, b = as_dtype(inside, input, weight, bias)
    x = flatten_positions(x)
    if x.size <= MAX_SMALL_ELEMENTS:
        few = _normalize_few_groups(x, w, b, save_mean.reshape(-1), save_rstd.reshape(-1), eps)
        return few.reshape(input.shape).astype(input.dtype, copy=False)
    if x.size > MAX_COUNTED_ROW_ELEMENTS and (
        y := group_native.group_norm(x, w, b, save_mean, save_rstd, eps)
    ) is not None:
        return y.reshape(input.shape).astype(input.dtype, copy=False)
    mean, squares = channel_moments(x.reshape(1, x.shape[0] * groups, -1))
    size = inside.type(x.shape[1] // groups * x.shape[2])
    save_mean[...] = mean.reshape(save_mean.shape)
    save_rstd[...] = (1 / np.sqrt(squares / size + inside.type(eps))).reshape(save_rstd.shape)
    scale, mean = (np.repeat(v, x.shape[1] // groups, 1) for v in (save_rstd, save_mean))
    scale = compute_channel_scale(scale, w)
    shift = -mean * scale if b is None else b - mean * scale
    return affine(x, scale, shift).reshape(input.shape).astype(input.dtype, copy=False)


def _normalize_few_groups(
    x: Array, weight: Array | None, bias: Array | None, mean: Array, rstd: Array, eps: float
) -> Array:
    """Each group a row, which small kernels know; fills mean and rstd."""
    y = rows_forward(x.reshape(mean.size, -1), None, None, mean, rstd, eps).reshape(x.shape)
    if weight is not None:
        np.multiply(y, weight[:, None], y)
    return y if bias is None else np.add(y, bias[:, None], y)


@_group_norm.vjp
def _(
    g: Tensor, input: Tensor, weight: Tensor | None, save_mean: Tensor, save_rstd: Tensor,
    groups: int, eps: float, needs: tuple[bool, ...]
) -> tuple[Tensor | None, ...]:
    if not MODE.grad:
        gradients = _group_norm_backward(g, input, weight, save_mean, save_rstd, groups)
        return select_needed(gradients, needs)
    size = math.prod(input.shape[1:]) // groups
    rows = input.reshape(input.shape[0], groups, size)
    hat, _, rstd = normalize(rows, [2], eps)
    share = g if weight is None else g * reshape_along_channels(weight, input)
    result = compute_input_cotangent(share.reshape(rows.shape), hat, rstd, [2]).reshape(input.shape)
    dims = [0, *range(2, input.dim())]
    return select_needed((result, (g * hat.reshape(input.shape)).sum(dims), g.sum(dims)), needs)


@_group_norm.jvp
def _(
    input_t: Tensor | None, weight_t: Tensor | None, bias_t: Tensor | None, input: Tensor,
    weight: Tensor | None, save_mean: Tensor, save_rstd: Tensor, groups: int, eps: float
) -> Tensor | None:
    def push(t: Any) -> Any:
        if not MODE.grad:  # the Jacobian of a group is symmetric
            return _group_norm_backward(t, input, None, save_mean, save_rstd, groups)[0]
        rows = input.reshape(input.shape[0], groups, math.prod(input.shape[1:]) // groups)
        hat, _, rstd = normalize(rows, [2], eps)
        return compute_input_cotangent(t.reshape(rows.shape), hat, rstd, [2]).reshape(input.shape)

    def affine(scale: Any, shift: Any) -> Any:
        statistics = save_mean.clone(), save_rstd.clone()
        return _group_norm(input, scale, shift, *statistics, groups, eps)

    return compute_affine_tangent(push, affine, (input_t, weight_t, bias_t), input, weight,
                                  reshape_along_channels)


@_group_norm.value_and_jvp
def _(
    input: Array, input_t: Array | None, weight: Array | None, weight_t: Array | None,
    bias: Array | None, bias_t: Array | None, save_mean: Array, save_rstd: Array, groups: int,
    eps: float
) -> tuple[Array, Array] | None:
    if input_t is None or not input.size \
            or not (input.flags.c_contiguous and input_t.flags.c_contiguous):
        return None
    parameters = as_dtype(save_mean.dtype, weight, weight_t, bias, bias_t)
    result = normalize_groups_with_tangent(
        flatten_positions(input), flatten_positions(input_t), tuple(parameters), groups, eps)
    if result is None:
        return None
    y, y_t, save_mean[...], save_rstd[...] = result
    return y.reshape(input.shape), y_t.reshape(input.shape)


@opaque(layout=Layout.FREE,
        name="_group_norm_backward", expose=(), differentiable=False, ref=None, samples=None)
def _group_norm_backward(
    g: Array, input: Array, weight: Array | None, mean: Array, rstd: Array, groups: int
) -> tuple[Array, Array, Array]:
    """The cotangents of group_norm's input, weight and bias."""
    kind, channels = input.dtype if weight is None else weight.dtype, input.shape[1]
    if not input.size:
        zeros = np.zeros(channels, kind)
        return np.zeros(input.shape, input.dtype), zeros, zeros.copy()
    share, x, w = as_dtype(mean.dtype, g, input, weight)
    share, x = flatten_positions(share), flatten_positions(x)
    group_size = channels // groups
    if x.size > MAX_COUNTED_ROW_ELEMENTS and (
        known := group_native.group_norm_backward(share, x, w, mean, rstd)
    ) is not None:
        result, of_g, of_product = known
        result = result.reshape(input.shape).astype(input.dtype, copy=False)
        return (lay_out(Layout.CHANNELS_LAST, result, [input]),
                np.add.reduce(of_product * np.repeat(rstd, group_size, 1), 0).astype(kind,
                                                                                     copy=False),
                np.add.reduce(of_g, 0).astype(kind, copy=False))
    means, rstds = np.repeat(mean, group_size, 1), np.repeat(rstd, group_size, 1)  # (n, c)
    of_g, of_product = channel_sums(share, x, means)
    a = compute_channel_scale(rstds, w)
    weighted = [v if w is None else v * w for v in (of_g, of_product)]
    size = mean.dtype.type(group_size * x.shape[2])
    of_group = [np.add.reduce(v.reshape(*mean.shape, group_size), 2) / size for v in weighted]
    b = np.repeat(-of_group[1] * rstd**3, group_size, 1)
    c = np.repeat(-of_group[0] * rstd, group_size, 1) - b * means
    result = combine(share, x, a, b, c).reshape(input.shape).astype(input.dtype, copy=False)
    result = lay_out(Layout.CHANNELS_LAST, result, [input])
    return (result, np.add.reduce(of_product * rstds, 0).astype(kind, copy=False),
            np.add.reduce(of_g, 0).astype(kind, copy=False))


def _group(input: Tensor, groups: int, weight: Any, bias: Any, eps: float) -> tuple:
    kind = choose_statistics_dtype("GroupNormKernelImpl", input)
    check_parameter_dtypes(input, weight, bias)
    mean, rstd = allocate_statistics((input._array.shape[0], groups), kind)
    return _group_norm(input, weight, bias, mean, rstd, groups, eps), mean, rstd


@composite(expose=("nn.functional",), explains=True)
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5
) -> Tensor:
    """Normalize each group of channels of each image, (x - mean) / sqrt(var + eps).

    input (n, c, ...), weight and bias (c,); num_groups divides c.

    >>> torch.nn.functional.group_norm(torch.tensor([[1., 3., 10., 30.]]), 2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
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


@group_norm.batch
def _(
    batch: Batch, input: Tensor, num_groups: int, weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    shape = input.shape
    if len(shape) < 2:
        return NotImplemented
    rows = input.reshape(shape[0], num_groups, -1)
    return scale_channels(normalize(rows, [2], eps)[0].reshape(shape), weight, bias)


def _torch_group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5, cudnn_enabled: bool = True
) -> Tensor:
    """Normalize each group of channels of each image, (x - mean) / sqrt(var + eps).

    input (n, c, ...), `num_groups` divides c. Wu and He, 2018.

    >>> torch.group_norm(torch.tensor([[1., 3., 10., 30.]]), 2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    return group_norm(input, num_groups, weight, bias, eps)


publish(_torch_group_norm, ("group_norm",), ("torch",))


@composite(expose=("torch",), explains=True)
def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int,
    eps: float
) -> Any:
    """Compute group_norm, and the mean and 1 / deviation of each group, (N, group).

    >>> y, mean, scale = torch.native_group_norm(torch.ones(2, 4, 3), None, None, 2, 4, 3, 2, 1e-5)
    >>> mean.shape
    torch.Size([2, 2])
    """
    y, mean, rstd = _group(input, group, weight, bias, eps)
    if LEVELS.active or MODE.grad and input.requires_grad:
        _, mean, rstd = (v.squeeze(2) if i else v for i, v in enumerate(
            normalize(input.reshape(N, group, C // group * HxW), [2], eps)))
    return y, mean, rstd


@composite(expose=("nn.functional",), explains=True)
def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
    weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True,
    momentum: float = 0.1, eps: float = 1e-5
) -> Tensor:
    """Normalize each channel of each image of (n, c, ...), (x - mean) / sqrt(var + eps).

    Running statistics, if given, move by `momentum` toward the average over the images.

    >>> torch.nn.functional.instance_norm(torch.tensor([[[1., 3.], [10., 30.]]]))
    tensor([[[-1.0000,  1.0000],
             [-1.0000,  1.0000]]])
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
    means, variances, weights, biases = [
        None if p is None else p.repeat(n) for p in (running_mean, running_var, weight, bias)
    ]
    images = input.contiguous().reshape(1, n * c, *shape[2:])
    y: Tensor = normalize_batch(
        images, means, variances, weights, biases, use_input_stats, momentum, eps)[0]
    for p, moved in ((running_mean, means), (running_var, variances)):
        if p is not None and moved is not None and use_input_stats:
            p.detach().copy_(moved.reshape(n, c).mean(0))
    return y.reshape(shape)


def _torch_instance_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, use_input_stats: bool, momentum: float, eps: float,
    cudnn_enabled: bool
) -> Tensor:
    """Compute instance_norm, with the parameters first.

    >>> x = torch.tensor([[[1., 3.], [10., 30.]]])
    >>> torch.instance_norm(x, None, None, None, None, True, 0.1, 1e-5, False)
    tensor([[[-1.0000,  1.0000],
             [-1.0000,  1.0000]]])
    """
    return instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum,
                         eps)


publish(_torch_instance_norm, ("instance_norm",), ("torch",))
