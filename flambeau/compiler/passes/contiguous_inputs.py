"""packed_sources: sources with gaps are copied where they are reshaped as strides cannot say.

So a batch that is a slice of a longer one, `tokens[:, :-1]`, can be taken as rows. What stands for
the copy is a slice of everything, which schedule keeps in memory; what reads the source otherwise
goes on reading it where it lies.
"""

from __future__ import annotations

from ..ir.graph import Graph, Node, Op, rebuilt, same
from ..ir.strided_view import Window, gaps


def packed_sources(graph: Graph) -> Graph:
    """The graph with copies between such sources and what reshapes them, and between what is
    written to them and reshaped."""
    known = gaps(graph)
    written = {id(node.inputs[0]) for node in graph.nodes() if _is_unsaid(node, known)}

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node:
        if _is_unsaid(node, known) and inputs[0].op is Op.INPUT:
            return same(node, (_copy(inputs[0]),))
        return same(node, inputs)

    if not written:
        return graph
    made = rebuilt(graph, rule)
    writes = [
        (slot, _copy(new) if id(old) in written and old.op is not Op.INPUT else new)
        for (slot, new), (_, old) in zip(made.writes, graph.writes, strict=True)
    ]
    return Graph(made.sources, made.inputs, made.outputs, writes)


def _is_unsaid(node: Node, known: dict[int, Window]) -> bool:
    """Whether a node reshapes something with gaps in a way that strides cannot say."""
    if node.op is not Op.RESHAPE:
        return False
    window = known.get(id(node.inputs[0]))
    return window is not None and window.reshaped(node.shape) is None


def _copy(node: Node) -> Node:
    """A slice of everything (graph.window would give the node itself)."""
    everything = {"starts": (0,) * len(node.shape), "steps": (1,) * len(node.shape)}
    return Node(Op.SLICE, (node,), node.shape, node.type, everything)
