"""Quantized linear layers with packed weights: integers, scales, zero points and row sums.

y = (x - z_x) (w - z_w)^T s_x s_w + b with integers x and w, zero points z and scales s. The matrix
product is x w^T alone; row sums of x and w correct it for the zero points.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...native.target.cost_model import MIN_BYTE_KERNEL_MULTIPLICATIONS
from ...tensor.dtypes import qint8, quint8
from ...tensor.quantized import QuantizedTensor, quantized
from ...tensor.quantizers import (
    PerChannel, PerTensor, choose_parameters, get_quantization_range,
)
from ...tensor.tensor import Tensor, wrap
from ..native.byte_products import try_byte_product, pack_panels, quantize_rows
from .backend import PackedParams, refuse_plain
from .integer_matmul import multiply_integers


class LinearPackedParams(PackedParams):
    """Weights (n, k) of qint8 and an optional bias (n) of float32, ready for products."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        if not isinstance(weight, QuantizedTensor) or weight.dtype is not qint8:
            raise RuntimeError("The weight tensor for quantized::linear_prepack must be of type "
                               "qint8")
        if weight.ndim != 2:
            raise RuntimeError("The weight tensor for quantized::linear_prepack (fbgemm) should "
                               "be 2-dimensional.")
        array: Any = weight._array
        self.codes = np.ascontiguousarray(array.codes)
        self.quantizer = array.quantizer
        self._bias = None if bias is None else np.ascontiguousarray(bias._array, np.float32)
        if isinstance(self.quantizer, PerChannel):
            self.scales: Any = self.quantizer.scales.astype(np.float32)
            self.zero_points: Any = self.quantizer.zero_points.astype(np.int32)
        else:
            self.scales = np.float32(self.quantizer.scale)
            self.zero_points = np.int32(self.quantizer.zero_point)
        self.weight_sums = self.codes.sum(1, dtype=np.int32)
        self.panels = None if np.any(self.zero_points) else pack_panels(self.codes)
        n = len(self.codes)
        # What kernels take of each column: the weights' sum and scale, and the bias.
        self.factors = (
            self.weight_sums, np.ascontiguousarray(np.broadcast_to(self.scales, n)),
            np.zeros(n, np.float32) if self._bias is None else self._bias)

    def bias(self) -> Tensor | None:
        """The bias as a tensor."""
        return None if self._bias is None else wrap(self._bias)

    def unpack(self) -> tuple[Tensor, Tensor | None]:
        """The weights and the bias as tensors."""
        return quantized(self.codes, self.quantizer), self.bias()

    def __getstate__(self) -> tuple[Any, ...]:
        return (self.unpack(), None)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        LinearPackedParams.__init__(self, *state[0])

    def multiply_codes(self, codes: np.ndarray, zero_point: int) -> np.ndarray:
        """Return (x - z_x) (w - z_w)^T in int32 for rows (m, k) of 8-bit integers x."""
        corrections = np.int32(zero_point) * self.weight_sums
        total = None
        if self.panels is not None and codes.dtype == np.uint8:
            rows = np.zeros((codes.shape[0], -(-codes.shape[1] // 4) * 4), np.uint8)
            rows[:, : codes.shape[1]] = codes
            total = try_byte_product(rows, self.panels, corrections, None, False)
        if total is None:
            total = multiply_integers(codes, self.codes.T) - corrections
        if np.any(self.zero_points):
            rows = codes.sum(1, dtype=np.int32) - np.int32(codes.shape[1] * zero_point)
            total -= rows[:, None] * self.zero_points
        return total

    def _flatten_rows(self, x: np.ndarray) -> np.ndarray:
        """Return (m, k) of (..., k); RuntimeError unless the weights are (n, k)."""
        if x.ndim == 0:
            raise RuntimeError("The dimension of input should be larger than 0")
        if x.shape[-1] != self.codes.shape[1]:
            raise RuntimeError("The number of rows in the packB should be equal to K: "
                               f"{x.shape[-1]}")
        return np.ascontiguousarray(x).reshape(-1, x.shape[-1])

    def multiply_dynamic(self, x: np.ndarray, reduce_range: bool) -> np.ndarray:
        """Return the float32 result of float32 rows, which are quantized by their range."""
        rows = self._flatten_rows(x)
        low, high = (float(rows.min()), float(rows.max())) if rows.size else (0.0, 0.0)
        scale, zero = choose_parameters(low, high, *get_quantization_range(quint8, reduce_range))
        shape = (*x.shape[:-1], self.codes.shape[0])
        y = self._try_kernel(rows, scale, zero, reduce_range)
        if y is not None:
            return y.reshape(shape)
        quantizer = PerTensor(quint8, scale, zero)
        product = self.multiply_codes(quantizer.quantize(rows), zero).astype(np.float32)
        result = product.astype(np.float64)  # rounded once, as by a fused multiply-add
        result *= np.float32(scale) * self.scales
        if self._bias is not None:
            result += self._bias
        return result.astype(np.float32).reshape(shape)

    def _try_kernel(
        self, rows: np.ndarray, scale: float, zero: int, fits_7_bits: bool
    ) -> np.ndarray | None:
        """Return the result by compiled kernels, or None if there are none (yet).

        `fits_7_bits`: whether the scale leaves the quantized rows below 128.
        """
        n, k = self.codes.shape
        if self.panels is None or rows.shape[0] * n * k < MIN_BYTE_KERNEL_MULTIPLICATIONS:
            return None
        codes = quantize_rows(rows, scale, zero)
        if codes is None:
            return None
        sums, scales, bias = self.factors
        return try_byte_product(codes, self.panels, np.int32(zero) * sums,
                                (np.float32(scale) * scales, bias), fits_7_bits)

    def multiply_static(
        self, x: QuantizedTensor, scale: float, zero_point: int, relu: bool
    ) -> Tensor:
        """Return the quint8 result of a quint8 tensor, with the given scale and zero point."""
        scale, zero_point = float(scale), int(zero_point)
        total, multiplier = self.multiply_unscaled(x)
        total *= multiplier / np.float32(scale)
        np.rint(total, out=total)
        total += zero_point
        np.clip(total, zero_point if relu else 0, 255, out=total)
        return quantized(total.astype(np.uint8), PerTensor(quint8, scale, zero_point))

    def multiply_and_activate(
        self, x: QuantizedTensor, scale: float, zero_point: int,
        function: Callable[[np.ndarray], np.ndarray],
    ) -> Tensor:
        """Return the quint8 result of a quint8 tensor, with a float32 function applied before
        rounding."""
        total, multiplier = self.multiply_unscaled(x)
        quantizer = PerTensor(quint8, float(scale), int(zero_point))
        return quantized(quantizer.quantize(function(total * multiplier)), quantizer)

    def multiply_unscaled(self, x: QuantizedTensor) -> tuple[np.ndarray, np.ndarray]:
        """Return (y / (s_x s_w), s_x s_w) for the result y of a quint8 tensor, in float32."""
        quantizer: Any = x._array.quantizer
        if x.dtype is not quint8:
            names = {"qint8": "QInt8", "qint32": "QInt32"}
            raise RuntimeError("Expected input data type QUInt8 but got "
                               f"{names.get(x.dtype.name, x.dtype.name)}")
        if not isinstance(quantizer, PerTensor):
            raise RuntimeError("quantized::linear expects the input to be quint8, per tensor")
        codes = x._array.codes
        integers = self.multiply_codes(self._flatten_rows(codes), quantizer.zero_point)
        total = integers.astype(np.float32)
        multiplier = np.float32(quantizer.scale) * self.scales
        if self._bias is not None:  # divided first, as in PyTorch's kernel
            total += self._bias / multiplier
        return total.reshape((*codes.shape[:-1], self.codes.shape[0])), multiplier


class LinearPackedParamsFp16(PackedParams):
    """Weights (n, k) rounded to float16; products are in float32."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        limit = np.float32(np.finfo(np.float16).max)
        values = np.clip(weight._array.astype(np.float32), -limit, limit)
        self.weight = values.astype(np.float16).astype(np.float32)
        self._bias = None if bias is None else np.ascontiguousarray(bias._array, np.float32)

    def unpack(self) -> tuple[Tensor, Tensor | None]:
        """The weights and the bias as tensors."""
        return wrap(self.weight), self.bias()

    def bias(self) -> Tensor | None:
        """The bias as a tensor."""
        return None if self._bias is None else wrap(self._bias)

    def __getstate__(self) -> tuple[Any, ...]:
        return (self.unpack(), None)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        LinearPackedParamsFp16.__init__(self, *state[0])

    def multiply_dynamic(self, x: np.ndarray, reduce_range: bool) -> np.ndarray:
        """The product of float32 rows with the rounded weights."""
        y: np.ndarray = x @ self.weight.T
        return y if self._bias is None else y + self._bias


Packed = LinearPackedParams | LinearPackedParamsFp16


def linear_prepack(W: Tensor, B: Tensor | None = None) -> LinearPackedParams:
    """Pack qint8 weights (n, k) and a float32 bias."""
    return LinearPackedParams(W, B)


def linear_prepack_fp16(W: Tensor, B: Tensor | None = None) -> LinearPackedParamsFp16:
    """Pack weights (n, k) rounded to float16."""
    return LinearPackedParamsFp16(W, B)


def linear_unpack(W_prepack: Packed) -> tuple[Tensor, Tensor | None]:
    """Return the weights and the bias of packed parameters."""
    return W_prepack.unpack()


linear_unpack_fp16 = linear_unpack


def linear_dynamic(X: Tensor, W_prepack: Packed, reduce_range: bool = False) -> Tensor:
    """Compute x w^T + b in 8-bit integers; float32 x is quantized by its range."""
    if X.dtype.name != "float32":
        raise RuntimeError("quantized::linear_dynamic (fbgemm): data type of input should be "
                           "float.")
    return wrap(W_prepack.multiply_dynamic(X._array, reduce_range))


linear_dynamic_fp16 = linear_dynamic


def linear_relu_dynamic(X: Tensor, W_prepack: Packed, reduce_range: bool = False) -> Tensor:
    """`linear_dynamic` followed by ReLU."""
    y = W_prepack.multiply_dynamic(X._array, reduce_range)
    return wrap(np.maximum(y, 0, out=y))


def linear(
    X: QuantizedTensor, W_prepack: LinearPackedParams, Y_scale_i: float, Y_zero_point_i: int
) -> Tensor:
    """Compute x w^T + b of quint8 x, with the given output scale and zero point."""
    refuse_plain("linear", X)
    return W_prepack.multiply_static(X, Y_scale_i, Y_zero_point_i, False)


def linear_relu(
    X: QuantizedTensor, W_prepack: LinearPackedParams, Y_scale_i: float, Y_zero_point_i: int
) -> Tensor:
    """`linear` followed by ReLU."""
    refuse_plain("linear_relu", X)
    return W_prepack.multiply_static(X, Y_scale_i, Y_zero_point_i, True)


def linear_leaky_relu(
    X: QuantizedTensor, W_prepack: LinearPackedParams, Y_scale_i: float, Y_zero_point_i: int,
    negative_slope: float,
) -> Tensor:
    """`linear` followed by a leaky ReLU, rounded once."""
    refuse_plain("linear_leaky_relu", X)
    slope = np.float32(negative_slope)
    return W_prepack.multiply_and_activate(
        X, Y_scale_i, Y_zero_point_i, lambda y: np.where(y > 0, y, y * slope))


def linear_tanh(
    X: QuantizedTensor, W_prepack: LinearPackedParams, Y_scale_i: float, Y_zero_point_i: int
) -> Tensor:
    """`linear` followed by tanh, rounded once."""
    refuse_plain("linear_tanh", X)
    return W_prepack.multiply_and_activate(X, Y_scale_i, Y_zero_point_i, np.tanh)


def linear_with_input_q_dq_qweight_dq_output_fp32(
    X: Tensor, X_scale: float, X_zero_point: int, W_prepack: LinearPackedParams
) -> Tensor:
    """Compute x w^T + b of float32 x, rounded to quint8 for the product."""
    quantizer = PerTensor(quint8, float(X_scale), int(X_zero_point))
    codes: Any = quantized(quantizer.quantize(X._array), quantizer)
    total, multiplier = W_prepack.multiply_unscaled(codes)
    return wrap(total * multiplier)


def linear_with_input_q_dq_qweight_dq_relu_output_fp32(
    X: Tensor, X_scale: float, X_zero_point: int, W_prepack: LinearPackedParams
) -> Tensor:
    """`linear_with_input_q_dq_qweight_dq_output_fp32` followed by ReLU."""
    y = linear_with_input_q_dq_qweight_dq_output_fp32(X, X_scale, X_zero_point, W_prepack)
    return wrap(np.maximum(y._array, 0))


def linear_dynamic_fp16_unpacked_weight(X: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`linear_dynamic_fp16`, packing the weights on each call."""
    return wrap(LinearPackedParamsFp16(weight, bias).multiply_dynamic(X._array, False))


def linear_relu_dynamic_fp16(X: Tensor, W_prepack: Packed) -> Tensor:
    """`linear_dynamic_fp16` followed by ReLU."""
    return linear_relu_dynamic(X, W_prepack)
