"""CapabilityBasedPartitioner: find the largest parts of a graph that a backend can run."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ...graph_module import GraphModule
from ...node import Node
from ...qualified_names import qualified_name
from ..operator_support import OperatorSupportBase
from ..utils.fuser_utils import fuse_by_partitions

__all__ = ["CapabilityBasedPartitioner", "Partition"]

_GETITEM = "_operator.getitem"


class Partition:
    """Nodes to fuse into one module, with their distance from the graph's end if known."""

    def __init__(
        self, id: int | None = None, nodes: Iterable[Node] | None = None,
        node_orders: Iterable[int] | None = None,
    ) -> None:
        self.id = id
        chosen = list(nodes or ())
        orders: list[Any] = [None] * len(chosen) if node_orders is None else list(node_orders)
        if len(orders) != len(chosen):
            raise AssertionError("nodes and node_orders must have the same length")
        self.nodes: dict[Node, int | None] = dict(zip(chosen, orders, strict=True))

    def __repr__(self) -> str:
        return str(self.nodes)

    def add_node(self, node: Node, node_order: int | None = None) -> None:
        """Add a node."""
        self.nodes[node] = node_order

    def remove_node(self, node: Node) -> None:
        """Remove a node."""
        del self.nodes[node]

    def size(self) -> int:
        """Return the number of nodes."""
        return len(self.nodes)


class _Merging:
    """Merges partitions as long as no value leaves one and comes back."""

    def __init__(self) -> None:
        self.of: dict[Node, Partition] = {}
        self.all: list[Partition] = []  # the one reaching closest to the graph's end first
        self._ids = itertools.count()

    def add(self, node: Node, order: int) -> Partition:
        """Create a partition of this node alone."""
        partition = Partition(next(self._ids), [node], [order])
        self.of[node] = partition
        self.all.append(partition)
        return partition

    def merge(self, first: Partition, second: Partition) -> Partition:
        """Return the merged partition, or `first` if merging would create a cycle."""
        if self._would_depend_on_itself(first, second):
            return first
        large, small = (second, first) if first.size() < second.size() else (first, second)
        large.nodes.update(small.nodes)
        self.of.update(dict.fromkeys(small.nodes, large))
        place = min(self.all.index(large), self.all.index(small))
        self.all[place] = large
        self.all = [p for i, p in enumerate(self.all)
                    if p is not small and (p is not large or i == place)]
        return large

    def _would_depend_on_itself(self, first: Partition, second: Partition) -> bool:
        """Return whether a path leaves the two and comes back; other partitions act as units."""
        inside = (first, second)
        seen: set[Any] = set()
        stack = [user for p in inside for node in p.nodes for user in node.users
                 if self.of.get(user) not in inside]
        while stack:
            node = stack.pop()
            partition = self.of.get(node)
            if partition in inside:
                return True
            step = partition or node
            if step not in seen:
                seen.add(step)
                for member in partition.nodes if partition else (node,):
                    stack += member.users
        return False


