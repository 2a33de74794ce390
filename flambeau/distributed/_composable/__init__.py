"""torch.distributed._composable: the old name of fully_shard."""

from ...tensor.absent import lacking
from ..fsdp._fully_shard import fully_shard

__all__ = ["fully_shard"]

__getattr__ = lacking(__name__, ("checkpoint", "contract", "replicate"))
