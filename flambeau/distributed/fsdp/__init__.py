"""torch.distributed.fsdp: models whose parameters are divided among the processes."""

from ...tensor.absent import lacking
from .api import (
    BackwardPrefetch, CPUOffload, FullOptimStateDictConfig, FullStateDictConfig,
    LocalOptimStateDictConfig, LocalStateDictConfig, MixedPrecision, OptimStateDictConfig,
    OptimStateKeyType, ShardedOptimStateDictConfig, ShardedStateDictConfig, ShardingStrategy,
    StateDictConfig, StateDictSettings, StateDictType,
)
from .flat_layout import FlatParameter
from .fully_sharded_data_parallel import FullyShardedDataParallel

__all__ = [
    "BackwardPrefetch", "CPUOffload", "FlatParameter", "FullOptimStateDictConfig",
    "FullStateDictConfig", "FullyShardedDataParallel", "LocalOptimStateDictConfig",
    "LocalStateDictConfig", "MixedPrecision", "OptimStateDictConfig", "OptimStateKeyType",
    "ShardedOptimStateDictConfig", "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig",
    "StateDictSettings", "StateDictType",
]

__getattr__ = lacking(__name__, (
    "CPUOffloadPolicy", "DataParallelMeshDims", "FSDPModule", "MixedPrecisionPolicy",
    "OffloadPolicy", "UnshardHandle", "fully_shard", "register_fsdp_forward_method",
    "share_comm_ctx",
))
