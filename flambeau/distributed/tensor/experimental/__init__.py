"""torch.distributed.tensor.experimental: implicit replication of plain tensors."""

from ....tensor.absent import make_absent_getattr
from ..dispatch import implicit_replication

__all__ = ["implicit_replication"]

__getattr__ = make_absent_getattr(__name__, ("context_parallel", "local_map", "register_sharding"))
