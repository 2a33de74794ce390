"""LinearReLU: a dynamically quantized linear layer and its ReLU."""

from __future__ import annotations

from typing import Any

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

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The layer of a float linear layer fused with a ReLU that has a `qconfig`."""
        mod[0].qconfig = mod.qconfig
        return super().from_float(mod[0])

    def _get_name(self) -> str:
        return "DynamicQuantizedLinearReLU"
