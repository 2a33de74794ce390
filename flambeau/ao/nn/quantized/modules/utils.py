"""torch.ao.nn.quantized.modules.utils: PyTorch's module of functions that quantize weights."""

from .weights import quantize_weight as _quantize_weight

__all__ = ["_quantize_weight"]
