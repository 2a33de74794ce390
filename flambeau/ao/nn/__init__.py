"""torch.ao.nn: modules whose weights are quantized."""

from ...tensor.absent import lacking
from . import intrinsic, qat, quantizable, quantized, weight_only

__all__ = ["intrinsic", "qat", "quantizable", "quantized", "weight_only"]

__getattr__ = lacking(__name__)
