"""Copy a strided source if strides cannot express a reshape of it.

A batch that is a slice of a longer one, `tokens[:, :-1]`, has gaps between its rows, so it cannot
be read as one axis of tokens. The copy is a SLICE of the whole source, which scheduling stores;
other readers keep reading the source in place. Cost: one pass over the source.
"""

from __future__ import annotations

from ..ir.graph import Graph, Node, Op, rewrite, with_inputs
from ..ir.strided_view import StridedView, find_strided_values


def copy_strided_inputs(graph: Graph) -> Graph:
    """Insert copies between strided sources and the reshapes (or reshaped writes) of them."""
    known = find_strided_values(graph)
    written = {id(node.inputs[0]) for node in graph.nodes() if _needs_copy(node, known)}

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node:
        if _needs_copy(node, known) and inputs[0].op is Op.INPUT:
            return with_inputs(node, (_copy(inputs[0]),))
        return with_inputs(node, inputs)

    if not written:
        return graph
    result = rewrite(graph, rule)
    writes = [
        (slot, _copy(new) if id(old) in written and old.op is not Op.INPUT else new)
        for (slot, new), (_, old) in zip(result.writes, graph.writes, strict=True)
    ]
    return Graph(result.sources, result.inputs, result.outputs, writes)


def _needs_copy(node: Node, known: dict[int, StridedView]) -> bool:
    """Whether a node reshapes a strided value into a shape that strides cannot express."""
    if node.op is not Op.RESHAPE:
        return False
    window = known.get(id(node.inputs[0]))
    return window is not None and window.reshape(node.shape) is None


def _copy(node: Node) -> Node:
    """Build a slice of the whole node, which `strided_slice` would simplify to the node itself."""
    window = {"starts": (0,) * len(node.shape), "steps": (1,) * len(node.shape)}
    return Node(Op.SLICE, (node,), node.shape, node.type, window)
