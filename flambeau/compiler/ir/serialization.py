"""Graphs as bytes: stored with a program so that a later process can recompile its graph."""

from __future__ import annotations

import pickle
import zlib

from ...native.target.compile_costs import MAX_CACHED_GRAPH_BYTES
from .graph import Graph, Node, Source


def serialize_graph(graph: Graph) -> bytes:
    """Serialize a graph without its sources; return b"" if it is too large or cannot be pickled."""
    nodes = graph.nodes()
    nodes += [node for node in graph.inputs if node not in set(nodes)]
    number = {node: i for i, node in enumerate(nodes)}
    rows = [
        (n.op, [number[operand] for operand in n.inputs], n.shape, n.type, n.attributes, n.origin)
        for n in nodes
    ]
    ends = [[number[node] for node in graph.inputs], [number[node] for node in graph.outputs],
            [(slot, number[node]) for slot, node in graph.writes]]
    try:
        data = pickle.dumps((rows, ends), protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError):
        return b""
    return zlib.compress(data, 1) if len(data) <= MAX_CACHED_GRAPH_BYTES else b""


def deserialize_graph(data: bytes, sources: list[Source]) -> Graph:
    """Rebuild a graph. Unpickling runs code: `data` must come from this user's cache."""
    rows, (inputs, outputs, writes) = pickle.loads(zlib.decompress(data))
    nodes: list[Node] = []
    for op, operands, shape, type, attributes, origin in rows:
        nodes.append(Node(op, tuple([nodes[i] for i in operands]), shape, type, attributes, origin))
    return Graph(sources, [nodes[i] for i in inputs], [nodes[i] for i in outputs],
                 [(slot, nodes[i]) for slot, i in writes])
