"""Search for partitions with the shortest critical path: by merging, and by swapping nodes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

from ..node import Node
from .partition_graph import (
    check_dependency,
    combine_two_partitions,
    get_bfs_level_partition,
    get_device_to_partitions_mapping,
    reorganize_partitions,
    reset_partition_device,
)
from .partitioner_utils import (
    SOURCES,
    Device,
    NodeLatency,
    Partition,
    get_latency_of_partitioned_graph,
    get_partition_to_latency_mapping,
)

Cost = Callable[[list[Partition]], float]


def cost_function(rate_bytes_per_s: float, latencies: dict[Node, NodeLatency]) -> Cost:
    """Return a function from partitions to the seconds of their critical path."""
    def cost_s(partitions: list[Partition]) -> float:
        by_partition = get_partition_to_latency_mapping(partitions, latencies)
        return get_latency_of_partitioned_graph(partitions, by_partition, rate_bytes_per_s)

    return cost_s


def place_and_estimate_s(partitions: list[Partition], devices: list[Device], cost: Cost) -> float:
    """Reassign partitions to devices and return the cost: infinite if they do not fit."""
    reset_partition_device(partitions)
    return cost(partitions) if get_device_to_partitions_mapping(partitions, devices) else math.inf


def merge_cheapest_pair(partitions: list[Partition], devices: list[Device], cost: Cost) -> bool:
    """Merge the two partitions whose merger costs least; False if every merger costs more.

    Partitions may merge if one uses the other or their levels differ by at most one.
    """
    best_s, best = cost(partitions), None
    for i, j in itertools.combinations(range(len(partitions)), 2):
        first, second = partitions[i], partitions[j]
        near = abs(first.bfs_level - second.bfs_level) <= 1
        if near or first in second.parents or first in second.children:
            trial = list(partitions)
            combine_two_partitions(first, second, trial)
            cost_s = math.inf
            if not check_dependency(trial[-1]):
                cost_s = place_and_estimate_s(trial, devices, cost)
            if cost_s <= best_s and cost_s != math.inf:
                best_s, best = cost_s, (first, second)
            reorganize_partitions(partitions)
    if best:
        combine_two_partitions(*best, partitions)
    get_bfs_level_partition(partitions)
    reset_partition_device(partitions)
    get_device_to_partitions_mapping(partitions, devices)
    return best is not None


def exchange(
    leaving: Node | None, coming: Node | None, home: Partition, other: Partition
) -> None:
    """Move `leaving` from its home to the other partition, and `coming` back; None: no node."""
    for node, source, target in ((leaving, home, other), (coming, other, home)):
        if node is not None:
            source.remove_node(node)
            target.add_node(node)


def improve_by_exchanges(
    calls: list[Node], partitions: list[Partition], devices: list[Device], cost: Cost
) -> None:
    """Move each node to another partition, or swap it with one there, where that costs least."""
    best_s = cost(partitions)
    for node in calls:
        home = next(p for p in partitions if node in p.nodes)
        best: tuple[Node | None, Partition] | None = None
        for other in partitions:
            if other is home:
                continue
            partners = sorted((n for n in other.nodes if n.op not in SOURCES), key=calls.index)
            for partner in (*partners, None):
                cost_s = _estimate_exchange_s(node, partner, home, other, partitions, devices, cost)
                if cost_s < best_s:
                    best_s, best = cost_s, (partner, other)
        if best:
            exchange(node, best[0], home, best[1])
            reorganize_partitions(partitions)
            place_and_estimate_s(partitions, devices, cost)


def _estimate_exchange_s(
    node: Node, partner: Node | None, home: Partition, other: Partition,
    partitions: list[Partition], devices: list[Device], cost: Cost,
) -> float:
    """Return the cost with two nodes exchanged; infinite if partitions then form a circle."""
    before = [set(home.nodes), set(other.nodes)]
    exchange(node, partner, home, other)
    reorganize_partitions(partitions)
    cost_s = math.inf
    if not check_dependency(home) and not check_dependency(other):
        cost_s = place_and_estimate_s(partitions, devices, cost)
    for partition, nodes in zip((home, other), before, strict=True):
        partition.nodes = nodes
        partition.recalculate_mem_size()
    reorganize_partitions(partitions)
    reset_partition_device(partitions)
    get_device_to_partitions_mapping(partitions, devices)
    return cost_s
