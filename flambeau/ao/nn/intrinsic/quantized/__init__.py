"""torch.ao.nn.intrinsic.quantized: layers of quantized tensors with the ReLU behind them."""

from __future__ import annotations

from typing import Any

from .....ops.quantized import packed_linear
from .....tensor import Tensor
from ... import quantized
from ...quantized.modules.observed import quantized_parts

__all__ = ["ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearReLU"]


class ConvReLU1d(quantized.Conv1d):
    """A convolution of quint8 tensors, then ReLU."""

    _RELU = True


class ConvReLU2d(quantized.Conv2d):
    """A convolution of quint8 tensors, then ReLU."""

    _RELU = True


class ConvReLU3d(quantized.Conv3d):
    """A convolution of quint8 tensors, then ReLU."""

    _RELU = True


class LinearReLU(quantized.Linear):
    """A linear layer of quint8 tensors, then ReLU."""

    def forward(self, x: Any) -> Tensor:
        """The quint8 result of a quint8 tensor."""
        return packed_linear.linear_relu(x, self._packed_params._packed_params, self.scale,
                                         self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedLinearReLU"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized layer of a fused one that was observed."""
        inner, weight, bias, scale, zero_point = quantized_parts(mod)
        result = cls(inner.in_features, inner.out_features)
        result.set_weight_bias(weight, bias)
        result.scale, result.zero_point = scale, zero_point
        return result
