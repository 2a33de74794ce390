"""torch.ao.nn.intrinsic.quantized: layers of quantized tensors with the ReLU behind them."""

from __future__ import annotations

from typing import Any

from .....ops.quantized import packed_linear
from .....tensor import Tensor
from .....tensor.dtypes import qint8
from ... import quantized
from .. import fused as float_fused
from . import dynamic

__all__ = [
    "BNReLU2d", "BNReLU3d", "ConvAdd2d", "ConvAddReLU2d", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d",
    "LinearLeakyReLU", "LinearReLU", "LinearTanh", "dynamic",
]


class ConvReLU1d(quantized.Conv1d):
    """A convolution of quint8 tensors, then ReLU."""

    _RELU = True


class ConvReLU2d(quantized.Conv2d):
    """A convolution of quint8 tensors, then ReLU."""

    _RELU = True


class ConvReLU3d(quantized.Conv3d):
    """A convolution of quint8 tensors, then ReLU."""

    _RELU = True


class ConvAdd2d(quantized.Conv2d):
    """A convolution of quint8 tensors plus another one."""

    def forward(self, input: Any, extra_input: Any) -> Tensor:  # type: ignore[override]
        """The quint8 result of two quint8 tensors."""
        return self._packed_params.convolve_static(
            self._pad(input), self.scale, self.zero_point, self._RELU, extra_input)

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"


class ConvAddReLU2d(ConvAdd2d):
    """A convolution of quint8 tensors plus another one, then ReLU."""

    _RELU = True


class BNReLU2d(quantized.BatchNorm2d):
    """Batch normalization of quantized images, then ReLU."""

    _RELU = True


class BNReLU3d(quantized.BatchNorm3d):
    """Batch normalization of quantized volumes, then ReLU."""

    _RELU = True


class LinearLeakyReLU(quantized.Linear):
    """A linear layer of quint8 tensors, then a leaky ReLU."""

    _FLOAT_MODULE = (float_fused.LinearLeakyReLU,)

    def __init__(
        self, in_features: int, out_features: int, negative_slope: float, bias: bool = True,
        dtype: Any = qint8,
    ) -> None:
        super().__init__(in_features, out_features, bias, dtype)
        self.negative_slope = negative_slope

    def forward(self, x: Any) -> Tensor:
        """The quint8 result of a quint8 tensor."""
        return packed_linear.linear_leaky_relu(
            x, self._packed_params._packed_params, self.scale, self.zero_point,
            self.negative_slope)

    def _get_name(self) -> str:
        return "QuantizedLinearLeakyReLU"

    @classmethod
    def _collect_settings(cls, mod: Any) -> tuple[Any, ...]:
        return (mod[1].negative_slope,)


class LinearTanh(quantized.Linear):
    """A linear layer of quint8 tensors, then tanh."""

    _FLOAT_MODULE = (float_fused.LinearTanh,)

    def forward(self, x: Any) -> Tensor:
        """The quint8 result of a quint8 tensor."""
        return packed_linear.linear_tanh(
            x, self._packed_params._packed_params, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedLinearTanh"


class LinearReLU(quantized.Linear):
    """A linear layer of quint8 tensors, then ReLU."""

    _FLOAT_MODULE = (float_fused.LinearReLU,)

    def forward(self, x: Any) -> Tensor:
        """The quint8 result of a quint8 tensor."""
        return packed_linear.linear_relu(x, self._packed_params._packed_params, self.scale,
                                         self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedLinearReLU"
