"""torch.ao.nn.intrinsic.quantized.dynamic.modules: each layer in a file of its own."""

from .linear_relu import LinearReLU

__all__ = ["LinearReLU"]
