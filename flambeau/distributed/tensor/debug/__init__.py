"""torch.distributed.tensor.debug: counts of the collectives that DTensors start."""

from ....tensor.absent import lacking
from .comm_mode import CommDebugMode

__all__ = ["CommDebugMode"]

__getattr__ = lacking(__name__, ("visualize_sharding",))
