"""Dead code elimination: drop writes that store a source's own value back into it.

Unreachable nodes need no pass: a graph contains only what its roots reach.
"""

from __future__ import annotations

from ..ir.graph import Graph, Op


def eliminate_dead_code(graph: Graph) -> Graph:
    """Drop every write whose value is the unchanged input of the same source."""
    writes = [(slot, node) for slot, node in graph.writes
              if not (node.op is Op.INPUT and node.slot == slot)]
    return Graph(graph.sources, graph.inputs, graph.outputs, writes)
