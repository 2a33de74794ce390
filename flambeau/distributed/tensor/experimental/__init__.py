"""torch.distributed.tensor.experimental: implicit replication, functions of local parts."""

from ....tensor.absent import make_absent_getattr
from ..dispatch import implicit_replication
from .local_functions import local_map as local_map

__all__ = ["implicit_replication", "local_map"]

__getattr__ = make_absent_getattr(__name__, ("context_parallel", "register_sharding"))
