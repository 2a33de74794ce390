"""torch.ao.nn.intrinsic.quantized.dynamic: dynamically quantized layers with their ReLU."""

from . import modules
from .modules import LinearReLU

__all__ = ["LinearReLU", "modules"]
