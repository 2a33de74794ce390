"""torch.ao.nn: modules whose weights are quantized."""

from ...tensor.absent import lacking
from . import quantized

__all__ = ["quantized"]

__getattr__ = lacking(__name__)
