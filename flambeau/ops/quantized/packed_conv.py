"""Packed weights of a convolution of quantized tensors, transposed ones too.

The sums of (x - z_x) (w - z_w) are those of a float convolution, which is exact: in float32 where
no sum needs more than 24 bits, else in float64. Padding stands for the number zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...tensor.dtypes import qint8, quint8
from ...tensor.quantized import QuantizedTensor, quantized
from ...tensor.quantizers import (
    PerChannel, PerTensor, choose_parameters, get_quantization_range,
)
from ...tensor.tensor import Tensor, wrap
from ..core.operator import PUBLIC
from .backend import PackedParams, refuse_plain
from .conversion import dequantize

_functional = PUBLIC["nn.functional"]
_MAX_FLOAT32_TAPS = 2**24 // (255 * 255)  # float32 holds the sum of that many products exactly


class ConvPackedParams(PackedParams):
    """Weights of qint8, an optional bias of float32, and the geometry.

    Weights are (out, in / groups, ...), with `transposed` (in, out / groups, ...).
    """

    def __init__(
        self, weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int],
        dilation: Sequence[int], groups: int, transposed: bool = False,
        output_padding: Sequence[int] = (),
    ) -> None:
        if not isinstance(weight, QuantizedTensor) or weight.dtype is not qint8:
            raise RuntimeError("The weight tensor for quantized::conv_prepack must be of type "
                               "qint8")
        array: Any = weight._array
        self.codes, self.quantizer = np.ascontiguousarray(array.codes), array.quantizer
        self.bias = None if bias is None else np.ascontiguousarray(
            bias.detach()._array, np.float32)
        self.rank = self.codes.ndim - 2
        self.stride, self.padding = tuple(stride), tuple(padding)
        self.dilation, self.groups = tuple(dilation), groups
        self.transposed, self.output_padding = transposed, tuple(output_padding)
        zeros: Any = self.quantizer.zero_point if isinstance(self.quantizer, PerTensor) \
            else self._reshape_along(self.quantizer.zero_points.astype(np.int32))
        self.scales = self._reshape_channel_scales()
        taps = self.codes[0].size
        if transposed:
            taps = self.codes.size // self.codes.shape[1] // groups
        self.kind: Any = np.float32 if taps <= _MAX_FLOAT32_TAPS else np.float64
        self.weight = self.codes.astype(np.int32) - zeros

    def _reshape_along(self, values: np.ndarray) -> np.ndarray:
        """Values of each channel, to be broadcast to the weights."""
        shape = [1] * self.codes.ndim
        shape[self.quantizer.axis] = -1
        return values.reshape(shape)

    def _reshape_channel_scales(self) -> np.ndarray:
        """The weights' scale of each channel of the result, (out, 1, ...)."""
        if isinstance(self.quantizer, PerChannel):
            scales = self.quantizer.scales.astype(np.float32)
        else:
            scales = np.full(self.codes.shape[int(self.transposed)], self.quantizer.scale,
                             np.float32)
        if self.transposed:
            scales = np.tile(scales, self.groups)
        return scales.reshape(-1, *[1] * self.rank)

    def unpack(self) -> tuple[Tensor, Tensor | None]:
        """Return the weights and the bias as tensors."""
        bias = None if self.bias is None else wrap(self.bias)
        return quantized(self.codes, self.quantizer), bias

    def __getstate__(self) -> tuple[Any, ...]:
        return (self.unpack(), self.stride, self.padding, self.dilation, self.groups,
                self.transposed, self.output_padding)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        ConvPackedParams.__init__(self, *state[0], *state[1:])

    def convolve_codes(self, codes: np.ndarray, zero_point: int) -> np.ndarray:
        """Return the sums of (x - z_x) (w - z_w) in float32."""
        x = wrap(codes.astype(self.kind) - self.kind(zero_point))
        weight = wrap(self.weight.astype(self.kind))
        if self.transposed:
            y = _functional[f"conv_transpose{self.rank}d"](
                x, weight, None, self.stride, self.padding, self.output_padding, self.groups,
                self.dilation)
        else:
            y = _functional[f"conv{self.rank}d"](
                x, weight, None, self.stride, self.padding, self.dilation, self.groups)
        result: np.ndarray = y._array.astype(np.float32)
        return result

    def describe_operator(self, relu: bool) -> str:
        """Return the name of the operator that convolves by these weights, with its overload."""
        if self.transposed:
            return f"conv_transpose{self.rank}d"
        overload = "" if self.rank == 1 else ".new"
        return f"conv{self.rank}d{'_relu' * relu}{overload}"

    def convolve_static(
        self, x: Any, scale: float, zero_point: int, relu: bool, accumulated: Any = None
    ) -> Tensor:
        """Return the quint8 result of a quint8 tensor, with the given scale and zero point.

        `accumulated` is added before rounding.
        """
        refuse_plain(self.describe_operator(relu), x)
        if x.dtype is not quint8:
            raise RuntimeError("quantized::conv expects the input to be quint8")
        quantizer: Any = x._array.quantizer
        if not isinstance(quantizer, PerTensor):
            raise RuntimeError("quantized::conv expects the input to be quantized per tensor")
        scale, zero_point = float(scale), int(zero_point)
        total = self.convolve_codes(x._array.codes, quantizer.zero_point)
        multiplier = np.float32(quantizer.scale) * self.scales
        if self.bias is not None:  # divided first, as in PyTorch's kernel
            total += self.bias.reshape(self.scales.shape) / multiplier
        values = total * (multiplier / np.float32(scale))
        if accumulated is not None:
            values += dequantize(accumulated)._array / np.float32(scale)
        result = np.clip(np.rint(values) + zero_point, zero_point if relu else 0, 255)
        return quantized(result.astype(np.uint8), PerTensor(quint8, scale, zero_point))

    def convolve_dynamic(self, x: Tensor, reduce_range: bool) -> Tensor:
        """Return the float32 result of a float32 tensor, computed in integers.

        As in PyTorch, the result too is rounded with the input's scale, so that values outside the
        input's range are clamped.
        """
        values = np.ascontiguousarray(x.detach()._array, np.float32)
        low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
        scale, zero = choose_parameters(low, high, *get_quantization_range(quint8, reduce_range))
        quantizer = PerTensor(quint8, scale, zero)
        codes = quantized(quantizer.quantize(values), quantizer)
        return dequantize(self.convolve_static(codes, scale, zero, False))


