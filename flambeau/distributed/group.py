"""Process groups: creation, queries, destruction."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ..native.foundation.user_frames import warn
from .engines.engine import Engine, LoneEngine
from .process_group import (
    NON_MEMBER, Backend, ProcessGroup, default_pg_timeout, rank_in, require_member, world,
)
from .rendezvous import meet
from .stores import PrefixStore, Store

__all__ = [
    "Backend", "GroupMember", "ProcessGroup", "default_pg_timeout", "destroy_process_group",
    "get_backend", "get_backend_config", "get_default_backend_for_device", "get_global_rank",
    "get_group_rank", "get_node_local_rank", "get_pg_count", "get_process_group_ranks", "get_rank",
    "get_world_size", "group", "init_process_group", "is_available", "is_backend_available",
    "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available",
    "is_torchelastic_launched", "is_ucc_available", "is_xccl_available", "new_group",
    "new_subgroups", "new_subgroups_by_enumeration",
]

_WITH_GPU = ("nccl", "ucc", "xccl")
_BACKENDS = ("gloo", "mpi")


class _Members(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The group of all processes, or None before `init_process_group`."""
        return world.group

    @WORLD.setter
    def WORLD(cls, value: ProcessGroup | None) -> None:
        world.group = value


class group(metaclass=_Members):
    """`group.WORLD`: the group of all processes."""


class GroupMember(metaclass=_Members):
    """`GroupMember.WORLD`: the group of all processes. `NON_GROUP_MEMBER` marks nonmembers."""

    NON_GROUP_MEMBER = NON_MEMBER


def _rank_not_in_group(group: Any) -> bool:
    """Return whether `new_group` gave this process no group; libraries ask for it."""
    return group is not None and group == GroupMember.NON_GROUP_MEMBER


def _get_process_group_name(pg: ProcessGroup) -> str:
    return pg.group_name


def is_available() -> bool:
    """Return True.

    >>> torch.distributed.is_available(), torch.distributed.is_initialized()
    (True, False)
    """
    return True


def is_initialized() -> bool:
    """Return whether `init_process_group` was called."""
    return world.group is not None


def is_gloo_available() -> bool:
    """Return True. Groups of several processes need the extra flambeau[gloo]."""
    return True


def is_mpi_available() -> bool:
    """Return whether MPI can be used: mpi4py (extra flambeau[mpi]) is installed, and mpiexec
    started the processes or there is only one."""
    if not _is_under_mpiexec() and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        return False
    return importlib.util.find_spec("mpi4py") is not None


def _is_under_mpiexec() -> bool:
    return "PMI_RANK" in os.environ or "OMPI_COMM_WORLD_RANK" in os.environ


def is_nccl_available() -> bool:
    """Return False: flambeau has no GPU support."""
    return False


is_ucc_available = is_xccl_available = is_nccl_available


def is_backend_available(backend: str) -> bool:
    """Return whether a backend can be used: gloo always, mpi if available."""
    name = backend.lower()
    return name == "gloo" or (name == "mpi" and is_mpi_available())


def is_torchelastic_launched() -> bool:
    """Return whether torchrun started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def get_default_backend_for_device(device: Any) -> str:
    """Return the default backend for a device: gloo for the CPU."""
    name = str(device).partition(":")[0]
    if name != "cpu":
        raise ValueError(f"Default backend not registered for device : {name}")
    return "gloo"


def _choose_backend(backend: str | None) -> str:
    """Return the backend for the CPU. By default MPI if mpiexec started the process, else Gloo."""
    if backend is None or Backend(backend) == Backend.UNDEFINED:
        by_mpiexec = _is_under_mpiexec() and "RANK" not in os.environ
        return "mpi" if by_mpiexec and is_mpi_available() else "gloo"
    name: str = Backend(backend)
    parts = dict(part.split(":", 1) for part in name.split(",") if ":" in part)
    name = parts.get("cpu", name)
    if name in _WITH_GPU:
        failure = RuntimeError(f"Distributed package doesn't have {name.upper()} built in")
        failure.add_note("It connects GPUs. flambeau computes on the CPU: use backend='gloo', or "
                         "'mpi' under mpiexec.")
        raise failure
    if name not in _BACKENDS:
        raise ValueError(f"Invalid backend: '{backend}'; flambeau has gloo and mpi")
    return name


def init_process_group(
    backend: str | None = None, init_method: str | None = None,
    timeout: timedelta | None = None, world_size: int = -1, rank: int = -1,
    store: Store | None = None, group_name: str = "", pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Create the group of all processes. Every process must call it.

    Rank and size come from the arguments, from `init_method` ("tcp://host:port", "file:///path"),
    or from RANK and WORLD_SIZE in the environment along with MASTER_ADDR and MASTER_PORT (torchrun
    sets them); with "mpi" mpiexec sets them. `timeout` (30 min) bounds this call and each
    collective. Raises ValueError if called twice, DistNetworkError or DistStoreError if the other
    processes do not join, RuntimeError for a backend that needs a GPU.

    >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> torch.distributed.get_rank(), torch.distributed.get_world_size()
    (0, 1)
    >>> torch.distributed.destroy_process_group()
    """
    if world.group is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(
            f"Expected timeout argument to be of type datetime.timedelta, got {timeout}"
        )
    name, limit = _choose_backend(backend), timeout or default_pg_timeout
    engine: Engine
    if name == "mpi":
        engine, store = _create_mpi_world(limit), None
    else:
        engine, store = _create_gloo_world(init_method, store, rank, world_size, limit)
    result = ProcessGroup(engine, range(engine.size), world.next_name(), "default_pg", store, limit)
    world.store, world.group, world.groups = store, result, [result]


def _create_mpi_world(limit: timedelta) -> Engine:
    from .engines.mpi import MPIEngine, load_mpi

    all_processes = load_mpi().COMM_WORLD
    world_size = int(os.environ.get("WORLD_SIZE", all_processes.size))
    if all_processes.size != world_size:
        raise RuntimeError(
            f"backend='mpi' finds {all_processes.size} process(es) and WORLD_SIZE={world_size}: "
            "start the program with `mpiexec -n N`, or use backend='gloo'"
        )
    return MPIEngine(all_processes.Dup(), limit.total_seconds())


def _create_gloo_world(
    init_method: str | None, store: Store | None, rank: int, world_size: int, limit: timedelta
) -> tuple[Engine, Store]:
    """Return the engine of all processes and the store where they met."""
    if store is None:
        store, rank, world_size = meet(init_method or "env://", rank, world_size, limit)
    else:
        assert init_method is None, "Cannot specify both init_method and store."
        assert world_size > 0, "world_size must be positive if using store"
        assert rank >= 0, "rank must be non-negative if using store"
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} is not in a group of {world_size}")
    store.set_timeout(limit)
    store = PrefixStore("default_pg", store)
    return _create_gloo_engine(store, rank, world_size, limit), store


def _create_gloo_engine(store: Store, rank: int, size: int, limit: timedelta) -> Engine:
    if size == 1:
        return LoneEngine()
    from .engines.gloo import GlooEngine

    return GlooEngine(PrefixStore("gloo", store), rank, size, limit.total_seconds())


def destroy_process_group(group: Any = None) -> None:
    """Destroy a group, or all groups if given none or the default group."""
    if group == NON_MEMBER:
        return
    pg = require_member(group)
    ended = list(world.groups) if pg is world.group else [pg]
    for each in reversed(ended):
        each._communicator.close()
        world.groups.remove(each)
    if pg is world.group:
        world.group = world.store = None
        world.groups_created = 0


def get_rank(group: Any = None) -> int:
    """Return this process's rank in the group, or -1 if it is not a member."""
    if group == NON_MEMBER:
        require_member()
        return -1
    return require_member(group).rank()


def get_world_size(group: Any = None) -> int:
    """Return the number of processes in the group, or -1 if this process is not a member."""
    if group == NON_MEMBER:
        require_member()
        return -1
    return require_member(group).size()


def get_backend(group: Any = None) -> Backend:
    """Return the group's backend: "gloo" or "mpi". ValueError before `init_process_group`."""
    return Backend(require_member(group).name())


def get_backend_config(group: Any = None) -> str:
    """Return the group's backends by device: "cpu:gloo"."""
    return f"cpu:{get_backend(group)}"


def get_pg_count() -> int:
    """Return the number of groups that this process is in."""
    return len(world.groups)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return LOCAL_RANK from the environment: this process's rank on its machine."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
        "`get_node_local_rank` to work, assuming you are not running in a multi-device context "
        "and want the code to run locally instead."
    )


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """Return the global ranks of the group's processes."""
    return list(require_member(group)._ranks)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """Return the global rank of a group member."""
    pg = require_member(group)
    if not 0 <= group_rank < pg.size():
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return pg._ranks[group_rank]


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """Return the rank within the group of a global rank."""
    return rank_in(require_member(group), global_rank)