class CapabilityBasedPartitioner:
    """Splits a graph into the largest parts whose nodes `operator_support` accepts.

    >>> from flambeau.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    >>> from flambeau.fx.passes.operator_support import create_op_support
    >>> gm = torch.fx.symbolic_trace(lambda x: torch.relu(x + 1) * 2 + 3)
    >>> arithmetic = create_op_support(lambda modules, node: node.name[:3] in ("add", "mul"))
    >>> parts = CapabilityBasedPartitioner(gm, arithmetic).propose_partitions()
    >>> [[node.name for node in part.nodes] for part in parts]
    [['mul', 'add_1']]

    Cost: for each node one search through the graph per partition that there is.
    """

    def __init__(
        self, graph_module: GraphModule, operator_support: OperatorSupportBase,
        allows_single_node_partition: bool = False, non_compute_ops: Sequence[str] | None = None,
        allowed_single_node_partition_ops: Sequence[str] | None = None,
        skip_horizontal_fusion: bool = False,
    ) -> None:
        self.graph_module, self.operator_support = graph_module, operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = non_compute_ops or []
        self.allowed_single_node_partition_ops = allowed_single_node_partition_ops or []
        self.skip_horizontal_fusion = skip_horizontal_fusion

    def propose_partitions(self) -> list[Partition]:
        """Return the partitions, ordered from the end of the graph to its start."""
        modules = dict(self.graph_module.named_modules())
        merging, orders = _Merging(), dict[Node, int]()
        for order, node in enumerate(reversed(self.graph_module.graph.nodes)):
            orders[node] = order
            is_new = self.operator_support.is_node_supported(modules, node)
            fresh = [merging.add(node, order)] if is_new else []
            if self.skip_horizontal_fusion:
                users = [merging.of[user] for user in node.users if user in merging.of]
                others = list(dict.fromkeys(users)) if is_new else []
            else:
                others = [p for p in merging.all if p not in fresh]
            candidates = [*fresh, *others]
            for other in candidates[1:]:
                candidates[0] = merging.merge(candidates[0], other)
        for partition in merging.all:
            nodes = sorted(partition.nodes, key=orders.__getitem__, reverse=True)
            partition.nodes = {node: orders[node] for node in nodes}
        self._move_items(merging)
        chosen = [p for p in merging.all if p.size() > 0]
        if self.allows_single_node_partition:
            return chosen
        return [p for p in chosen if self._is_worthwhile(p)]

    def _move_items(self, merging: _Merging) -> None:
        """Move getitem nodes, also nested ones, to the partition that computes their tuple."""
        for node in self.graph_module.graph.nodes:
            if not all(self._is_call_of(user, {_GETITEM}) for user in node.users):
                continue
            home = merging.of.get(node)
            for user in node.users:
                before = merging.of.get(user)
                if before is home:
                    continue
                if before is not None:
                    before.remove_node(user)
                    del merging.of[user]
                if home is not None:
                    home.add_node(user)
                    merging.of[user] = home

    def _is_worthwhile(self, partition: Partition) -> bool:
        """Return whether a partition computes enough to be worth a module."""
        free = {"torch.ops.aten.view", _GETITEM, *self.non_compute_ops}
        alone = set(self.allowed_single_node_partition_ops)
        functions = [n for n in partition.nodes if n.op == "call_function"]
        names = [qualified_name(node.target) for node in functions]
        return sum((name not in free) + (name in alone) for name in names) > 1

    @staticmethod
    def _is_call_of(node: Node, names: set[str]) -> bool:
        return node.op == "call_function" and qualified_name(node.target) in names

    def fuse_partitions(self, partitions: list[Partition], prefix: str = "fused_") -> GraphModule:
        """Fuse each partition into a module."""
        return fuse_by_partitions(self.graph_module, [p.nodes for p in partitions], prefix=prefix)

    def remove_bookend_non_compute_ops(self, partitions: list[Partition]) -> None:
        """Remove from each partition the non-compute ops at its inputs and outputs."""
        for partition in partitions:
            inside = set(partition.nodes)
            for node in self._find_bookends(inside):
                partition.nodes.pop(node, None)

    def _find_bookends(self, inside: set[Node]) -> Iterator[Node]:
        names = set(self.non_compute_ops)
        for onwards in (False, True):
            edge: set[Node] = set()
            order = reversed(self.graph_module.graph.nodes) if onwards \
                else self.graph_module.graph.nodes
            for node in order:
                if node not in inside or not self._is_call_of(node, names):
                    continue
                neighbors = node.users if onwards else node.all_input_nodes
                if all(n not in inside or n in edge or n.op == "placeholder" for n in neighbors):
                    edge.add(node)
            yield from edge

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        """Propose partitions and fuse them into modules."""
        return self.fuse_partitions(self.propose_partitions(), prefix=prefix)
