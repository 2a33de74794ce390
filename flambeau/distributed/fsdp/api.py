"""Options of FullyShardedDataParallel, under PyTorch's names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from ...nn.modules.batchnorm import _BatchNorm

__all__ = [
    "BackwardPrefetch", "CPUOffload", "FullOptimStateDictConfig", "FullStateDictConfig",
    "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision", "OptimStateDictConfig",
    "OptimStateKeyType", "ShardedOptimStateDictConfig", "ShardedStateDictConfig",
    "ShardingStrategy", "StateDictConfig", "StateDictSettings", "StateDictType",
]


class ShardingStrategy(Enum):
    """What each process stores a part of.

    `FULL_SHARD`: parameters, gradients and optimizer state; parameters are gathered before each
    forward and backward and freed after it. `SHARD_GRAD_OP`: the same, but parameters stay gathered
    from forward to backward. `NO_SHARD`: nothing, as in DistributedDataParallel. The `HYBRID`
    strategies shard within a group and replicate across groups.
    """

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When backward starts to gather the parameters that it needs next: before (`BACKWARD_PRE`) or
    after (`BACKWARD_POST`) the gradients of the current ones are computed."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


@dataclass
class MixedPrecision:
    """The dtypes of computation, of gradient reduction and of buffers; None leaves them alone.

    Parameters stay in their own dtype between steps and in checkpoints.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type] = (_BatchNorm,)


@dataclass
class CPUOffload:
    """Accepted without effect: parameters are on the CPU anyway."""

    offload_params: bool = False


class StateDictType(Enum):
    """What `state_dict()` returns: whole parameters, each process's part of each parameter as a
    DTensor, or the flat parameter's local shard."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


class OptimStateKeyType(Enum):
    """The keys of an optimizer state: parameter names or numbers."""

    PARAM_NAME = auto()
    PARAM_ID = auto()


@dataclass
class StateDictConfig:
    """Base class of the configurations of `state_dict()`."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """`rank0_only`: processes other than rank 0 get an empty dictionary."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """The configuration of `LOCAL_STATE_DICT`, which has no options."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """The configuration of `SHARDED_STATE_DICT`, whose values are always DTensors here."""

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """Base class of the configurations of `optim_state_dict()`."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """`rank0_only`: processes other than rank 0 get an empty dictionary."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """The configuration that goes with `LOCAL_STATE_DICT`."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """The configuration that goes with `SHARDED_STATE_DICT`."""

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """A module's choice of state dict, from `FullyShardedDataParallel.get_state_dict_type`."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig
