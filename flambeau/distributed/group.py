"""The group of processes that train together: in flambeau it has one member, this process.

So programs written for several run in one, as PyTorch's do with WORLD_SIZE=1. Larger groups raise
NotImplementedError.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

__all__ = [
    "Backend", "GroupMember", "ProcessGroup", "default_pg_timeout", "destroy_process_group",
    "get_backend", "get_global_rank", "get_group_rank", "get_process_group_ranks", "get_rank",
    "get_world_size", "group", "init_process_group", "is_available", "is_backend_available",
    "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available",
    "is_torchelastic_launched", "is_ucc_available", "is_xccl_available", "new_group",
    "new_subgroups",
]  # fmt: skip

default_pg_timeout = timedelta(minutes=30)
_UNKNOWN = ("nccl", "mpi", "ucc", "xccl")


class Backend(str):
    """The name of a way to communicate, in lower case."""

    UNDEFINED, GLOO, NCCL, MPI, UCC, XCCL = "undefined", "gloo", "nccl", "mpi", "ucc", "xccl"

    def __new__(cls, name: str) -> Backend:
        """ValueError for what is no string."""
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish: {name}")
        return super().__new__(cls, name.lower())


class ProcessGroup:
    """A group of one process: rank 0 of 1."""

    def rank(self) -> int:
        """0."""
        return 0

    def size(self) -> int:
        """1."""
        return 1

    def name(self) -> str:
        """The backend's name."""
        return "gloo"


class _Members(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The group of all processes; None before `init_process_group`."""
        return _state.world


class group(metaclass=_Members):
    """`group.WORLD`: the group of all processes."""


class GroupMember(metaclass=_Members):
    """`GroupMember.WORLD`: the group of all processes."""

    NON_GROUP_MEMBER = -100


class _State:
    """What `init_process_group` made."""

    def __init__(self) -> None:
        self.world: ProcessGroup | None = None


_state = _State()


def is_available() -> bool:
    """True: groups of one process are there.

    >>> torch.distributed.is_available(), torch.distributed.is_initialized()
    (True, False)
    """
    return True


def is_initialized() -> bool:
    """Whether `init_process_group` was called."""
    return _state.world is not None


def is_backend_available(backend: str) -> bool:
    """Whether a backend is there: gloo alone."""
    return backend.lower() == "gloo"


def is_gloo_available() -> bool:
    """True."""
    return True


def is_nccl_available() -> bool:
    """False: there is no GPU."""
    return False


is_mpi_available = is_ucc_available = is_xccl_available = is_nccl_available


def is_torchelastic_launched() -> bool:
    """Whether torchrun started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def _from_environment(name: str) -> int:
    if name not in os.environ:
        raise ValueError(
            "Error initializing torch.distributed using env:// rendezvous: environment variable "
            f"{name} expected, but not set"
        )
    return int(os.environ[name])


def init_process_group(
    backend: str | None = None, init_method: str | None = None,
    timeout: timedelta | None = None, world_size: int = -1, rank: int = -1, store: Any = None,
    group_name: str = "", pg_options: Any = None, device_id: Any = None,
) -> None:  # fmt: skip
    """Makes the group of all processes, which has one member.

    Size and rank are arguments, or RANK and WORLD_SIZE in the environment (where torchrun puts
    them). NotImplementedError for more than one process; RuntimeError for a backend that needs a
    GPU; ValueError when it is called twice.

    >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> torch.distributed.get_rank(), torch.distributed.get_world_size()
    (0, 1)
    >>> torch.distributed.destroy_process_group()
    """
    if _state.world is not None:
        raise ValueError("trying to initialize the default process group twice!")
    name = Backend(backend or "gloo").removeprefix("cpu:").split(",")[0]
    if name in _UNKNOWN:
        raise RuntimeError(f"Distributed package doesn't have {name.upper()} built in")
    if name != "gloo":
        raise ValueError(f"Invalid backend: '{backend}'; flambeau has gloo, for one process")
    if rank < 0 and store is None:
        rank = _from_environment("RANK")
    if world_size < 0:
        world_size = _from_environment("WORLD_SIZE")
    if world_size != 1:
        raise NotImplementedError(
            f"torch.distributed.init_process_group with world_size={world_size} is not implemented "
            "in flambeau: it trains in one process, on all of its cores"
        )
    if rank != 0:
        raise ValueError(f"rank {rank} is not in a group of {world_size}")
    _state.world = ProcessGroup()


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Ends a group; without one, all of them."""
    if group is None or group is _state.world:
        _member()
        _state.world = None


def _member(group: ProcessGroup | None = None) -> ProcessGroup:
    """The group, or that of all; ValueError where there is none."""
    if _state.world is None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group."
        )
    return _state.world if group is None else group


def get_rank(group: ProcessGroup | None = None) -> int:
    """This process's number in the group: 0. ValueError before `init_process_group`."""
    return _member(group).rank()


def get_world_size(group: ProcessGroup | None = None) -> int:
    """How many processes are in the group: 1. ValueError before `init_process_group`."""
    return _member(group).size()


def get_backend(group: ProcessGroup | None = None) -> Backend:
    """The group's backend: gloo. ValueError before `init_process_group`."""
    return Backend(_member(group).name())


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """The numbers of the group's processes: [0]."""
    _member(group)
    return [0]


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The number among all processes of a member of the group."""
    _check_rank(group_rank)
    return group_rank


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The number within the group of one of all processes."""
    _check_rank(global_rank)
    return global_rank


def _check_rank(rank: int) -> None:
    """ValueError for a process that is not in the group."""
    _member()
    if rank != 0:
        raise ValueError(f"rank {rank} is not part of a group of one process")


def new_group(
    ranks: list[int] | None = None, timeout: Any = None, backend: str | None = None,
    pg_options: Any = None, use_local_synchronization: bool = False,
    group_desc: str | None = None, device_id: Any = None,
) -> ProcessGroup:  # fmt: skip
    """A group of some of the processes, of which there is one."""
    for rank in ranks or ():
        _check_rank(rank)
    _member()
    return ProcessGroup()


def new_subgroups(
    group_size: int | None = None, group: ProcessGroup | None = None, **options: Any
) -> tuple[ProcessGroup, list[ProcessGroup]]:
    """Groups of so many processes each: this one's, and all of them. ValueError beyond 1."""
    if group_size is not None and group_size > get_world_size(group):
        raise ValueError(f"The arg 'group_size' ({group_size}) must not exceed the world size (1)")
    made = new_group()
    return made, [made]
