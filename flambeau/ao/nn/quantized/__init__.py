"""torch.ao.nn.quantized: modules that compute in integers."""

from ....tensor.absent import lacking
from . import dynamic
from .modules import DeQuantize, Linear, Quantize

__all__ = ["DeQuantize", "Linear", "Quantize", "dynamic"]

__getattr__ = lacking(__name__)
