"""LinearReLU: a dynamically quantized linear layer and its ReLU."""

from __future__ import annotations

from .......ops.quantized import packed_linear
from .......tensor import Tensor
from .......tensor.dtypes import float16
from .....quantized import dynamic

__all__ = ["LinearReLU"]


class LinearReLU(dynamic.Linear):
    """A linear layer of float32 tensors in 8-bit integers, then ReLU."""

    def forward(self, x: Tensor) -> Tensor:
        """The float32 result."""
        packed = self._packed_params
        if packed.dtype is float16:
            y: Tensor = packed_linear.linear_relu_dynamic_fp16(x, packed._packed_params)
        else:
            y = packed_linear.linear_relu_dynamic(x, packed._packed_params, True)
        return y.to(x.dtype)

    def _get_name(self) -> str:
        return "DynamicQuantizedLinearReLU"
