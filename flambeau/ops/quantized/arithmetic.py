"""`torch.ops.quantized`'s sums, products, activations and norms of quantized tensors.

They go through float32, as PyTorch's do: numbers in, the function, and integers of a given scale
and zero point out.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ...tensor.quantized import QuantizedTensor, quantized
from ...tensor.quantizers import PerTensor
from ...tensor.tensor import Tensor, wrap
from ...tensor.windows.opaque_window import describe_missing_implementation
from ..core.operator import PUBLIC
from .backend import require_quantized, refuse_plain
from .conversion import dequantize

_functional = PUBLIC["nn.functional"]


def requantize(values: Tensor, like: Any, scale: Any, zero_point: Any) -> Tensor:
    """Quantize float32 numbers to integers of a tensor's dtype."""
    quantizer = PerTensor(like.dtype, float(scale), int(zero_point))
    return quantized(quantizer.quantize(values.detach()._array), quantizer)


def _store(result: Any, out: Any) -> Any:
    out.copy_(result)
    return out


def _rectify(values: Tensor, relu: bool) -> Tensor:
    return wrap(np.maximum(values._array, np.float32(0))) if relu else values


# ------------------------------------------------------------------ sums and products


def _add_number(qa: Any, b: float, relu: bool) -> Tensor:
    """qa + b: the zero point moves; where that leaves the range the scale grows."""
    quantizer: PerTensor = qa._array.quantizer
    low, high = quantizer.dtype.limits
    scale, moved = quantizer.scale, quantizer.zero_point - int(np.rint(b / quantizer.scale))
    if low <= moved <= high:
        result = PerTensor(quantizer.dtype, scale, moved)
        codes = qa._array.codes.copy("K")
        if relu:
            np.maximum(codes, codes.dtype.type(moved), out=codes)
        return quantized(codes, result)
    end = low if moved < low else high
    other_end = high if moved < low else low
    wider = abs(other_end - moved) / (high - low) * scale
    shifted = (qa._array.codes.astype(np.int64) - moved).astype(np.float32) * np.float32(scale)
    return requantize(_rectify(wrap(shifted), relu), qa, wider, end)


def _multiply_by_number(qa: Any, b: float, relu: bool) -> Tensor:
    """qa * b: the scale is multiplied; a negative factor turns the integers round."""
    quantizer: PerTensor = qa._array.quantizer
    low, high = quantizer.dtype.limits
    codes = qa._array.codes.copy("K")
    zero, scale = quantizer.zero_point, b * quantizer.scale
    if b < 0:
        codes = (low + high - codes.astype(np.int64)).astype(codes.dtype)
        zero, scale = low + high - zero, -scale
    elif b == 0:
        codes[...] = zero = 0
        scale = 1.0
    if relu:
        np.maximum(codes, codes.dtype.type(zero), out=codes)
    return quantized(codes, PerTensor(quantizer.dtype, scale, zero))


def _declare_binary(combine: Callable, with_number: Callable, name: str, relu: bool) -> Callable:
    def function(
        qa: Any, qb: Any, scale: Any = None, zero_point: Any = None, *, out: Any = None
    ) -> Tensor:
        """Of two quantized tensors under a scale and zero point, or of one and a number."""
        if isinstance(qa, (int, float)):
            qa, qb = qb, qa
        if isinstance(qb, Tensor) and qb.ndim and not isinstance(qb, QuantizedTensor):
            raise NotImplementedError(describe_missing_implementation("qscheme", "CPU"))
        if isinstance(qb, QuantizedTensor):
            if qa.dtype is not qb.dtype:
                raise RuntimeError("Both inputs to quantized operators must have the same dtype")
            if out is not None:
                scale, zero_point = out.q_scale(), out.q_zero_point()
            values = _rectify(combine(dequantize(qa), dequantize(qb)), relu)
            result = requantize(values, qa, scale, zero_point)
        else:
            result = with_number(qa, float(qb), relu)
        return result if out is None else _store(result, out)

    function.__name__ = function.__qualname__ = name
    return require_quantized(function)


_SUM, _PRODUCT = (operator.add, _add_number), (operator.mul, _multiply_by_number)
add, add_relu, add_scalar, add_scalar_relu = (
    _declare_binary(*_SUM, name, "relu" in name)
    for name in ("add", "add_relu", "add_scalar", "add_scalar_relu"))
mul, mul_relu, mul_scalar, mul_scalar_relu = (
    _declare_binary(*_PRODUCT, name, "relu" in name)
    for name in ("mul", "mul_relu", "mul_scalar", "mul_scalar_relu"))


@require_quantized
def matmul(qa: Any, qb: Any, scale: Any, zero_point: Any) -> Tensor:
    """Multiply two matrices, or stacks of them."""
    if qa.ndim != qb.ndim:
        raise RuntimeError("MatMul operands should have the same dimensionality. "
                           f"({qa.ndim} and {qb.ndim} provided)")
    if not all(isinstance(q._array.quantizer, PerTensor) for q in (qa, qb)):
        raise RuntimeError("Only per-tensor quantization is supported in Matmul.")
    return requantize(dequantize(qa) @ dequantize(qb), qa, scale, zero_point)


