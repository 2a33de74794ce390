"""torch.distributed: communication between processes over Gloo or MPI.

Remote calls and pipelining are not implemented.
"""

import os
import sys
from importlib import import_module
from typing import Any

from ..tensor.absent import make_absent_getattr
from . import absent, algorithms, nn
from .collectives import (
    _all_gather_base, _reduce_scatter_base, all_gather, all_gather_into_tensor, all_gather_single,
    all_reduce, all_reduce_coalesced, all_to_all, all_to_all_single, barrier, broadcast, gather,
    monitored_barrier, reduce, reduce_scatter, reduce_scatter_single, reduce_scatter_tensor,
    scatter,
)
from .data_parallel import GradBucket
from .device_mesh import DeviceMesh, init_device_mesh
from .elastic.multiprocessing import errors as _worker_errors
from .errors import (
    DistBackendError, DistError, DistNetworkError, DistStoreError, QueueEmptyError,
)
from .group import (
    Backend, GroupMember, ProcessGroup, _get_process_group_name, _rank_not_in_group,
    default_pg_timeout, destroy_process_group, get_backend, get_backend_config,
    get_default_backend_for_device, get_global_rank, get_group_rank, get_node_local_rank,
    get_pg_count, get_process_group_ranks, get_rank, get_world_size, group, init_process_group,
    is_available, is_backend_available, is_gloo_available, is_initialized, is_mpi_available,
    is_nccl_available, is_torchelastic_launched, is_ucc_available, is_xccl_available, new_group,
    new_subgroups, new_subgroups_by_enumeration,
)
from .objects import (
    all_gather_object, broadcast_object_list, gather_object, recv_object_list, scatter_object_list,
    send_object_list,
)
from .point_to_point import P2POp, batch_isend_irecv, irecv, isend, recv, send
from .process_group import require_member as _get_default_group
from .reduce_op import ReduceOp, reduce_op
from .rendezvous import register_rendezvous_handler, rendezvous
from .stores import FileStore, HashStore, PrefixStore, Store, TCPStore
from .work import Work

__all__ = [
    "Backend", "DeviceMesh", "DistBackendError", "DistError", "DistNetworkError", "DistStoreError",
    "FileStore", "GradBucket", "GroupMember", "HashStore", "P2POp", "PrefixStore", "ProcessGroup",
    "QueueEmptyError", "ReduceOp", "Store", "TCPStore", "Work", "all_gather",
    "all_gather_into_tensor", "all_gather_object", "all_gather_single", "all_reduce",
    "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv",
    "broadcast", "broadcast_object_list", "default_pg_timeout", "destroy_process_group", "gather",
    "gather_object", "get_backend", "get_backend_config", "get_default_backend_for_device",
    "get_global_rank", "get_group_rank", "get_node_local_rank", "get_pg_count",
    "get_process_group_ranks", "get_rank", "get_world_size", "group", "init_device_mesh",
    "init_process_group", "irecv", "is_available", "is_backend_available", "is_gloo_available",
    "is_initialized", "is_mpi_available", "is_nccl_available", "is_torchelastic_launched",
    "is_ucc_available", "is_xccl_available", "isend", "monitored_barrier", "new_group",
    "new_subgroups", "new_subgroups_by_enumeration", "recv", "recv_object_list", "reduce",
    "reduce_op", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor",
    "register_rendezvous_handler", "rendezvous", "scatter", "scatter_object_list", "send",
    "send_object_list",
]

globals().update(absent.create_placeholders(__name__))
if "TORCHELASTIC_ERROR_FILE" in os.environ:  # a torchrun worker: report errors
    _worker_errors.record_uncaught()
distributed_c10d = sys.modules[__name__ + ".distributed_c10d"] = sys.modules[__name__]
constants = sys.modules[__name__ + ".constants"] = sys.modules[__name__]
default_pg_nccl_timeout = None  # without NCCL

_lacking = make_absent_getattr(__name__)


def __getattr__(name: str) -> Any:
    if name in ("fsdp", "tensor", "_tensor"):  # programs ask for them by attribute
        return import_module(f"{__name__}.{name}")
    return _lacking(name)
