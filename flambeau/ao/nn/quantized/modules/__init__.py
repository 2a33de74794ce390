"""The modules of torch.ao.nn.quantized."""

from .linear import Linear, LinearPackedParams
from .quantize import DeQuantize, Quantize

__all__ = ["DeQuantize", "Linear", "LinearPackedParams", "Quantize"]