def _concatenate(tensors: Any, dim: int, scale: Any, zero_point: Any, relu: bool) -> Tensor:
    first = tensors[0]
    if not all(isinstance(x._array.quantizer, PerTensor) for x in tensors):
        raise RuntimeError("Only per-tensor quantization is supported in 'cat'!")
    scale = first.q_scale() if scale is None else scale
    zero_point = first.q_zero_point() if zero_point is None else zero_point
    values = PUBLIC["torch"]["cat"]([dequantize(x) for x in tensors], dim)
    return requantize(_rectify(values, relu), first, scale, zero_point)


@require_quantized
def cat(tensors: Any, dim: int, scale: Any = None, zero_point: Any = None) -> Tensor:
    """Concatenate tensors."""
    return _concatenate(tensors, dim, scale, zero_point, False)


@require_quantized
def cat_relu(tensors: Any, dim: int, scale: Any = None, zero_point: Any = None) -> Tensor:
    """Concatenate tensors, then apply ReLU."""
    return _concatenate(tensors, dim, scale, zero_point, True)


@require_quantized
def cat_out(tensors: Any, dim: int, out: Any) -> Tensor:
    """`cat` into a quantized tensor."""
    result = _concatenate(tensors, dim, out.q_scale(), out.q_zero_point(), False)
    return _store(result, out)


@require_quantized
def cat_relu_out(tensors: Any, dim: int, out: Any) -> Tensor:
    """`cat_relu` into a quantized tensor."""
    result = _concatenate(tensors, dim, out.q_scale(), out.q_zero_point(), True)
    return _store(result, out)


# ------------------------------------------------------------------ activations


@require_quantized
def relu6(qx: Any, inplace: bool = False) -> Tensor:
    """Clip to [0, 6], keeping the input's scale."""
    result = requantize(_functional["relu6"](dequantize(qx)), qx, qx.q_scale(), qx.q_zero_point())
    return _store(result, qx) if inplace else result


@require_quantized
def clamp(qx: Any, min: Any = None, max: Any = None) -> Tensor:
    """Clip between two numbers, keeping the input's scale."""
    values = dequantize(qx).clamp(min, max)
    return requantize(values, qx, qx.q_scale(), qx.q_zero_point())


@require_quantized
def threshold(qx: Any, threshold: float, value: float) -> Tensor:
    """Replace elements not above the threshold by `value`."""
    values = _functional["threshold"](dequantize(qx), threshold, value)
    return requantize(values, qx, qx.q_scale(), qx.q_zero_point())


@require_quantized
def sigmoid(qx: Any, output_scale: Any, output_zero_point: Any) -> Tensor:
    """1 / (1 + exp(-x))."""
    return requantize(dequantize(qx).sigmoid(), qx, output_scale, output_zero_point)


@require_quantized
def hardswish(input: Any, output_scale: Any, output_zero_point: Any) -> Tensor:
    """x relu6(x + 3) / 6."""
    values = _functional["hardswish"](dequantize(input))
    return requantize(values, input, output_scale, output_zero_point)


@require_quantized
def elu(
    self: Any, output_scale: Any, output_zero_point: Any, alpha: float = 1, scale: float = 1,
    input_scale: float = 1,
) -> Tensor:
    """x if positive, else alpha (exp(x) - 1)."""
    x = dequantize(self)._array
    low = np.float32(alpha) * np.expm1(np.minimum(x, 0) * np.float32(input_scale))
    values = np.float32(scale) * np.where(x > 0, x, low)
    return requantize(wrap(values), self, output_scale, output_zero_point)


@require_quantized
def celu(self: Any, output_scale: Any, output_zero_point: Any, alpha: float = 1) -> Tensor:
    """x if positive, else alpha (exp(x / alpha) - 1)."""
    return elu(self, output_scale, output_zero_point, alpha, 1, 1 / alpha)


@require_quantized
def leaky_relu(
    qx: Any, negative_slope: float, inplace: bool, output_scale: Any, output_zero_point: Any
) -> Tensor:
    """x if positive, else x times the slope."""
    values = _functional["leaky_relu"](dequantize(qx), negative_slope)
    return requantize(values, qx, output_scale, output_zero_point)


def prelu(qx: Any, weight: Any, output_scale: Any, output_zero_point: Any) -> Tensor:
    """x if positive, else x times a quantized weight per channel."""
    values = _functional["prelu"](dequantize(qx), dequantize(weight))
    return requantize(values, qx, output_scale, output_zero_point)


@require_quantized
def softmax(qx: Any, dim: int, output_scale: Any, output_zero_point: Any) -> Tensor:
    """Softmax along an axis."""
    return requantize(dequantize(qx).softmax(dim), qx, output_scale, output_zero_point)


def dropout(
    self: Any, output_scale: Any, output_zero_point: Any, p: float = 0.5, training: bool = False
) -> Tensor:
    """Return the tensor itself; quantized models do not train."""
    return self


