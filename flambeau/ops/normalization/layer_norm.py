"""Layer, root mean square and local response normalization."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...autograd.backward import compute_adjoint_by_operators
from ...autograd.mode import MODE
from ...autograd.tangents import LEVELS, find_level
from ...tensor.dtypes import FLOAT32, HALF, finfo
from ...tensor.layout import is_channels_last
from ...tensor.tensor import Tensor
from ...tensor.windows.batch import Batch
from ...tensor.windows.batched_window import is_example
from ..core.arguments.checks import freeze_integers
from ..core.operator import Array, publish
from ..core.output_layout import Layout
from ..core.registry import composite, opaque, repeats_operators
from ..core.sample_inputs import Rng, Sample
from ..view.join import cat
from .duals import normalize_rows_with_tangent
from .norm_arrays import rows_backward, rows_forward, rows_tangent
from .norm_formulas import (
    allocate_statistics, as_dtype, check_parameter_dtypes, choose_statistics_dtype,
    compute_affine_tangent, compute_input_cotangent, normalize, select_needed,
)


def _layer_samples(rng: Rng) -> Iterator[Sample]:
    for shape, n in (((3, 4), 1), ((2, 3, 4), 2)):
        tail = shape[len(shape) - n :]
        rows = math.prod(shape[: len(shape) - n])
        yield (rng.normal(size=shape), rng.normal(size=tail), rng.normal(size=tail),
               np.zeros(rows), np.zeros(rows), n, 1e-5), {}


def _layer_reference(
    x: np.ndarray, w: np.ndarray, b: np.ndarray, mean: np.ndarray, rstd: np.ndarray, n: int,
    eps: float
) -> np.ndarray:
    axes = tuple(range(x.ndim - n, x.ndim))
    y = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)
    return y * w + b


@opaque(extents_follow=True,
        name="_layer_norm", node="NativeLayerNormBackward0", expose=(), ref=_layer_reference,
        samples=_layer_samples, writes=("save_mean", "save_rstd"))
def _layer_norm(
    input: Array, weight: Array | None, bias: Array | None, save_mean: Array, save_rstd: Array,
    n: int, eps: float,
) -> Array:
    """Normalize over the last n axes; also fill each row's statistics."""
    if not input.size:
        return np.empty(input.shape, input.dtype)
    inside = save_mean.dtype
    if n == 1 and input.ndim == 2 and input.dtype is inside:
        return rows_forward(input, weight, bias, save_mean, save_rstd, eps)
    w, b = as_dtype(inside, weight, bias)
    rows = input.reshape(len(save_mean), -1)
    w, b = (None if v is None else v.reshape(-1) for v in (w, b))
    y = rows_forward(rows, w, b, save_mean, save_rstd, eps)
    return y.reshape(input.shape).astype(input.dtype, copy=False)


@_layer_norm.vjp
def _(
    g: Tensor, input: Tensor, weight: Tensor | None, save_mean: Tensor, save_rstd: Tensor, n: int,
    eps: float, needs: tuple[bool, ...]
) -> tuple[Tensor | None, ...]:
    if not MODE.grad:
        result = _layer_norm_backward(g, input, weight, save_mean, save_rstd, n)
        return select_needed(result, needs)
    dims = list(range(-n, 0))
    hat, _, rstd = normalize(input, dims, eps)
    share = g if weight is None else g * weight
    lead = list(range(input.dim() - n))
    of_weight, of_bias = (g * hat, g) if not lead else ((g * hat).sum(lead), g.sum(lead))
    return select_needed((compute_input_cotangent(share, hat, rstd, dims), of_weight, of_bias),
                         needs)


@_layer_norm.jvp
def _(
    input_t: Tensor | None, weight_t: Tensor | None, bias_t: Tensor | None, input: Tensor,
    weight: Tensor | None, save_mean: Tensor, save_rstd: Tensor, n: int, eps: float
) -> Tensor | None:
    operands = [x for x in (input_t, weight_t, bias_t, input, weight) if x is not None]
    if MODE.grad and any(find_level(x) is not None or is_example(x._array) for x in operands):
        return _push_in_operators(input_t, input, weight, save_mean, save_rstd, weight_t, bias_t, n,
                                  eps)
    return _layer_norm_tangent(input_t, input, weight, save_mean, save_rstd, weight_t, bias_t, n,
                               eps)


def _push_in_operators(
    input_t: Tensor | None, input: Tensor, weight: Tensor | None, mean: Tensor, rstd: Tensor,
    weight_t: Tensor | None, bias_t: Tensor | None, n: int, eps: float
) -> Tensor | None:
    """Return the tangent in recorded operators."""
    def push(t: Any) -> Any:
        dims = list(range(-n, 0))
        hat, _, rstd = normalize(input, dims, eps)
        return compute_input_cotangent(t, hat, rstd, dims)

    def affine(scale: Any, shift: Any) -> Any:
        return _layer_norm(input, scale, shift, mean.clone(), rstd.clone(), n, eps)

    return compute_affine_tangent(push, affine, (input_t, weight_t, bias_t), input, weight)