def _check_rank(weight: Tensor, rank: int) -> None:
    if weight.dim() != rank + 2:
        raise RuntimeError(f"Weights are expected to have {rank + 2} dimensions")


def _prepack(rank: int) -> Callable[..., ConvPackedParams]:
    def prepack(
        weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int],
        dilation: Sequence[int], groups: int,
    ) -> ConvPackedParams:
        _check_rank(weight, rank)
        return ConvPackedParams(weight, bias, stride, padding, dilation, groups)

    prepack.__name__ = f"conv{rank}d_prepack"
    prepack.__doc__ = f"""Pack qint8 weights of a {rank}-dimensional convolution."""
    return prepack


def _prepack_transposed(rank: int) -> Callable[..., ConvPackedParams]:
    def prepack(
        weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int],
        output_padding: Sequence[int], dilation: Sequence[int], groups: int,
    ) -> ConvPackedParams:
        _check_rank(weight, rank)
        return ConvPackedParams(
            weight, bias, stride, padding, dilation, groups, True, output_padding)

    prepack.__name__ = f"conv_transpose{rank}d_prepack"
    prepack.__doc__ = f"""Pack qint8 weights of a {rank}-dimensional transposed convolution."""
    return prepack


conv1d_prepack, conv2d_prepack, conv3d_prepack = map(_prepack, (1, 2, 3))
conv_transpose1d_prepack, conv_transpose2d_prepack, conv_transpose3d_prepack = map(
    _prepack_transposed, (1, 2, 3))


def _convolution(name: str, relu: bool = False) -> Callable[..., Tensor]:
    def convolve(
        qx: Any, packed_weight: ConvPackedParams, output_scale: float, output_zero_point: int
    ) -> Tensor:
        return packed_weight.convolve_static(qx, output_scale, output_zero_point, relu)

    convolve.__name__ = convolve.__qualname__ = name
    convolve.__doc__ = "Convolve a quint8 tensor" + (", then ReLU" if relu else "") + (
        ", with the given output scale and zero point.")
    return convolve


def _dynamic_convolution(name: str) -> Callable[..., Tensor]:
    def convolve(
        qx: Tensor, packed_weight: ConvPackedParams, reduce_range: bool = False
    ) -> Tensor:
        return packed_weight.convolve_dynamic(qx, reduce_range)

    convolve.__name__ = convolve.__qualname__ = name
    convolve.__doc__ = "Convolve a float32 tensor, quantized by the range of its values."
    return convolve


conv1d, conv2d, conv3d = (_convolution(f"conv{rank}d") for rank in (1, 2, 3))
conv1d_relu, conv2d_relu, conv3d_relu = (
    _convolution(f"conv{rank}d_relu", relu=True) for rank in (1, 2, 3))
conv_transpose1d, conv_transpose2d, conv_transpose3d = (
    _convolution(f"conv_transpose{rank}d") for rank in (1, 2, 3))
conv1d_dynamic, conv2d_dynamic, conv3d_dynamic = (
    _dynamic_convolution(f"conv{rank}d_dynamic") for rank in (1, 2, 3))
conv_transpose1d_dynamic, conv_transpose2d_dynamic, conv_transpose3d_dynamic = (
    _dynamic_convolution(f"conv_transpose{rank}d_dynamic") for rank in (1, 2, 3))


def conv2d_add(
    qx: Any, qaccum: Any, packed_weight: ConvPackedParams, output_scale: float,
    output_zero_point: int,
) -> Tensor:
    """`conv2d` plus another quantized tensor, rounded once."""
    return packed_weight.convolve_static(qx, output_scale, output_zero_point, False, qaccum)


def conv2d_add_relu(
    qx: Any, qaccum: Any, packed_weight: ConvPackedParams, output_scale: float,
    output_zero_point: int,
) -> Tensor:
    """`conv2d_add` followed by ReLU."""
    return packed_weight.convolve_static(qx, output_scale, output_zero_point, True, qaccum)


def conv2d_unpack(packed_weights: ConvPackedParams) -> tuple[Tensor, Tensor | None]:
    """Return the weights and the bias of packed parameters."""
    return packed_weights.unpack()


conv1d_unpack = conv3d_unpack = conv2d_unpack
conv_transpose1d_unpack = conv_transpose2d_unpack = conv_transpose3d_unpack = conv2d_unpack
