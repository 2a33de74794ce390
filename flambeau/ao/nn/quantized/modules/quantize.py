"""The ways into and out of the quantized part of a model."""

from __future__ import annotations

from typing import Any

from ..... import ops
from .....nn.module import Module
from .....tensor import Tensor


class Quantize(Module):
    """Quantizes a float32 tensor with a given scale and zero point.

    >>> torch.ao.nn.quantized.Quantize(0.5, 0, torch.quint8)(torch.ones(1)).int_repr()
    tensor([2], dtype=torch.uint8)
    """

    scale: Tensor
    zero_point: Tensor

    def __init__(self, scale: Any, zero_point: Any, dtype: Any, factory_kwargs: Any = None) -> None:
        super().__init__()
        self.register_buffer("scale", ops.tensor([float(scale)]))
        self.register_buffer("zero_point", ops.tensor([int(zero_point)]))
        self.dtype = dtype

    def forward(self, X: Tensor) -> Tensor:
        """The quantized tensor."""
        result: Tensor = ops.quantize_per_tensor(
            X, float(self.scale), int(self.zero_point), self.dtype)
        return result

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> Quantize:
        """From a QuantStub that was observed."""
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        return Quantize(scale.float(), zero_point.long(), mod.activation_post_process.dtype)

    def extra_repr(self) -> str:
        """Its parameters."""
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(Module):
    """Gives the float32 numbers of a quantized tensor."""

    def forward(self, Xq: Any) -> Tensor:
        """The float32 tensor."""
        result: Tensor = Xq.dequantize()
        return result

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> DeQuantize:
        """From a DeQuantStub."""
        return DeQuantize()
