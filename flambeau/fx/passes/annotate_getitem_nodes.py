"""Give the items of annotated sequences their types."""

from __future__ import annotations

import operator
import typing
from typing import Any

from ...tensor.tensor import Tensor
from ..graph import Graph

__all__ = ["annotate_getitem_nodes"]


def annotate_getitem_nodes(graph: Graph) -> None:
    """Set `type` of each getitem node from its sequence's: a tuple, a list or a named tuple.

    Arguments:
        graph: the graph, changed in place. Items of sequences without a type stay as they are.

    >>> from flambeau.fx.passes.annotate_getitem_nodes import annotate_getitem_nodes
    >>> gm = torch.fx.symbolic_trace(lambda x: x[0] + 1)
    >>> source, item, *_ = gm.graph.nodes
    >>> source.type = list[int]
    >>> annotate_getitem_nodes(gm.graph)
    >>> item.type
    <class 'int'>
    """
    for node in graph.nodes:
        if node.target is operator.getitem and node.args[0].type:
            item_type = _find_item_type(node.args[0].type, node.args[1])
            if item_type is not None:
                node.type = item_type


def _find_item_type(sequence: Any, index: Any) -> Any:
    """Return the type of one item; None if the sequence's type does not say."""
    origin, arguments = typing.get_origin(sequence), typing.get_args(sequence)
    if origin is tuple:
        if arguments[-1:] == (...,):
            return arguments[0]
        if len(arguments) <= index:
            raise AssertionError(f"Index {index} out of range for parameterized_types "
                                 f"(len={len(arguments)})")
        return arguments[index]
    if origin is list:
        return arguments[0]
    if sequence is Tensor or not hasattr(sequence, "_fields"):
        return None
    return sequence.__annotations__[sequence._fields[index]]
