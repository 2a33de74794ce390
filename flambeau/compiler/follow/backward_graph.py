"""BackwardGraph: the autograd graph below a root, as later calls recognize it."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...autograd.node import Node
from ...autograd.outputs import Output
from ...autograd.saved.plan import Plan
from ...tensor.tensor import Tensor


class NodeShape(NamedTuple):
    """A node without the values it saved.

    edges: for each one a leaf, None, or the (node index, output index) it points to.
    """

    type: type[Node]
    plan: Plan
    restore: Any
    edges: tuple[Any, ...]


class BackwardGraph:
    """The nodes below a root in breadth-first order, and the leaves they lead to.

    output: the root's output index; -1 if its node has one output.
    """

    def __init__(self, output: int) -> None:
        self.output = output
        self.nodes: list[NodeShape] = []
        self.leaves: list[Tensor] = []

    @staticmethod
    def describe(root: Any, sequence: int) -> BackwardGraph | None:
        """Describe the graph below `root`. Return None if a node has hooks, belongs to a
        user-defined Function, or was recorded before `sequence`."""
        node, output = find_node_and_output(root)
        graph = BackwardGraph(output)
        return graph if isinstance(node, Node) and graph._add_nodes(node, sequence) else None

    def _add_nodes(self, root: Node, sequence: int) -> bool:
        nodes, numbers = [root], {id(root): 0}
        leaves: dict[int, Tensor] = {}
        for node in nodes:
            if node.hooks is not None or node.operator is None or node.sequence < sequence:
                return False
            edges: list[Any] = []
            for edge in node.edges:
                if edge is None or isinstance(edge, Tensor):
                    edges.append(edge)
                    if edge is not None:
                        leaves[id(edge)] = edge
                    continue
                below, output = find_node_and_output(edge)
                if id(below) not in numbers:
                    numbers[id(below)] = len(nodes)
                    nodes.append(below)
                edges.append((numbers[id(below)], output))
            self.nodes.append(NodeShape(node.__class__, node.plan, node.restore, tuple(edges)))
        self.leaves = list(leaves.values())
        return True

    def match(self, root: Any, sequence: int) -> list[Node] | None:
        """Return the nodes below `root` if they form this graph, with the same leaves, else None.
        """
        first, output = find_node_and_output(root)
        if output != self.output:
            return None
        nodes, numbers = [first], {id(first): 0}
        for number, node in enumerate(nodes):
            shape = self.nodes[number]
            if node.__class__ is not shape.type or node.plan is not shape.plan \
                    or node.hooks is not None or node.sequence < sequence \
                    or len(node.edges) != len(shape.edges) or node.restore != shape.restore:
                return None
            for edge, expected in zip(node.edges, shape.edges, strict=True):
                if edge is expected:
                    continue
                if expected.__class__ is not tuple or edge is None or isinstance(edge, Tensor):
                    return None
                below, output = find_node_and_output(edge)
                known = numbers.get(id(below))
                if known is None:
                    known = numbers[id(below)] = len(nodes)
                    if known >= len(self.nodes):
                        return None
                    nodes.append(below)
                if (known, output) != expected:
                    return None
        return nodes if len(nodes) == len(self.nodes) else None


def find_node_and_output(target: Any) -> tuple[Any, int]:
    """Return an edge's node and output index; the index is -1 if the node has one output."""
    return (target.node, target.index) if target.__class__ is Output else (target, -1)
