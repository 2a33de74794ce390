"""CommDebugMode: counts the collectives that operators on DTensors start."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ....ops.core.aten import Packet
from ....ops.registration.custom_operators import get_namespace
from ..redistribute import OBSERVERS

__all__ = ["CommDebugMode"]


class CommDebugMode:
    """Context that counts collectives by the names of PyTorch's functional collectives.

    >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> from flambeau.distributed.tensor import Shard, ones
    >>> from flambeau.distributed.tensor.debug import CommDebugMode
    >>> mesh = torch.distributed.init_device_mesh("cpu", (1,))
    >>> with CommDebugMode() as counts:
    ...     _ = ones(4, 2, device_mesh=mesh, placements=[Shard(0)]).sum().full_tensor()
    >>> counts.get_total_counts()
    1
    >>> torch.distributed.destroy_process_group()
    """

    def __init__(self) -> None:
        self.comm_counts: Counter[Any] = Counter()

    def __enter__(self) -> CommDebugMode:
        self.comm_counts.clear()
        OBSERVERS.append(self._count)
        return self

    def __exit__(self, *exception: object) -> None:
        OBSERVERS.remove(self._count)

    def _count(self, name: str) -> None:
        self.comm_counts[_find_packet(name)] += 1

    def get_comm_counts(self) -> dict[Any, int]:
        """Return the counts by collective, such as `torch.ops.c10d_functional.all_reduce`."""
        return self.comm_counts

    def get_total_counts(self) -> int:
        """Return the number of collectives."""
        return sum(self.comm_counts.values())


def _find_packet(name: str) -> Packet:
    packet: Packet = get_namespace("c10d_functional")._packets[name]
    return packet


get_namespace("c10d_functional")._packets.update({
    name: Packet(name, "c10d_functional")
    for name in ("all_gather_into_tensor", "all_reduce", "all_to_all_single",
                 "reduce_scatter_tensor")
})
