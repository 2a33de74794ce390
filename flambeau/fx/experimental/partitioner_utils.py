"""Partitions of a graph, devices, and how long partitions take to run."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from ..node import Node

__all__ = ["Device", "NodeLatency", "Partition", "PartitionLatency", "PartitionMode",
           "PartitionerConfig", "get_comm_latency_between", "get_extra_size_of",
           "get_latency_of_one_partition", "get_latency_of_partitioned_graph",
           "get_partition_to_latency_mapping"]

SOURCES = {"placeholder", "get_attr"}


class Partition:
    """Nodes that run on one device, with the memory that they need.

    Arguments:
        partition_id: its number.
    """

    def __init__(self, partition_id: int) -> None:
        self.nodes: set[Node] = set()
        self.partition_id = partition_id
        self.parents: set[Partition] = set()
        self.children: set[Partition] = set()
        self.bfs_level = -1  # steps from a partition without parents
        self.used_mem_bytes = 0
        self.logical_device_ids: list[int] = []

    def __str__(self) -> str:
        return str(self.partition_id)

    def recalculate_mem_size(self) -> None:
        """Set `used_mem_bytes` from the nodes."""
        self.used_mem_bytes = sum(get_extra_size_of(node, self.nodes) for node in self.nodes)

    def add_node(self, node: Node) -> None:
        """Add a node, and the placeholders and attributes that it reads."""
        self.nodes.update(n for n in node.all_input_nodes if n.op in SOURCES)
        self.nodes.add(node)
        self.recalculate_mem_size()

    def remove_node(self, node: Node) -> None:
        """Remove a node, and the placeholders and attributes that no other node reads."""
        if node not in self.nodes:
            return
        self.nodes.remove(node)
        self.nodes -= {n for n in node.all_input_nodes
                       if n.op in SOURCES and self.nodes.isdisjoint(n.users)}
        self.recalculate_mem_size()


class Device(NamedTuple):
    """A device with its memory in bytes, and the number by which results name it."""

    name: str
    available_mem_bytes: int
    logical_id: int


class NodeLatency(NamedTuple):
    """Seconds that a node takes for memory traffic and for arithmetic; the larger one counts."""

    mem_latency_sec: float
    computer_latency_sec: float


class PartitionLatency(NamedTuple):
    """Seconds on a partition's critical path: memory traffic, arithmetic, the larger of both."""

    mem_latency_sec: float
    computer_latency_sec: float
    overall_latency_sec: float


class PartitionMode(Enum):
    """How a Partitioner divides a graph."""

    size_based = 0
    sparse_nn = 1
    cost_aware = 2
    kl_based = 3
    aot_based = 4


class PartitionerConfig(NamedTuple):
    """What a Partitioner works with.

    `transfer_rate_bytes_per_sec` and `node_to_latency_mapping` are for cost_aware and kl_based,
    the two other mappings for aot_based. `saturate_host` replicates the partitions on idle devices.
    """

    devices: list[Device]
    mode: PartitionMode = PartitionMode.size_based
    transfer_rate_bytes_per_sec: float = 0.0
    node_to_latency_mapping: dict[Node, NodeLatency] = {}  # noqa: RUF012
    node_to_partition_mapping: dict[Node, int] = {}  # noqa: RUF012
    partition_to_logical_device_mapping: dict[int, list[int]] = {}  # noqa: RUF012
    saturate_host: bool = False


def get_extra_size_of(node: Node, nodes: set[Node]) -> int:
    """Return the bytes that a node adds to a set of nodes: its own, and its missing arguments'."""
    missing = (n for n in node.all_input_nodes if n not in nodes)
    size: int = size_of(node).total_size + sum(size_of(n).output_size for n in missing)
    return size


def size_of(node: Node) -> Any:
    """Return the bytes that `get_size_of_all_nodes` noted for a node."""
    size = getattr(node, "size_bytes", None)
    if not size:
        raise RuntimeError("node has no size_bytes attr")
    return size


def get_latency_of_one_partition(
    partition: Partition, node_to_latency_mapping: dict[Node, NodeLatency]
) -> PartitionLatency:
    """Return the latency of a partition's critical path."""
    latest: dict[Node, PartitionLatency] = {}
    calls = [node for node in _sort_by_graph(partition.nodes) if node.op not in SOURCES]
    for node in calls:
        above = [latest[n] for n in node.all_input_nodes if n in latest]
        start = max(above, key=lambda latency: latency.overall_latency_sec,
                    default=PartitionLatency(0.0, 0.0, 0.0))
        memory_s, arithmetic_s = node_to_latency_mapping[node]
        latest[node] = PartitionLatency(start[0] + memory_s, start[1] + arithmetic_s,
                                        start[2] + max(memory_s, arithmetic_s))
    return max(latest.values(), key=lambda latency: latency.overall_latency_sec,
               default=PartitionLatency(0.0, 0.0, 0.0))


def _sort_by_graph(nodes: set[Node]) -> list[Node]:
    graph = next(iter(nodes)).graph if nodes else None
    return [node for node in graph.nodes if node in nodes] if graph else []


def get_partition_to_latency_mapping(
    partitions: list[Partition], node_to_latency_mapping: dict[Node, NodeLatency]
) -> dict[Partition, PartitionLatency]:
    """Return the latency of each partition."""
    return {p: get_latency_of_one_partition(p, node_to_latency_mapping) for p in partitions}


def get_comm_latency_between(
    parent_partition: Partition, child_partition: Partition, transfer_rate_bytes_per_sec: float
) -> float:
    """Return the seconds to send what one partition needs of another; 0 on the same device."""
    devices = parent_partition.logical_device_ids
    if devices and devices == child_partition.logical_device_ids:
        return 0.0
    sent = {n for node in child_partition.nodes for n in node.all_input_nodes
            if n in parent_partition.nodes}
    sizes = (getattr(node, "size_bytes", None) for node in sent)
    total_bytes: int = sum(size.output_size for size in sizes if size is not None)
    return total_bytes / transfer_rate_bytes_per_sec


def get_latency_of_partitioned_graph(
    partitions: list[Partition], partition_to_latency_mapping: dict[Partition, PartitionLatency],
    transfer_rate_bytes_per_sec: float,
) -> float:
    """Return the seconds of the critical path through the partitions, transfers included."""
    remaining_s: dict[Partition, float] = {}

    def remaining(partition: Partition) -> float:
        if partition not in remaining_s:
            own_s = partition_to_latency_mapping[partition].overall_latency_sec
            remaining_s[partition] = own_s + max(
                (get_comm_latency_between(partition, child, transfer_rate_bytes_per_sec)
                 + remaining(child) for child in partition.children), default=0.0)
        return remaining_s[partition]

    return max((remaining(p) for p in partitions if not p.parents), default=0.0)
