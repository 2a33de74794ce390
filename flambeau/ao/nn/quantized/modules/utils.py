"""torch.ao.nn.quantized.modules.utils: PyTorch's name for where weights are quantized."""

from .weights import quantize_weight as _quantize_weight

__all__ = ["_quantize_weight"]
