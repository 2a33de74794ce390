"""Relations between partitions: who needs whose values, levels, and which devices they fit on."""

from __future__ import annotations

from ..node import Node
from .partitioner_utils import Device, Partition, get_extra_size_of


def reset_partition_device(partitions: list[Partition]) -> None:
    """Take all partitions off their devices."""
    for partition in partitions:
        partition.logical_device_ids = []


def combine_two_partitions(
    partition_0: Partition, partition_1: Partition, partitions: list[Partition]
) -> None:
    """Replace two partitions of the list by one at its end, and renumber all."""
    combined = Partition(len(partitions))
    combined.nodes = partition_0.nodes | partition_1.nodes
    combined.recalculate_mem_size()
    partitions.append(combined)
    partitions.remove(partition_0)
    partitions.remove(partition_1)
    reorganize_partitions(partitions)


def set_parents_and_children(partitions: list[Partition]) -> None:
    """Find for each partition those that use its values, and those whose values it uses."""
    homes: dict[Node, list[Partition]] = {}
    for partition in partitions:
        partition.children, partition.parents = set(), set()
        for node in partition.nodes:
            homes.setdefault(node, []).append(partition)
    for partition in partitions:
        for node in partition.nodes:
            for user in node.users:
                for other in homes.get(user, ()):
                    if other is not partition and node not in other.nodes:
                        partition.children.add(other)
                        other.parents.add(partition)


def reorganize_partitions(partitions: list[Partition]) -> None:
    """Number the partitions by their place, and find their parents and children."""
    for i, partition in enumerate(partitions):
        partition.partition_id = i
    set_parents_and_children(partitions)


def get_bfs_level_partition(partitions: list[Partition]) -> None:
    """Set each partition's level: the most steps from a partition without parents."""
    level = 0
    current = {p for p in partitions if not p.parents}
    while current and level <= len(partitions):  # a circle of partitions would never end
        for partition in current:
            partition.bfs_level = level
        current = set().union(*(p.children for p in current))
        level += 1


def get_node_to_partition_mapping(partitions: list[Partition]) -> dict[Node, int]:
    """Return the number of each node's partition."""
    return {node: p.partition_id for p in partitions for node in p.nodes}


def get_device_partition_stats(
    partitions: list[Partition], devices: list[Device]
) -> tuple[dict[Device, list[Partition]], dict[Device, int], list[Partition]]:
    """Return the partitions of each device, its free bytes, and the partitions without a device."""
    by_id = {device.logical_id: device for device in devices}
    placed: dict[Device, list[Partition]] = {device: [] for device in devices}
    free_bytes = {device: device.available_mem_bytes for device in devices}
    for partition in partitions:
        for logical_id in partition.logical_device_ids:
            placed[by_id[logical_id]].append(partition)
            free_bytes[by_id[logical_id]] -= partition.used_mem_bytes
    return placed, free_bytes, [p for p in partitions if not p.logical_device_ids]


def get_device_to_partitions_mapping(partitions: list[Partition], devices: list[Device]) -> bool:
    """Give each partition without a device the fullest one that has room.

    Return whether all have one.
    """
    placed, free_bytes, waiting = get_device_partition_stats(partitions, devices)
    for partition in waiting:
        for device in sorted(free_bytes, key=free_bytes.__getitem__):
            needed = _count_added_bytes(partition, placed[device])
            if needed < free_bytes[device]:
                placed[device].append(partition)
                partition.logical_device_ids.append(device.logical_id)
                free_bytes[device] -= needed
                break
        else:
            return False
    return True


def _count_added_bytes(partition: Partition, targets: list[Partition]) -> int:
    """Return the bytes that a partition needs on a device that has others."""
    if not any(p.nodes for p in targets):
        return partition.used_mem_bytes
    nodes = partition.nodes.union(*(p.nodes for p in targets))
    return sum(get_extra_size_of(node, nodes) for node in partition.nodes)


def check_dependency(partition: Partition) -> bool:
    """Tell whether a partition depends on itself through others."""
    seen: set[Partition] = set()
    pending = list(partition.children)
    while pending:
        child = pending.pop()
        if child is partition:
            return True
        if child not in seen:
            seen.add(child)
            pending += child.children
    return False