@_layer_norm.value_and_jvp
def _(
    input: Array, input_t: Array | None, weight: Array | None, weight_t: Array | None,
    bias: Array | None, bias_t: Array | None, save_mean: Array, save_rstd: Array, eps: float
) -> tuple[Array, Array] | None:
    if input_t is None or not input.size \
            or not (input.flags.c_contiguous and input_t.flags.c_contiguous):
        return None
    rows = (len(save_mean), -1)
    columns = {
        name: v if v is None else as_dtype(save_mean.dtype, v.reshape(-1))[0]
        for name, v in (("weight", weight), ("weight_t", weight_t), ("bias", bias),
                        ("bias_t", bias_t))}
    pair = normalize_rows_with_tangent(
        input.reshape(rows), input_t.reshape(rows), columns, save_mean, save_rstd, eps)
    return None if pair is None else (pair[0].reshape(input.shape), pair[1].reshape(input.shape))


@opaque(layout=Layout.FREE,
        name="_layer_norm_tangent", node="LayerNormTangentBackward0", expose=(), ref=None,
        samples=None)
def _layer_norm_tangent(
    input_t: Array | None, input: Array, weight: Array | None, mean: Array, rstd: Array,
    weight_t: Array | None, bias_t: Array | None, n: int, eps: float
) -> Array:
    """The tangent of layer_norm, from the tangents of its input, weight and bias."""
    if not input.size:
        return np.empty(input.shape, input.dtype)
    x = input.reshape(len(mean), -1).astype(mean.dtype, copy=False)
    t = None if input_t is None else input_t.reshape(x.shape).astype(mean.dtype, copy=False)
    w, w_t, b_t = (None if v is None else v.reshape(-1)
                   for v in as_dtype(mean.dtype, weight, weight_t, bias_t))
    return _adapt(rows_tangent(t, x, w, mean, rstd, w_t, b_t), input.shape, input.dtype)


@_layer_norm_tangent.vjp
def _(
    g: Tensor, input_t: Tensor | None, input: Tensor, weight: Tensor | None, mean: Tensor,
    rstd: Tensor, weight_t: Tensor | None, bias_t: Tensor | None, n: int, eps: float,
    needs: tuple[bool, ...]
) -> tuple[Tensor | None, ...]:
    inputs = (input_t, input, weight, mean, rstd, weight_t, bias_t)
    push: Any = partial(_push_in_operators, n=n, eps=eps)
    return compute_adjoint_by_operators(
        lambda *operands: (push(*operands),), inputs, (g,), needs)


@opaque(layout=Layout.FREE,
        name="_layer_norm_backward", expose=(), differentiable=False, ref=None, samples=None)
def _layer_norm_backward(
    g: Array, input: Array, weight: Array | None, mean: Array, rstd: Array, n: int
) -> tuple[Array, Array, Array]:
    """The cotangents of layer_norm's input, weight and bias."""
    tail = input.shape[input.ndim - n :]
    kind = input.dtype if weight is None else weight.dtype
    if not input.size:
        return np.zeros(input.shape, input.dtype), np.zeros(tail, kind), np.zeros(tail, kind)
    (w,) = as_dtype(mean.dtype, weight)
    result = rows_backward(g.reshape(len(mean), -1), input.reshape(len(mean), -1),
                           None if w is None else w.reshape(-1), mean, rstd)
    return (_adapt(result[0], input.shape, input.dtype), _adapt(result[1], tail, kind),
            _adapt(result[2], tail, kind))


def _adapt(y: Array, shape: tuple[int, ...], kind: np.dtype) -> Array:
    """Return y in a shape and dtype: y itself if it has them, so that a leaf can adopt it."""
    y = y if y.shape == shape else y.reshape(shape)
    return y.astype(kind, copy=False)


def _check_shapes(
    input: Tensor, normalized: tuple[int, ...], weight: Tensor | None, bias: Tensor | None,
    form: str,
) -> None:
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
        expected = ", ".join(map(str, normalized))
        raise RuntimeError(
            f"Given normalized_shape={list(normalized)}, expected input with shape "
            f"{form.format(expected)}, but got input of size{list(shape)}"
        )


def _convert_to_tuple(normalized_shape: Any, name: str) -> tuple[int, ...]:
    if normalized_shape.__class__ is tuple and len(normalized_shape) == 1 \
            and normalized_shape[0].__class__ is int:
        return normalized_shape
    if isinstance(normalized_shape, int):
        raise TypeError(
            f"{name}(): argument 'normalized_shape' (position 2) must be tuple of ints, not int"
        )
    lengths: tuple[int, ...] = freeze_integers(name, "normalized_shape", normalized_shape)
    return lengths


