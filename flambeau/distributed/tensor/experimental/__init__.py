"""torch.distributed.tensor.experimental: implicit replication, functions of local parts, context
parallelism."""

from ....tensor.absent import make_absent_getattr
from ..dispatch import implicit_replication
from .context_attention import context_parallel
from .local_functions import local_map as local_map

__all__ = ["context_parallel", "implicit_replication", "local_map"]

__getattr__ = make_absent_getattr(__name__, ("register_sharding",))
