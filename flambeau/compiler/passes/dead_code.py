"""drop_dead: forgets what no output needs, and writes that put back what was there."""

from __future__ import annotations

from ..ir.graph import Graph, Op


def drop_dead(graph: Graph) -> Graph:
    """The graph without writes of a source's own value; unreachable nodes go by themselves."""
    writes = [(slot, node) for slot, node in graph.writes
              if not (node.op is Op.INPUT and node.slot == slot)]  # fmt: skip
    return Graph(graph.sources, graph.inputs, graph.outputs, writes)