def _is_plain(p: Tensor | None, shape: tuple[int, ...]) -> bool:
    """Whether a parameter of float32 inputs needs no check or cast."""
    return p is None or (p._array.dtype is FLOAT32 and p._array.shape == shape)


def _normalize_layer(input: Tensor, normalized: tuple, weight: Any, bias: Any, eps: float) -> tuple:
    n, x = len(normalized), input._array
    shape, kind = x.shape, x.dtype
    if not (kind is FLOAT32 and n and shape[-n:] == normalized
            and _is_plain(weight, normalized) and _is_plain(bias, normalized)):
        _check_shapes(input, normalized, weight, bias, "[*, {}]")
        kind = choose_statistics_dtype("LayerNormKernelImpl", input)
        check_parameter_dtypes(input, weight, bias)
    mean, rstd = allocate_statistics((math.prod(shape[: len(shape) - n]),), kind)
    return _layer_norm(input, weight, bias, mean, rstd, n, eps), mean, rstd


@repeats_operators()
@composite(expose=("nn.functional",))
def layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5
) -> Tensor:
    """Normalize over the last axes, (x - mean) / sqrt(var + eps) * weight + bias.

    normalized_shape, the shape of weight and bias, gives the lengths of those axes.

    >>> torch.nn.functional.layer_norm(torch.tensor([1., 3.]), (2,))
    tensor([-1.0000,  1.0000])
    """
    return _normalize_layer(
        input, _convert_to_tuple(normalized_shape, "layer_norm"), weight, bias, eps
    )[0]


@layer_norm.batch
def _(
    batch: Batch, input: Tensor, normalized_shape: Any, weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    normalized = _convert_to_tuple(normalized_shape, "layer_norm")
    _check_shapes(input, normalized, weight, bias, "[*, {}]")
    y = normalize(input, list(range(-len(normalized), 0)), eps)[0].to(input.dtype)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _torch_layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5, cudnn_enable: bool = True
) -> Tensor:
    """Normalize over the last axes, (x - mean) / sqrt(var + eps) * weight + bias.

    >>> torch.layer_norm(torch.tensor([[1., 3.], [10., 30.]]), (2,))
    tensor([[-1.0000,  1.0000],
            [-1.0000,  1.0000]])
    """
    return layer_norm(input, normalized_shape, weight, bias, eps)


publish(_torch_layer_norm, ("layer_norm",), ("torch",))


@composite(expose=("torch",))
def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None,
    eps: float
) -> Any:
    """Compute layer_norm, and the mean and 1 / deviation of each row.

    >>> y, mean, scale = torch.native_layer_norm(torch.tensor([[1., 3.]]), (2,), None, None, 0.0)
    >>> mean, scale
    (tensor([[2.]]), tensor([[1.]]))
    """
    normalized = tuple(normalized_shape)
    y, mean, rstd = _normalize_layer(input, normalized, weight, bias, eps)
    n = len(normalized)
    if LEVELS.active or MODE.grad and input.requires_grad:
        _, mean, rstd = normalize(input, list(range(-n, 0)), eps)
        return y, mean, rstd
    shape = (*input.shape[: input.dim() - n], *(1,) * n)
    return y, mean.reshape(shape), rstd.reshape(shape)


@composite(expose=("torch", "nn.functional"))
def rms_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Divide by the root mean square over the last axes, x / sqrt(mean(x ** 2) + eps) * weight.

    `eps` defaults to the dtype's epsilon. Zhang and Sennrich, 2019.

    Args:
        eps: What is added to the mean of squares. None: the epsilon of the dtype.

    >>> torch.rms_norm(torch.tensor([3., 4.]), (2,))
    tensor([0.8485, 1.1314])
    """
    normalized = _convert_to_tuple(normalized_shape, "rms_norm")
    _check_shapes(input, normalized, weight, None, "[*{}]")
    eps = finfo(input.dtype).eps if eps is None else eps
    x = input.float() if input.dtype in HALF else input
    if not x.is_contiguous() and not is_channels_last(tuple(x.shape), x.stride()):
        x = x.contiguous()
    dims = list(range(-len(normalized), 0))
    y = x * (x.pow(2).mean(dims, True) + eps).rsqrt()
    if weight is not None:
        y = y * weight
    return y.to(input.dtype) if y.dtype is not input.dtype else y


@composite(expose=("nn.functional",), explains=True)
def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Compute x / (k + alpha * mean of squares over `size` neighboring channels) ** beta.

    input (n, c, ...). Krizhevsky et al., 2012.

    >>> torch.nn.functional.local_response_norm(torch.ones(1, 3, 1), 3, alpha=3., beta=1.).flatten()
    tensor([0.3333, 0.2500, 0.3333])
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
    padded = cat([ends[0], squares, ends[1]], 1)
    total = padded.narrow(1, 0, shape[1])
    for i in range(1, size):
        total = total + padded.narrow(1, i, shape[1])
    mean = total / size if input.is_floating_point() else total // size
    return input / (mean * alpha + k).pow(beta)
