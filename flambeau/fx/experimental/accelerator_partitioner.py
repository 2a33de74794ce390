"""Partitioner: divide a graph among devices with limited memory."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import NamedTuple

from ...nn.module import Module
from ..graph_module import GraphModule
from ..node import Node
from ..passes.graph_manipulation import get_size_of_all_nodes
from ..passes.split_module import split_module
from .partition_embeddings import is_embedding, merge_smallest, place_embeddings
from .partition_graph import (
    check_dependency,
    combine_two_partitions,
    get_bfs_level_partition,
    get_device_partition_stats,
    get_device_to_partitions_mapping,
    get_node_to_partition_mapping,
    reorganize_partitions,
    reset_partition_device,
    set_parents_and_children,
)
from .partition_search import cost_function, improve_by_exchanges, merge_cheapest_pair
from .partitioner_utils import (
    Device,
    NodeLatency,
    Partition,
    PartitionerConfig,
    PartitionMode,
    get_extra_size_of,
    size_of,
)

__all__ = ["DAG", "DAGNode", "PartitionResult", "Partitioner", "check_dependency",
           "combine_two_partitions", "get_bfs_level_partition", "get_device_partition_stats",
           "get_device_to_partitions_mapping", "get_node_to_partition_mapping",
           "reorganize_partitions", "reset_partition_device", "set_parents_and_children"]

_CALLS = {"call_module", "call_method", "call_function"}


class DAGNode:
    """A submodule's call, the nodes it reads and writes, its devices, and its bytes."""

    def __init__(
        self, submodule_node: Node, input_nodes: list[Node], output_nodes: list[Node],
        logical_device_ids: list[int], size_bytes: int,
    ) -> None:
        self.submodule_node, self.size_bytes = submodule_node, size_bytes
        self.input_nodes, self.output_nodes = input_nodes, output_nodes
        self.logical_device_ids = logical_device_ids

    def __str__(self) -> str:
        return str(self.submodule_node)


class DAG:
    """The submodules' calls in their order."""

    def __init__(self) -> None:
        self.nodes: list[DAGNode] = []

    def create_node(
        self, submodule_node: Node, input_nodes: list[Node], output_nodes: list[Node],
        logical_devices: list[int], size_bytes: int,
    ) -> None:
        """Append a call."""
        self.nodes.append(DAGNode(submodule_node, input_nodes, output_nodes, logical_devices,
                                  size_bytes))


class PartitionResult(NamedTuple):
    """The calls of a divided graph, and the module that makes them."""

    dag: DAG
    module_with_submodules: GraphModule


