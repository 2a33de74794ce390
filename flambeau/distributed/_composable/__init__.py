"""torch.distributed._composable: the old name of fully_shard."""

from ...tensor.absent import make_absent_getattr
from ..fsdp._fully_shard import fully_shard

__all__ = ["fully_shard"]

__getattr__ = make_absent_getattr(__name__, ("checkpoint", "contract", "replicate"))
