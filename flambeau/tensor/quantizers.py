"""Quantization schemes and quantizers: float32 to integers and back, with PyTorch's rounding.

A number x is stored as round(x / scale + zero_point), half to even, clamped to the range of the
integer type. As in PyTorch, the division is a multiplication by 1 / scale in float32. NaN is stored
as PyTorch's instructions leave it: see `nan`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .dtypes import QuantizedDtype, qint32
from .layout import NamedConstant


class qscheme(NamedConstant):
    """The scheme by which a quantized tensor's integers represent numbers.

    >>> torch.quantize_per_tensor(torch.zeros(2), 0.1, 0, torch.qint8).qscheme()
    torch.per_tensor_affine
    """

    __slots__ = ()


per_tensor_affine = qscheme("per_tensor_affine")
per_channel_affine = qscheme("per_channel_affine")
per_tensor_symmetric = qscheme("per_tensor_symmetric")
per_channel_symmetric = qscheme("per_channel_symmetric")
per_channel_affine_float_qparams = qscheme("per_channel_affine_float_qparams")

QSCHEMES = {
    scheme.name: scheme
    for scheme in (per_tensor_affine, per_channel_affine, per_tensor_symmetric,
                   per_channel_symmetric, per_channel_affine_float_qparams)
}

SMALLEST_SCALE = np.float32(6.1e-5)  # minimum scale from `choose_parameters`


def quantize(
    values: np.ndarray, scale: Any, zero_point: Any, dtype: QuantizedDtype, nan: int,
    fused: bool = False,
) -> np.ndarray:
    """Return the integers of float32 values; scale and zero point broadcast.

    `nan`: the integer stored for NaN. `fused`: add the zero point without rounding the product.
    """
    with np.errstate(all="ignore"):
        inverse = np.float32(1) / np.asarray(scale, np.float32)
        if fused:  # float64 holds the product exactly
            exact = values * np.float64(inverse) + zero_point
            steps = np.rint(exact.astype(np.float32))
        else:
            steps = np.rint(values * inverse + np.asarray(zero_point, np.float32))
    low, high = dtype.limits
    if dtype is qint32:  # float32 cannot represent its limits
        steps = steps.astype(np.float64)
    steps = np.where(np.isnan(steps), nan, steps)
    return np.clip(steps, low, high).astype(dtype.codes)


def dequantize(codes: np.ndarray, scale: Any, zero_point: Any) -> np.ndarray:
    """Return the float32 numbers that integers represent."""
    if codes.dtype.itemsize == 4:
        shifted = (codes.astype(np.int64) - zero_point).astype(np.float32)
    else:
        shifted = codes.astype(np.float32) - np.asarray(zero_point, np.float32)
    result: np.ndarray = shifted * np.asarray(scale, np.float32)
    return result


class PerTensor(NamedTuple):
    """One scale and zero point for all elements."""

    dtype: QuantizedDtype
    scale: float
    zero_point: int
    scheme: qscheme = per_tensor_affine

    def quantize(self, values: np.ndarray) -> np.ndarray:
        """Return the integers of float32 values."""
        low, high = self.dtype.limits
        is_32_bit = self.dtype is qint32  # PyTorch's loop for it does not use fused operations
        nan = low if is_32_bit else high
        return quantize(values, self.scale, self.zero_point, self.dtype, nan, not is_32_bit)

    def dequantize(self, codes: np.ndarray) -> np.ndarray:
        """Return the float32 values of integers."""
        return dequantize(codes, self.scale, self.zero_point)

    def suffixes(self, _: Callable[[np.ndarray], str]) -> list[str]:
        """Return the suffixes of a printed tensor."""
        return [f"scale={self.scale}", f"zero_point={self.zero_point}"]

    def same(self, other: Any) -> bool:
        """Return whether both map equal integers to equal numbers."""
        return isinstance(other, PerTensor) and self == other


class PerChannel(NamedTuple):
    """A scale and a zero point for each index along an axis.

    Zero points are int64 and scales float64, or both float32.
    """

    dtype: QuantizedDtype
    scales: np.ndarray
    zero_points: np.ndarray
    axis: int

    @property
    def scheme(self) -> qscheme:
        """`torch.per_channel_affine`, or the one with floating zero points."""
        floating = self.zero_points.dtype.kind == "f"
        return per_channel_affine_float_qparams if floating else per_channel_affine

    def _reshape_along(self, ndim: int, numbers: np.ndarray) -> np.ndarray:
        shape = [1] * ndim
        shape[self.axis] = numbers.size
        return numbers.reshape(shape)

    def quantize(self, values: np.ndarray) -> np.ndarray:
        """Return the integers of float32 values."""
        scales, zeros = (
            self._reshape_along(values.ndim, n) for n in (self.scales, self.zero_points)
        )
        if self.zero_points.dtype.kind == "f":
            scales = np.where(scales == 0, np.float32(1), scales)
        nan = self.dtype.limits[0] if self.dtype is qint32 else 0
        return quantize(values, scales, zeros, self.dtype, nan)

    def dequantize(self, codes: np.ndarray) -> np.ndarray:
        """Return the float32 values of integers."""
        scales, zeros = (
            self._reshape_along(codes.ndim, n) for n in (self.scales, self.zero_points)
        )
        return dequantize(codes, scales, zeros)

    def suffixes(self, shown: Callable[[np.ndarray], str]) -> list[str]:
        """Return the suffixes of a printed tensor."""
        return [f"scale={shown(self.scales)}", f"zero_point={shown(self.zero_points)}",
                f"axis={self.axis}"]

    def same(self, other: Any) -> bool:
        """Return whether both map equal integers to equal numbers."""
        return isinstance(other, PerChannel) and self.dtype is other.dtype \
            and self.axis == other.axis and np.array_equal(self.scales, other.scales) \
            and np.array_equal(self.zero_points, other.zero_points)

    def at(self, index: int) -> PerTensor:
        """Return the quantizer of one index along the axis."""
        return PerTensor(self.dtype, float(self.scales[index]), int(self.zero_points[index]))


Quantizer = PerTensor | PerChannel


def choose_parameters(
    low: float, high: float, quant_min: int, quant_max: int
) -> tuple[float, int]:
    """Return (scale, zero point) that map values in [low, high] to integers in [least, most].

    Zero is always represented exactly.
    """
    low, high = float(np.float32(min(low, 0.0))), float(np.float32(max(high, 0.0)))
    scale = (high - low) / (quant_max - quant_min)
    if scale < SMALLEST_SCALE:
        low, high, scale = _widen_range(low, high, scale, quant_max - quant_min)
    down, up = low / scale, high / scale
    low_error, high_error = abs(quant_min) - abs(down), abs(quant_max) - abs(up)
    zero = round(quant_min - down if low_error < high_error else quant_max - up)
    return scale, min(max(zero, quant_min), quant_max)


def _widen_range(
    low: float, high: float, scale: float, steps: int
) -> tuple[float, float, float]:
    """Return the ends of a small range, widened to the smallest scale, and the scale."""
    with np.errstate(all="ignore"):
        if np.float32(scale) == 0 or np.isinf(np.float32(1) / np.float32(scale)):
            return low, high, 0.1
        ends = _stretch_range(np.float32(low), np.float32(high), np.float32(scale), steps)
    return float(ends[0]), float(ends[1]), float(SMALLEST_SCALE)


def choose_even_parameters(
    low: float, high: float, quant_min: int, quant_max: int
) -> tuple[float, int]:
    """Like `choose_parameters`, but symmetric around zero if values have both signs."""
    if not low < 0 < high:
        return choose_parameters(low, high, quant_min, quant_max)
    down, up = -((quant_max - quant_min) // 2 + 1), (quant_max - quant_min) // 2
    widest = max(abs(low / down), abs(high / up))
    scale, _ = choose_parameters(widest * down, widest * up, quant_min, quant_max)
    return scale, int(np.clip(np.rint((quant_min + quant_max) / 2), quant_min, quant_max))


def _stretch_range(low: Any, high: Any, before: Any, steps: int) -> tuple[Any, Any]:
    """Return the ends of the range widened to the smallest scale."""
    if low == 0:
        return low, SMALLEST_SCALE * np.float32(steps)
    if high == 0:
        return -SMALLEST_SCALE * np.float32(steps), high
    factor = SMALLEST_SCALE / before
    return low * factor, high * factor


def get_quantization_range(dtype: QuantizedDtype, reduce_range: bool = False) -> tuple[int, int]:
    """Return the integer range of a dtype; with `reduce_range`, in one bit less."""
    low, high = dtype.limits
    if reduce_range and dtype is not qint32:
        return int(low / 2), high // 2
    return low, high
