"""torch.distributed with groups of one process: programs for several run in one.

More than one process is not there yet, nor are stores, remote calls and sharded models.
"""

import sys

from ..tensor.absent import lacking
from . import absent, nn
from .collectives import (
    ReduceOp, Work, all_gather, all_gather_into_tensor, all_gather_object, all_reduce,
    all_to_all, all_to_all_single, barrier, broadcast, broadcast_object_list, gather,
    gather_object, irecv, isend, monitored_barrier, recv, reduce, reduce_scatter,
    reduce_scatter_tensor, scatter, scatter_object_list, send,
)  # fmt: skip
from .group import (
    Backend, GroupMember, ProcessGroup, default_pg_timeout, destroy_process_group, get_backend,
    get_global_rank, get_group_rank, get_process_group_ranks, get_rank, get_world_size, group,
    init_process_group, is_available, is_backend_available, is_gloo_available, is_initialized,
    is_mpi_available, is_nccl_available, is_torchelastic_launched, is_ucc_available,
    is_xccl_available, new_group, new_subgroups,
)  # fmt: skip

__all__ = [
    "Backend", "GroupMember", "ProcessGroup", "ReduceOp", "Work", "all_gather",
    "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all",
    "all_to_all_single", "barrier", "broadcast", "broadcast_object_list", "default_pg_timeout",
    "destroy_process_group", "gather", "gather_object", "get_backend", "get_global_rank",
    "get_group_rank", "get_process_group_ranks", "get_rank", "get_world_size", "group",
    "init_process_group", "irecv", "is_available", "is_backend_available", "is_gloo_available",
    "is_initialized", "is_mpi_available", "is_nccl_available", "is_torchelastic_launched",
    "is_ucc_available", "is_xccl_available", "isend", "monitored_barrier", "new_group",
    "new_subgroups", "recv", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter",
    "scatter_object_list", "send",
]  # fmt: skip

_NAMES = (
    "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "FileStore",
    "HashStore", "P2POp", "PrefixStore", "Store", "TCPStore", "batch_isend_irecv",
    "DeviceMesh", "GradBucket", "init_device_mesh", "_get_default_group",
)  # fmt: skip

globals().update(absent.settle(__name__))
distributed_c10d = sys.modules[__name__ + ".distributed_c10d"] = sys.modules[__name__]
constants = sys.modules[__name__ + ".constants"] = sys.modules[__name__]

__getattr__ = lacking(__name__, _NAMES)
