"""Dead code: nodes without effects whose results nobody uses."""

from __future__ import annotations

from typing import Any

from ..aliases import Memory
from ..nodes import Graph, Node
from .evaluation import is_pure

__all__ = ["eliminate_dead_code"]

_WRITES_IN_PLACE = frozenset(("aten::append", "aten::_set_item", "aten::insert", "aten::extend"))


def eliminate_dead_code(graph: Graph) -> None:
    """Remove nodes without effects whose results are unused, and writes to such results."""
    while _sweep(graph, graph):
        pass


def _sweep(graph: Graph, sequence: Any) -> bool:
    used = {value for node in graph.list_nodes(with_returns=True) for value in node.arguments}
    for block in [b for node in graph.list_nodes() for b in node.blocks()]:
        used.update(block.results)
    changed = False
    memory: Memory | None = None
    for node in reversed(list(_list_inside(sequence))):
        if node.kind() == "prim::If":
            changed |= _drop_unused_results(node, used)
        if used.isdisjoint(node.results) and _has_no_effect(node):
            node.destroy()
            changed = True
        elif used.isdisjoint(node.results) and _writes_only(node):
            memory = memory or Memory(graph)
            if _is_private(graph, node, memory):
                node.destroy()
                changed = True
    return changed


def _list_inside(sequence: Any) -> list[Node]:
    nodes: list[Node] = sequence.list_nodes()
    return nodes


def _has_no_effect(node: Node) -> bool:
    if node.kind() in ("prim::If", "prim::Loop", "prim::fork"):
        return all(_has_no_effect(inner) for block in node.blocks() for inner in block.body)
    return is_pure(node)


def _drop_unused_results(node: Node, used: set[Any]) -> bool:
    changed = False
    for position in reversed(range(len(node.results))):
        if node.results[position] not in used:
            node.eraseOutput(position)
            for block in node.blocks():
                block.eraseOutput(position)
            changed = True
    return changed


def _writes_only(node: Node) -> bool:
    return node.kind() in _WRITES_IN_PLACE


def _is_private(graph: Graph, node: Node, memory: Memory) -> bool:
    """Return whether what a node writes to is made by the graph and read by no other node."""
    owner = node.arguments[0]
    if owner.node().kind() not in ("prim::ListConstruct", "prim::DictConstruct"):
        return False
    return all(use.user is node for use in owner.uses())