# ------------------------------------------------------------------ norms


@require_quantized
def layer_norm(
    input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float, output_scale: Any,
    output_zero_point: Any,
) -> Tensor:
    """Normalize to mean 0 and variance 1 over the last axes."""
    values = _functional["layer_norm"](dequantize(input), normalized_shape, weight, bias, eps)
    return requantize(values, input, output_scale, output_zero_point)


@require_quantized
def group_norm(
    qx: Any, num_groups: int, weight: Any, bias: Any, eps: float, output_scale: Any,
    output_zero_point: Any,
) -> Tensor:
    """Normalize each group of channels to mean 0 and variance 1."""
    values = _functional["group_norm"](dequantize(qx), num_groups, weight, bias, eps)
    return requantize(values, qx, output_scale, output_zero_point)


@require_quantized
def instance_norm(
    input: Any, weight: Any, bias: Any, eps: float, output_scale: Any, output_zero_point: Any
) -> Tensor:
    """Normalize each channel of each image to mean 0 and variance 1."""
    values = _functional["instance_norm"](
        dequantize(input), weight=weight, bias=bias, use_input_stats=True, eps=eps)
    return requantize(values, input, output_scale, output_zero_point)


def _declare_batch_norm(name: str, relu: bool) -> Callable:
    def function(
        qx: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float, output_scale: Any,
        output_zero_point: int,
    ) -> Tensor:
        """Each channel less its mean, divided by its deviation: both are given."""
        values = _functional["batch_norm"](
            dequantize(qx), mean, var, weight, bias, False, 0.0, eps)
        return requantize(_rectify(values, relu), qx, output_scale, output_zero_point)

    function.__name__ = function.__qualname__ = name
    return require_quantized(function)


batch_norm, batch_norm1d, batch_norm2d, batch_norm3d = (
    _declare_batch_norm(f"batch_norm{rank}", False) for rank in ("", "1d", "2d", "3d"))
batch_norm_relu, batch_norm1d_relu, batch_norm2d_relu, batch_norm3d_relu = (
    _declare_batch_norm(f"batch_norm{rank}_relu", True) for rank in ("", "1d", "2d", "3d"))


# ------------------------------------------------------------------ pooling


def _declare_max_pool(name: str) -> Callable:
    original = _functional[name]

    def function(
        qx: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
        ceil_mode: bool = False,
    ) -> Tensor:
        """The greatest element of each window, with the input's scale. Accepts plain bytes, too."""
        if not isinstance(qx, QuantizedTensor):
            values = original(qx.float(), kernel_size, stride, padding, dilation, ceil_mode)
            return values.to(qx.dtype)
        codes = wrap(qx._array.codes.astype(np.float64))  # holds all integers
        pooled = original(codes, kernel_size, stride or kernel_size, padding, dilation, ceil_mode)
        return quantized(pooled._array.astype(qx._array.codes.dtype), qx._array.quantizer)

    function.__name__ = function.__qualname__ = name
    return function


max_pool1d, max_pool2d, max_pool3d = (
    _declare_max_pool(f"max_pool{rank}d") for rank in (1, 2, 3))


def _create_quantized_pool(name: str, pool: Callable) -> Callable:
    def function(
        input: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Tensor:
        refuse_plain(f"quantized_{name}", input, library="aten")
        return pool(input, kernel_size, stride, padding, dilation, ceil_mode)

    function.__name__ = function.__qualname__ = f"quantized_{name}"
    rank = int(name[-2])
    ones = ", ".join("1" for _ in range(rank))
    twos = ", ".join("2" for _ in range(rank))
    function.__doc__ = f"""The greatest element of each window of a quantized tensor.

    Raises NotImplementedError for other tensors.

    >>> q = torch.quantize_per_tensor(torch.ones(1, 1, {twos}), 1.0, 0, torch.quint8)
    >>> torch.quantized_{name}(q, [{twos}]).shape
    torch.Size([1, 1, {ones}])
    """
    return function


quantized_max_pool1d = _create_quantized_pool("max_pool1d", max_pool1d)
quantized_max_pool2d = _create_quantized_pool("max_pool2d", max_pool2d)
quantized_max_pool3d = _create_quantized_pool("max_pool3d", max_pool3d)


def quantized_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, var: Tensor,
    eps: float, output_scale: float, output_zero_point: int,
) -> Tensor:
    """Subtract `mean` per channel, divide by the deviation, scale and shift.

    >>> q = torch.quantize_per_tensor(torch.tensor([[1., 3.]]), 1.0, 0, torch.quint8)
    >>> zero, one = torch.zeros(2), torch.ones(2)
    >>> torch.quantized_batch_norm(q, one, zero, one, one, 0.0, 1.0, 0).dequantize()
    tensor([[0., 2.]])
    """
    refuse_plain("quantized_batch_norm", input, library="aten")
    return batch_norm(input, weight, bias, mean, var, eps, output_scale, output_zero_point)
