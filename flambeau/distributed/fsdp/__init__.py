"""torch.distributed.fsdp: models whose parameters are divided among the processes."""

from ...tensor.absent import make_absent_getattr
from .api import (
    BackwardPrefetch, CPUOffload, FullOptimStateDictConfig, FullStateDictConfig,
    LocalOptimStateDictConfig, LocalStateDictConfig, MixedPrecision, OptimStateDictConfig,
    OptimStateKeyType, ShardedOptimStateDictConfig, ShardedStateDictConfig, ShardingStrategy,
    StateDictConfig, StateDictSettings, StateDictType,
)
from ._fully_shard import (
    CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, OffloadPolicy, UnshardHandle, fully_shard,
    register_fsdp_forward_method,
)
from .flat_layout import FlatParameter
from .fully_sharded_data_parallel import FullyShardedDataParallel

__all__ = [
    "BackwardPrefetch", "CPUOffload", "CPUOffloadPolicy", "FSDPModule", "FlatParameter",
    "FullOptimStateDictConfig", "FullStateDictConfig", "FullyShardedDataParallel",
    "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision", "MixedPrecisionPolicy",
    "OffloadPolicy", "OptimStateDictConfig", "OptimStateKeyType", "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig", "StateDictSettings",
    "StateDictType", "UnshardHandle", "fully_shard", "register_fsdp_forward_method",
]

__getattr__ = make_absent_getattr(__name__, ("DataParallelMeshDims", "share_comm_ctx"))
