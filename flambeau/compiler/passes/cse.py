"""share_common: one node for what is computed twice from the same values."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.graph import Graph, Node, Op, rebuilt, same


def share_common(graph: Graph) -> Graph:
    """The graph in which nodes that are equal by operation, inputs and attributes are one."""
    known: dict[Any, Node] = {}

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node:
        made = same(node, inputs)
        if node.op in (Op.INPUT, Op.CALL, Op.ARRAY):
            return made
        attributes = tuple((k, _key(v)) for k, v in sorted(node.attributes.items()))
        key = (node.op, tuple(map(id, inputs)), node.shape, node.type, attributes)
        return known.setdefault(key, made)

    return rebuilt(graph, rule)


def _key(value: Any) -> Any:
    """A hashable stand-in that tells 0.0 from -0.0, 1 from 1.0 and keeps NaN equal to itself."""
    if isinstance(value, float | np.floating):
        return (type(value).__name__, float(value).hex())
    if isinstance(value, list | tuple):
        return tuple(map(_key, value))
    return (type(value).__name__, value)
