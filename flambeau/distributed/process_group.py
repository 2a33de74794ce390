"""ProcessGroup: processes that communicate with each other, and the registry of groups."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

from .engines.engine import Engine
from .stores import Store
from .work import Communicator

default_pg_timeout = timedelta(minutes=30)


class Backend(str):
    """The lowercase name of a communication backend."""

    UNDEFINED, GLOO, NCCL, MPI, UCC, XCCL = "undefined", "gloo", "nccl", "mpi", "ucc", "xccl"
    FAKE = "fake"
    backend_list: ClassVar = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    default_device_backend_map: ClassVar = {"cpu": GLOO, "cuda": NCCL, "xpu": XCCL, "mps": GLOO}
    backend_capability: ClassVar = {
        GLOO: ["cpu", "cuda"], NCCL: ["cuda"], XCCL: ["xpu"], UCC: ["cpu", "cuda"],
        MPI: ["cpu", "cuda"], FAKE: ["cpu", "cuda", "hpu", "xpu"],
    }

    def __new__(cls, name: str) -> Backend:
        """Create the name. Raises ValueError if it is not a string."""
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish: {name}")
        return super().__new__(cls, name.lower())


class ProcessGroup:
    """A subset of the processes. `ranks` are their global ranks, in the group's order."""

    def __init__(
        self, engine: Engine, ranks: Sequence[int], group_name: str, group_desc: str = "undefined",
        store: Store | None = None, timeout: timedelta = default_pg_timeout,
    ) -> None:
        self._ranks, self.group_name, self.group_desc = list(ranks), group_name, group_desc
        self._store, self._timeout = store, timeout
        self._engine = engine
        self._communicator = Communicator(engine, f"{engine.name} group {group_name}")
        self._sequence = itertools.count(1)  # numbers the collectives, for reports
        self.bound_device_id = None
        # Whether to compare what the ranks call. Read once, as in PyTorch.
        self.is_detailed = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper() == "DETAIL"

    def rank(self) -> int:
        """Return this process's rank in the group."""
        return self._engine.rank

    def size(self) -> int:
        """Return the number of processes in the group."""
        return self._engine.size

    def name(self) -> str:
        """Return the backend's name."""
        return self._engine.name

    def __reduce__(self) -> Any:
        raise TypeError("a ProcessGroup belongs to its process and cannot be pickled")


class World:
    """The groups of this process, and the store through which it met the others."""

    def __init__(self) -> None:
        self.group: ProcessGroup | None = None
        self.store: Store | None = None
        self.groups: list[ProcessGroup] = []
        self.groups_created = 0  # gives a group the same name on all ranks

    def next_name(self) -> str:
        """Return the name of the next group, the same on all ranks."""
        self.groups_created += 1
        return str(self.groups_created - 1)


world = World()
NON_MEMBER = -100


def require_member(group: Any = None) -> ProcessGroup:
    """Return the group, or the default group for None. Raises ValueError for a nonmember."""
    if world.group is None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group."
        )
    if group is None:
        return world.group
    if group == NON_MEMBER or not isinstance(group, ProcessGroup):
        raise ValueError("Invalid process group specified")
    if group not in world.groups:
        raise ValueError(f"Group {group} is not registered, please create group with "
                         "torch.distributed.new_group API")
    return group


def rank_in(group: ProcessGroup, rank: int | None, group_rank: int | None = None) -> int:
    """Return the rank within a group, given a global rank or a rank in the group."""
    if group_rank is not None:
        if rank is not None:
            raise ValueError("Can't specify both group_rank and global_rank")
        if not 0 <= group_rank < group.size():
            raise ValueError(f"Global rank {group_rank} is not part of group {group}")
        return group_rank
    if rank is None:
        raise ValueError("Must specify global_rank or group_rank")
    if rank not in group._ranks:
        raise ValueError(f"Global rank {rank} is not part of group {group}")
    return group._ranks.index(rank)