class Partitioner:
    """Divides a graph module into submodules that fit on devices.

    >>> from flambeau.fx.experimental.accelerator_partitioner import Partitioner
    >>> from flambeau.fx.experimental.partitioner_utils import Device, PartitionerConfig
    >>> from flambeau.fx.passes.graph_manipulation import get_size_of_all_nodes
    >>> net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    >>> gm = torch.fx.symbolic_trace(net)
    >>> get_size_of_all_nodes(gm, [torch.ones(2, 4)])
    >>> config = PartitionerConfig([Device("a", 160, 0), Device("b", 160, 1)])
    >>> result = Partitioner().partition_graph(gm, net, config)
    >>> [node.logical_device_ids for node in result.dag.nodes]
    [[0], [1]]
    """

    def __init__(self) -> None:
        self.partitions: list[Partition] = []
        self.node_to_partition: dict[Node, int] = {}
        self.devices: list[Device] = []

    def partition_graph(
        self, fx_module: GraphModule, torch_module: Module, partitioner_config: PartitionerConfig
    ) -> PartitionResult:
        """Divide `fx_module`, whose nodes know their sizes (`get_size_of_all_nodes`).

        Arguments:
            fx_module: the traced module.
            torch_module: the module that was traced.
            partitioner_config: devices, mode, and what the mode needs.

        Raises RuntimeError if there are no devices or no calls, or too little memory.
        """
        self.graph_module, self.torch_module = fx_module, torch_module
        self.devices = partitioner_config.devices
        if not self.devices:
            raise RuntimeError("No devices")
        get_size_of_all_nodes(fx_module)
        if not any(self._iterate_calls()):
            raise RuntimeError("No Partition since no operations in the module")
        self._divide(partitioner_config)
        if partitioner_config.saturate_host:
            self.saturate_host()
        split = self.do_partition()
        return PartitionResult(self.dump_dag(split), split)

    def _divide(self, config: PartitionerConfig) -> None:
        """Find the partitions, by the mode if the graph does not fit on one device."""
        if config.mode == PartitionMode.aot_based:
            self.aot_based_partition(config.node_to_partition_mapping,
                                     config.partition_to_logical_device_mapping)
            return
        total_bytes = sum(size_of(node).total_size for node in self._values())
        largest = max(self.devices, key=lambda device: device.available_mem_bytes)
        if total_bytes <= largest.available_mem_bytes:
            self.find_single_partition(total_bytes, largest.logical_id)
        elif total_bytes > sum(device.available_mem_bytes for device in self.devices):
            raise RuntimeError("Devices do not have enough memory for the module")
        elif config.mode == PartitionMode.sparse_nn:
            available_bytes = self.devices[0].available_mem_bytes
            if any(device.available_mem_bytes != available_bytes for device in self.devices):
                raise RuntimeError("All devices must have same memory size!")
            self.sparse_nn_partition(available_bytes)
        elif config.mode == PartitionMode.size_based:
            self.size_based_partition()
        else:
            search = self.cost_aware_partition if config.mode == PartitionMode.cost_aware \
                else self.kl_based_partition
            search(config.transfer_rate_bytes_per_sec, config.node_to_latency_mapping)

    def _values(self) -> Iterator[Node]:
        return (node for node in self.graph_module.graph.nodes if node.op != "output")

    def _iterate_calls(self) -> Iterator[Node]:
        return (node for node in self.graph_module.graph.nodes if node.op in _CALLS)

    def create_partition(self) -> Partition:
        """Append an empty partition."""
        self.partitions.append(Partition(len(self.partitions)))
        return self.partitions[-1]

    def create_single_node_partition(self, node: Node) -> None:
        """Append a partition of one node."""
        self.create_partition().add_node(node)

    def find_single_partition(self, total_size_of_graph: int, logical_device_id: int = 0) -> None:
        """Put the whole graph on one device."""
        partition = self.create_partition()
        partition.nodes.update(self._values())
        partition.used_mem_bytes = total_size_of_graph
        partition.logical_device_ids = [logical_device_id]
        self.node_to_partition = get_node_to_partition_mapping(self.partitions)

    def size_based_partition(self) -> None:
        """Fill one device after the other in the graph's order.

        What is left when no device is, becomes partitions of one node, which go where room is.
        """
        used: list[Device] = []
        free_bytes = 0
        partition = self.create_partition()
        for node in self._iterate_calls():
            is_first = partition.used_mem_bytes == 0
            needed = get_extra_size_of(node, partition.nodes)
            if len(self.partitions) > len(self.devices) or (
                not is_first and free_bytes < needed and len(self.partitions) == len(self.devices)
            ):
                self.create_single_node_partition(node)
                continue
            if is_first or free_bytes < needed:
                used.append(device := self._find_device(node, used))
                partition = partition if is_first else self.create_partition()
                needed = get_extra_size_of(node, partition.nodes)
                free_bytes = device.available_mem_bytes
                partition.logical_device_ids.append(device.logical_id)
            partition.add_node(node)
            free_bytes -= needed
        reorganize_partitions(self.partitions)
        self.node_to_partition = get_node_to_partition_mapping(self.partitions)
        if not get_device_to_partitions_mapping(self.partitions, self.devices):
            raise RuntimeError("Cannot Get a Valid Partition to Logical Device Mapping")

    def _find_device(self, node: Node, used: list[Device]) -> Device:
        needed = get_extra_size_of(node, set())
        for device in self.devices:
            if device not in used and device.available_mem_bytes >= needed:
                return device
        raise RuntimeError(f"{node} is too large to fit any device")

    def sparse_nn_partition(self, available_mem_bytes: int) -> None:
        """Separate embeddings from the rest, each in as few partitions as fit on equal devices.

        Each partition of embeddings has a device; the other partitions are on all of these.
        """
        groups: dict[bool, list[Partition]] = {False: [], True: []}  # by: embeddings
        partition, in_embeddings = self.create_partition(), False
        for node in self._iterate_calls():
            changes = is_embedding(self.graph_module, node) != in_embeddings
            full = (get_extra_size_of(node, partition.nodes) + partition.used_mem_bytes
                    > available_mem_bytes)
            if partition.used_mem_bytes and (changes or full):
                groups[in_embeddings].append(partition)
                partition = self.create_partition()
            in_embeddings ^= changes
            if get_extra_size_of(node, partition.nodes) > available_mem_bytes:
                raise RuntimeError(f"{node.target} is too large to fit into a device")
            partition.add_node(node)
        groups[in_embeddings].append(partition)
        set_parents_and_children(self.partitions)
        for group in groups.values():
            while group and merge_smallest(group, self.partitions, available_mem_bytes):
                pass
        place_embeddings(groups[True], groups[False], self.devices, available_mem_bytes)
        self.node_to_partition = get_node_to_partition_mapping(self.partitions)

    def cost_aware_partition(
        self, transfer_rate_bytes_per_sec: float, node_to_latency_mapping: dict[Node, NodeLatency]
    ) -> None:
        """Start from single nodes and merge the pair that makes the critical path shortest."""
        for node in self._iterate_calls():
            self.create_single_node_partition(node)
        set_parents_and_children(self.partitions)
        get_bfs_level_partition(self.partitions)
        cost = cost_function(transfer_rate_bytes_per_sec, node_to_latency_mapping)
        while merge_cheapest_pair(self.partitions, self.devices, cost):
            pass
        reorganize_partitions(self.partitions)
        self.node_to_partition = get_node_to_partition_mapping(self.partitions)

    def kl_based_partition(
        self, transfer_rate_bytes_per_sec: float, node_to_latency_mapping: dict[Node, NodeLatency]
    ) -> None:
        """Start from partitions by size and exchange nodes, as Kernighan and Lin do."""
        self.size_based_partition()
        cost = cost_function(transfer_rate_bytes_per_sec, node_to_latency_mapping)
        improve_by_exchanges(list(self._iterate_calls()), self.partitions, self.devices, cost)
        reorganize_partitions(self.partitions)
        self.node_to_partition = get_node_to_partition_mapping(self.partitions)
        get_device_to_partitions_mapping(self.partitions, self.devices)

    def aot_based_partition(
        self, node_to_partition_mapping: dict[Node, int],
        partition_to_logical_device_mapping: dict[int, list[int]],
    ) -> None:
        """Use the partitions and devices that the caller chose."""
        self.node_to_partition = node_to_partition_mapping
        by_id: dict[int, Partition] = {}
        for node, i in node_to_partition_mapping.items():
            if i not in by_id:
                by_id[i] = Partition(i)
                by_id[i].logical_device_ids = partition_to_logical_device_mapping[i]
                self.partitions.append(by_id[i])
            by_id[i].add_node(node)

    def saturate_host(self) -> None:
        """Replicate all partitions on idle devices, as often as each has a copy's memory."""
        placed, free_bytes, waiting = get_device_partition_stats(self.partitions, self.devices)
        if waiting:
            raise AssertionError("Expect no_device_partitions has 0 device, but get "
                                 f"{len(waiting)}")
        used = [device for device in self.devices if placed[device]]
        idle = [device for device in self.devices if not placed[device]]
        while len(idle) >= len(used):
            copies: dict[Device, Device] = {}
            for original in used:
                needed = original.available_mem_bytes - free_bytes[original]
                candidates = [device for device in idle if device not in copies
                              and device.available_mem_bytes >= needed]
                if not candidates:
                    return
                copies[min(candidates, key=lambda d: d.available_mem_bytes)] = original
            for copy, original in copies.items():
                idle.remove(copy)
                for partition in placed[original]:
                    partition.logical_device_ids.append(copy.logical_id)

    def do_partition(self) -> GraphModule:
        """Return the graph module with a submodule for each partition."""
        return split_module(self.graph_module, self.torch_module,
                            self.node_to_partition.__getitem__)

    def dump_dag(self, module_with_submodules: GraphModule) -> DAG:
        """Return the calls of a module with submodules."""
        dag = DAG()
        for node in module_with_submodules.graph.nodes:
            if node.op not in _CALLS or node.target is operator.getitem:
                continue
            partition = self.partitions[int(node.name.rpartition("_")[2])]
            outputs = list(node.users) if len(node.users) > 1 else [node]
            dag.create_node(node, list(node.all_input_nodes), outputs,
                            partition.logical_device_ids, partition.used_mem_bytes)
        return dag