def _check_ranks(ranks: Sequence[int] | None, size: int) -> list[int]:
    chosen = sorted(range(size) if ranks is None else ranks)
    if len(chosen) > size:
        raise ValueError("the new group's world size should be less or equal to the world size "
                         "set by init_process_group")
    if any(not 0 <= rank < size for rank in chosen):
        raise ValueError("The new group's rank should be within the world_size set by "
                         "init_process_group")
    if len(set(chosen)) < len(chosen):
        raise ValueError("the new group's ranks should be different from each other")
    return chosen


def new_group(
    ranks: Sequence[int] | None = None, timeout: timedelta | None = None,
    backend: str | None = None, pg_options: Any = None, use_local_synchronization: bool = False,
    group_desc: str | None = None, device_id: Any = None,
) -> Any:
    """Create a group of some processes (None: all). Every process must call it, in the same order.

    With `use_local_synchronization` only the members call it. Nonmembers get
    `GroupMember.NON_GROUP_MEMBER`.
    """
    everybody = require_member()
    chosen = _check_ranks(ranks, everybody.size())
    if use_local_synchronization:
        text = ",".join(map(str, chosen)) + f" {group_desc} {len(world.groups)}"
        name = hashlib.sha1(text.encode()).hexdigest()[:16]
    else:
        name = world.next_name()
    if everybody.rank() not in chosen:
        return NON_MEMBER
    limit = timeout or everybody._timeout
    engine, store = _create_engine(everybody, chosen, name, backend, limit)
    result = ProcessGroup(engine, chosen, name, group_desc or "undefined", store, limit)
    world.groups.append(result)
    return result


def _create_engine(
    everybody: ProcessGroup, ranks: list[int], name: str, backend: str | None, limit: timedelta
) -> tuple[Engine, Store | None]:
    """Return the engine of a new group, created by its members, and its part of the store."""
    kind = everybody.name() if backend is None else _choose_backend(backend)
    if len(ranks) == 1:
        return LoneEngine(kind), everybody._store
    if kind != everybody.name():
        raise NotImplementedError(
            f"torch.distributed.new_group with backend={kind!r} in a world of "
            f"{everybody.name()!r} is not implemented in flambeau"
        )
    if kind == "mpi":
        from .engines.mpi import MPIEngine

        assert isinstance(everybody._engine, MPIEngine)
        number = int(hashlib.sha1(name.encode()).hexdigest()[:4], 16)
        engine = everybody._engine.subgroup(ranks, number)
        engine.timeout_s = limit.total_seconds()
        return engine, None
    assert everybody._store is not None
    store = PrefixStore(f"group {name}", everybody._store)
    return _create_gloo_engine(store, ranks.index(everybody.rank()), len(ranks), limit), store


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]], timeout: timedelta | None = None,
    backend: str | None = None, pg_options: Any = None, group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Create disjoint groups of the given ranks; return this process's group and all groups."""
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    ranks = [rank for part in ranks_per_subgroup_list for rank in part]
    if len(set(ranks)) < len(ranks):
        raise ValueError("Rank has appeared in more than one subgroup")
    containing, result = None, []
    for part in ranks_per_subgroup_list:
        result.append(new_group(part, timeout, backend, pg_options, group_desc=group_desc))
        if get_rank() in part:
            containing = result[-1]
    return containing, result


def new_subgroups(
    group_size: int | None = None, group: ProcessGroup | None = None,
    timeout: timedelta | None = None, backend: str | None = None, pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Create groups of `group_size` consecutive processes; return this process's and all of them.

    Raises ValueError if `group_size` does not divide the number of processes.
    """
    everybody = require_member(group)
    world_size = everybody.size()
    if group_size is None:
        warn("group_size is None: each machine's processes become a group")
        group_size = int(os.environ.get("LOCAL_WORLD_SIZE", world_size))
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    if world_size < group_size:
        raise ValueError(
            f"The arg 'group_size' ({group_size}) must not exceed the world size ({world_size})"
        )
    if world_size % group_size:
        raise ValueError(f"The world size ({world_size}) must be divisible by '{group_size=}'")
    ranks = everybody._ranks
    parts = [ranks[start : start + group_size] for start in range(0, world_size, group_size)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)
