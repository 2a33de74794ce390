"""Partitions of recommendation models: embeddings fill devices, the rest runs on all of them."""

from __future__ import annotations

from ...nn.module import Module
from ..graph_module import GraphModule
from ..node import Node
from .partition_graph import combine_two_partitions, get_bfs_level_partition
from .partitioner_utils import Device, Partition, get_extra_size_of


def merge_smallest(
    group: list[Partition], partitions: list[Partition], available_bytes: int
) -> bool:
    """Merge a group's smallest partition with the largest near one that leaves room.

    Returns False if there is none.
    """
    get_bfs_level_partition(partitions)
    smallest, *others = sorted(group, key=lambda partition: partition.used_mem_bytes)
    for other in reversed(others):
        nodes = smallest.nodes | other.nodes
        needed = sum(get_extra_size_of(node, nodes) for node in nodes)
        if abs(smallest.bfs_level - other.bfs_level) <= 1 and needed <= available_bytes:
            combine_two_partitions(other, smallest, partitions)
            group.remove(smallest)
            group.remove(other)
            group.append(partitions[-1])
            return True
    return False


def place_embeddings(
    embeddings: list[Partition], others: list[Partition], devices: list[Device],
    available_bytes: int,
) -> None:
    """Give each partition of embeddings a device, and the other partitions all of these.

    Raises RuntimeError if there are too few devices, or one has too little memory.
    """
    if len(embeddings) > len(devices):
        raise RuntimeError(f"Need {len(embeddings)} devices, but only {len(devices)} provided")
    other_bytes = sum(partition.used_mem_bytes for partition in others)
    used = []
    for partition, device in zip(embeddings, devices, strict=False):
        if other_bytes + partition.used_mem_bytes > available_bytes:
            raise RuntimeError(f"partition_{partition.partition_id}(embedding partition) and "
                               "non embedding partitions can not fit into one device")
        partition.logical_device_ids = [device.logical_id]
        used.append(device.logical_id)
    for partition in others:
        partition.logical_device_ids = used


def is_embedding(gm: GraphModule, node: Node) -> bool:
    """Tell whether a node calls an embedding, or a module that contains one."""
    if node.op != "call_module":
        return False
    module: Module = gm
    for name in str(node.target).split("."):
        if not hasattr(module, name):
            raise RuntimeError(f"Module {module} has no attribute {name}")
        module = getattr(module, name)
        if "Embedding" in str(module):
            return True
    return False
