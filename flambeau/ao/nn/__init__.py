"""torch.ao.nn: modules whose weights are quantized."""

from ...tensor.absent import make_absent_getattr
from . import intrinsic, qat, quantizable, quantized, weight_only

__all__ = ["intrinsic", "qat", "quantizable", "quantized", "weight_only"]

__getattr__ = make_absent_getattr(__name__)
