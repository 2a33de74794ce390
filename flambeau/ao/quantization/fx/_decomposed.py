"""torch.ops.quantized_decomposed: quantization to plain integer dtypes, in plain operators.

Scales and zero points are arguments, because plain integer tensors do not carry them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from .... import ops
from ....library import Library
from ....tensor import Tensor
from ....tensor.dtypes import bfloat16, finfo, float16, float32, float64, int64
from ....tensor.dtypes import dtype as Dtype

Rule = TypeVar("Rule", bound=Callable[..., Any])

quantized_decomposed_lib = Library("quantized_decomposed", "DEF")
_RANGE = "int quant_min, int quant_max, ScalarType dtype"
_CODES, _NUMBERS = f"{_RANGE}) -> Tensor", f"{_RANGE}, *, ScalarType? out_dtype=None) -> Tensor"


def _declare(*schemas: str) -> Callable[[Rule], Rule]:
    """Register a function under each schema."""

    def decorate(function: Rule) -> Rule:
        for schema in schemas:
            quantized_decomposed_lib.define(schema)
            name = schema.partition("(")[0]
            quantized_decomposed_lib.impl(name, function, "CompositeImplicitAutograd")
        return function

    return decorate


def _check(input: Tensor, quant_min: int, quant_max: int) -> Tensor:
    """Return the input in float32; AssertionError for other dtypes and for an empty range."""
    if input.dtype in (float16, bfloat16):
        input = input.to(float32)
    assert input.dtype == float32, (
        f"Expecting input to have dtype torch.float32, but got dtype: {input.dtype}")
    assert quant_min <= quant_max, (
        f"quant_min specified: {quant_min} is above quant_max: {quant_max}")
    return input


def _encode(x: Tensor, scale: Any, zero: Any, quant_min: int, quant_max: int,
            dtype: Dtype) -> Tensor:
    return (ops.round(x * (1.0 / scale)) + zero).clamp(quant_min, quant_max).to(dtype)


@_declare(f"quantize_per_tensor(Tensor input, float scale, int zero_point, {_CODES}",
          f"quantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, {_CODES}")
def quantize_per_tensor(
    input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int, dtype: Dtype
) -> Tensor:
    """Return input / scale + zero_point, rounded and clamped to the range."""
    return _encode(_check(input, quant_min, quant_max), scale, zero_point, quant_min, quant_max,
                   dtype)


@_declare(f"dequantize_per_tensor(Tensor input, float scale, int zero_point, {_NUMBERS}",
          f"dequantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, {_NUMBERS}")
def dequantize_per_tensor(
    input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int, dtype: Dtype,
    *, out_dtype: Dtype | None = None
) -> Tensor:
    """Return (input - zero_point) * scale for integers of `dtype`."""
    assert input.dtype == dtype, (
        f"Expecting input to have dtype: {dtype}, but got {input.dtype}")
    kind = out_dtype or float32
    factor = scale.to(kind) if isinstance(scale, Tensor) else scale
    return (input.to(kind) - zero_point) * factor


@_declare("choose_qparams.tensor(Tensor input, int quant_min, int quant_max, float eps, "
          "ScalarType dtype) -> (Tensor, Tensor)")
def choose_qparams(
    input: Tensor, quant_min: int, quant_max: int, eps: float, dtype: Dtype
) -> tuple[Tensor, Tensor]:
    """Return the scale (float64) and zero point (int64) whose range spans the input and zero."""
    lowest, highest = input.amin().clamp(max=0.0), input.amax().clamp(min=0.0)
    scale = ops.maximum((highest - lowest) / float(quant_max - quant_min), ops.tensor(eps))
    zero = (quant_min - ops.round(lowest / scale)).clamp(quant_min, quant_max)
    return scale.to(float64), zero.to(int64)


def _broadcast_along(v: Tensor, x: Tensor, axis: int) -> Tensor:
    shape = [1] * x.dim()
    shape[axis] = -1
    return v.reshape(shape)


@_declare("quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, "
          f"{_CODES}")
def quantize_per_channel(
    input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, quant_min: int, quant_max: int,
    dtype: Dtype
) -> Tensor:
    """quantize_per_tensor for each index along an axis."""
    x = _check(input, quant_min, quant_max)
    scale = _broadcast_along(scales, x, axis).to(float32)
    return _encode(x, scale, _broadcast_along(zero_points, x, axis), quant_min, quant_max, dtype)


@_declare("dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, "
          f"{_NUMBERS}")
def dequantize_per_channel(
    input: Tensor, scales: Tensor, zero_points: Tensor | None, axis: int, quant_min: int,
    quant_max: int, dtype: Dtype, *, out_dtype: Dtype | None = None
) -> Tensor:
    """dequantize_per_tensor for each index along an axis."""
    assert input.dtype == dtype, f"Expecting input to have dtype {dtype}, but got: {input.dtype}"
    x = input.to(float32)
    if zero_points is not None:
        x = x - _broadcast_along(zero_points, x, axis)
    return (x * _broadcast_along(scales, x, axis)).to(out_dtype or float32)


@_declare("_choose_qparams_per_token_asymmetric_impl(Tensor input, ScalarType dtype) "
          "-> (Tensor, Tensor)",
          "choose_qparams_per_token_asymmetric(Tensor input, ScalarType dtype) -> (Tensor, Tensor)")
def choose_qparams_per_token_asymmetric(input: Tensor, dtype: Dtype) -> tuple[Tensor, Tensor]:
    """Return each row's scale and zero point for integers from -128 to 127. The zero point is the
    one with the smaller error at one of the ends."""
    quant_min, quant_max = -128, 127
    lowest, highest = input.amin(-1, True).clamp(max=0.0), input.amax(-1, True).clamp(min=0.0)
    scale = ((highest - lowest) / float(quant_max - quant_min)).clamp(min=finfo(float32).eps)
    scaled_min, scaled_max = lowest / scale, highest / scale
    zero = ops.where(quant_min + scaled_min + quant_max + scaled_max > 0, quant_min - scaled_min,
                     quant_max - scaled_max)
    return scale.to(float64), zero.clamp(quant_min, quant_max).round().to(int64)


@_declare(f"quantize_per_token(Tensor input, Tensor scales, Tensor zero_points, {_CODES}")
def quantize_per_token(
    input: Tensor, scales: Tensor, zero_points: Tensor, quant_min: int, quant_max: int, dtype: Dtype
) -> Tensor:
    """Quantize rows by their scales and zero points, (..., 1)."""
    y = input.mul(1.0 / scales).add(zero_points).round()
    return y.clamp(quant_min, quant_max).to(dtype)


@_declare("dequantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, "
          "int quant_max, ScalarType dtype, ScalarType output_dtype) -> Tensor")
def dequantize_per_token(
    input: Tensor, scales: Tensor, zero_points: Tensor, quant_min: int, quant_max: int,
    dtype: Dtype, output_dtype: Dtype
) -> Tensor:
    """Return (input - zero_points) * scales, by row."""
    return ((input - zero_points).to(output_dtype) * scales).to(output_dtype)


def _group(x: Tensor, scales: Tensor, size: int) -> Tensor:
    """Reshape x to one group per row."""
    if size > x.shape[-1] and scales.shape[-1] == 1:
        size = x.shape[-1]
    assert size > 1, "a group has more than one element"
    assert x.shape[-1] % size == 0, "groups must divide the rows"
    return x.reshape(-1, size)


@_declare("quantize_per_channel_group(Tensor input, Tensor scales, Tensor zero_points, "
          "int quant_min, int quant_max, ScalarType dtype, int group_size=128) -> Tensor")
def quantize_per_channel_group(
    input: Tensor, scales: Tensor, zero_points: Tensor, quant_min: int, quant_max: int,
    dtype: Dtype, group_size: int = 128
) -> Tensor:
    """Quantize groups of a row's elements by their scales and zero points."""
    rows = _group(input, scales, group_size)
    y = rows.mul(1.0 / scales.reshape(-1, 1)).add(zero_points.reshape(-1, 1)).round()
    return y.clamp(quant_min, quant_max).to(dtype).reshape(input.shape)


@_declare("dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, "
          "int quant_min, int quant_max, ScalarType dtype, int group_size, "
          "ScalarType output_dtype) -> Tensor")
def dequantize_per_channel_group(
    w_int8: Tensor, scales: Tensor, zero_points: Tensor | None, quant_min: int, quant_max: int,
    dtype: Dtype, group_size: int = 128, output_dtype: Dtype = float32
) -> Tensor:
    """Dequantize the integers of quantize_per_channel_group."""
    rows = _group(w_int8, scales, group_size).to(float32)
    if zero_points is not None:
        rows = rows - zero_points.reshape(-1, 1)
    return rows.mul(scales.reshape(-1, 1)).reshape(w_int8.shape).to(output_dtype)
