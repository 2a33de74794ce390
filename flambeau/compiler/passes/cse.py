"""Common subexpression elimination: compute equal expressions once."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.graph import Graph, Node, Op, rewrite, with_inputs


def eliminate_common_subexpressions(graph: Graph) -> Graph:
    """Merge nodes with the same operation, inputs, shape, type and attributes.

    Inputs, calls and constant arrays are never merged.
    """
    known: dict[Any, Node] = {}

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node:
        node = with_inputs(node, inputs)
        if node.op in (Op.INPUT, Op.CALL, Op.ARRAY):
            return node
        attributes = tuple((k, _make_key(v)) for k, v in sorted(node.attributes.items()))
        key = (node.op, tuple(map(id, inputs)), node.shape, node.type, attributes)
        return known.setdefault(key, node)

    return rewrite(graph, rule)


def _make_key(value: Any) -> Any:
    """A hashable key that distinguishes 0.0 from -0.0 and 1 from 1.0; NaN equals itself."""
    if isinstance(value, float | np.floating):
        return (type(value).__name__, float(value).hex())
    if isinstance(value, list | tuple):
        return tuple(map(_make_key, value))
    return (type(value).__name__, value)
