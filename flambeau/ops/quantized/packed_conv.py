"""Packed weights of a convolution of quantized tensors.

The sums of (x - z_x) (w - z_w) are those of a float convolution, which is exact: in float32 where
no sum needs more than 24 bits, else in float64. Padding stands for the number zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...tensor.dtypes import qint8, quint8
from ...tensor.quantized import QuantizedTensor, quantized
from ...tensor.quantizers import PerChannel, PerTensor
from ...tensor.tensor import Tensor, wrap
from ..core.operator import PUBLIC

_functional = PUBLIC["nn.functional"]
_MAX_FLOAT32_TAPS = 2**24 // (255 * 255)  # float32 holds the sum of that many products exactly


class ConvPackedParams:
    """Weights (out, in / groups, ...) of qint8, an optional bias of float32, and the geometry."""

    def __init__(
        self, weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int],
        dilation: Sequence[int], groups: int,
    ) -> None:
        if not isinstance(weight, QuantizedTensor) or weight.dtype is not qint8:
            raise RuntimeError("The weight tensor for quantized::conv_prepack must be of type "
                               "qint8")
        array: Any = weight._array
        self.codes, self.quantizer = np.ascontiguousarray(array.codes), array.quantizer
        self.bias = None if bias is None else np.ascontiguousarray(
            bias.detach()._array, np.float32)
        self.stride, self.padding = tuple(stride), tuple(padding)
        self.dilation, self.groups = tuple(dilation), groups
        along = (-1, *[1] * (self.codes.ndim - 1))
        if isinstance(self.quantizer, PerChannel):
            scales = self.quantizer.scales.astype(np.float32)
            zeros = self.quantizer.zero_points.astype(np.int32).reshape(along)
        else:
            scales = np.asarray(self.quantizer.scale, np.float32)
            zeros = self.quantizer.zero_point
        self.scales = np.broadcast_to(scales, self.codes.shape[:1]).reshape(along[:-1])
        taps = self.codes[0].size
        self.kind: Any = np.float32 if taps <= _MAX_FLOAT32_TAPS else np.float64
        self.weight = self.codes.astype(np.int32) - zeros

    def unpack(self) -> tuple[Tensor, Tensor | None]:
        """The weights and the bias as tensors."""
        bias = None if self.bias is None else wrap(self.bias)
        return quantized(self.codes, self.quantizer), bias

    def __getstate__(self) -> tuple[Any, ...]:
        return self.unpack(), self.stride, self.padding, self.dilation, self.groups

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        ConvPackedParams.__init__(self, *state[0], *state[1:])

    def sums(self, codes: np.ndarray, zero_point: int) -> np.ndarray:
        """The sums of (x - z_x) (w - z_w) as float32."""
        rank = self.codes.ndim - 2
        x = wrap(codes.astype(self.kind) - self.kind(zero_point))
        y: np.ndarray = _functional[f"conv{rank}d"](
            x, wrap(self.weight.astype(self.kind)), None, self.stride, self.padding, self.dilation,
            self.groups)._array
        return y.astype(np.float32)

    def static(self, x: Any, scale: float, zero_point: int, relu: bool) -> Tensor:
        """The quint8 result of a quint8 tensor, under a given scale and zero point."""
        if not isinstance(x, QuantizedTensor) or x.dtype is not quint8:
            raise RuntimeError("quantized::conv expects the input to be quint8")
        quantizer: Any = x._array.quantizer
        if not isinstance(quantizer, PerTensor):
            raise RuntimeError("quantized::conv expects the input to be quantized per tensor")
        total = self.sums(x._array.codes, quantizer.zero_point)
        multiplier = np.float32(quantizer.scale) * self.scales
        if self.bias is not None:  # PyTorch's kernel adds the bias in these units
            total += self.bias.reshape(self.scales.shape) / multiplier
        steps = np.rint(total * (multiplier / np.float32(scale))) + zero_point
        result = np.clip(steps, zero_point if relu else 0, 255).astype(np.uint8)
        return quantized(result, PerTensor(quint8, float(scale), int(zero_point)))


def _prepack(name: str, rank: int) -> Callable[..., ConvPackedParams]:
    def prepack(
        weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int],
        dilation: Sequence[int], groups: int,
    ) -> ConvPackedParams:
        if weight.dim() != rank + 2:
            raise RuntimeError(f"Weights are expected to have {rank + 2} dimensions")
        return ConvPackedParams(weight, bias, stride, padding, dilation, groups)

    prepack.__name__ = name
    prepack.__doc__ = f"""Packs qint8 weights of a {rank}-dimensional convolution."""
    return prepack


conv1d_prepack = _prepack("conv1d_prepack", 1)
conv2d_prepack = _prepack("conv2d_prepack", 2)
conv3d_prepack = _prepack("conv3d_prepack", 3)


def conv2d(
    qx: Any, packed_weight: ConvPackedParams, output_scale: float, output_zero_point: int
) -> Tensor:
    """A convolution of a quint8 tensor, under a given scale and zero point."""
    return packed_weight.static(qx, output_scale, output_zero_point, False)


def conv2d_relu(
    qx: Any, packed_weight: ConvPackedParams, output_scale: float, output_zero_point: int
) -> Tensor:
    """`conv2d`, then relu."""
    return packed_weight.static(qx, output_scale, output_zero_point, True)


conv1d = conv3d = conv2d
conv1d_relu = conv3d_relu = conv2d_relu


def conv2d_unpack(packed_weights: ConvPackedParams) -> tuple[Tensor, Tensor | None]:
    """The weights and the bias of packed ones."""
    return packed_weights.unpack()


conv1d_unpack = conv3d_unpack = conv2d_unpack
