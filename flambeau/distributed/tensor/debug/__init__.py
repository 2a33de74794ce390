"""torch.distributed.tensor.debug: counts of the collectives that DTensors start."""

from ....tensor.absent import make_absent_getattr
from .comm_mode import CommDebugMode

__all__ = ["CommDebugMode"]

__getattr__ = make_absent_getattr(__name__, ("visualize_sharding",))
