"""Peephole rules: single nodes and pairs of nodes that have a simpler form."""

from __future__ import annotations

from ..aliases import Memory
from ..nodes import Graph, Node, Value

__all__ = ["lower_all_tuples", "lower_simple_tuples", "remove_detach", "simplify_peepholes"]


def simplify_peepholes(graph: Graph) -> bool:
    """Apply the rules below until none fits; return whether the graph changed."""
    changed = False
    while sum(_apply(graph, node) for node in graph.list_nodes()):
        changed = True
    return changed


def _apply(graph: Graph, node: Node) -> bool:
    rule = _RULES.get(node.kind())
    if rule is None or not node.results:
        return False
    value = rule(node)
    if value is None:
        return False
    node.results[0].replaceAllUsesWith(value)
    node.destroy()
    return True


def _drop_cast(node: Node) -> Value | None:
    """A cast to the type that the value has."""
    (value,) = node.arguments
    return value if value.type() == node.results[0].type() else None


def _drop_double_not(node: Node) -> Value | None:
    """not not x of a bool."""
    inner = node.arguments[0].node()
    if inner.kind() == "aten::__not__" and inner.arguments[0].type().annotation_str == "bool":
        return inner.arguments[0]
    return None


def _drop_transposes(node: Node) -> Value | None:
    """x.t().t()"""
    inner = node.arguments[0].node()
    if inner.kind() != "aten::t" or Memory(node.root()).is_written(inner.arguments[0]):
        return None
    return inner.arguments[0]


_RULES = {"prim::unchecked_cast": _drop_cast, "aten::__not__": _drop_double_not,
          "aten::t": _drop_transposes}


def lower_simple_tuples(graph: Graph) -> None:
    """Take the elements of tuples that the graph makes without making the tuples."""
    for node in graph.list_nodes():
        source = node.arguments[0].node() if node.arguments else None
        if source is None or source.kind() != "prim::TupleConstruct":
            continue
        if node.kind() == "prim::TupleUnpack":
            for value, part in zip(node.results, source.arguments, strict=True):
                value.replaceAllUsesWith(part)
            node.destroy()
        elif node.kind() == "prim::TupleIndex":
            number = node.arguments[1].toIValue()
            if isinstance(number, int):
                node.results[0].replaceAllUsesWith(source.arguments[number])
                node.destroy()
    for node in reversed(graph.list_nodes()):
        if node.kind() == "prim::TupleConstruct" and not node.results[0].uses():
            node.destroy()


def lower_all_tuples(graph: Graph) -> None:
    """Do without tuples that the graph makes: a tuple among the results becomes its elements."""
    lower_simple_tuples(graph)
    changed = True
    while changed:
        changed = False
        results: list[Value] = []
        for value in graph.results:
            node = value.node()
            is_made = node.kind() == "prim::TupleConstruct" and node.owningBlock() is graph
            changed |= is_made
            results += node.arguments if is_made else [value]
        graph.results = results
    graph.mark_changed()
    lower_simple_tuples(graph)


def remove_detach(graph: Graph) -> None:
    """Leave out detach in a frozen graph, unless a write or a comparison of objects sees it."""
    memory = Memory(graph)
    compared = {value for node in graph.list_nodes() if node.kind() in (
        "aten::__is__", "aten::__isnot__") for value in node.arguments}
    for node in graph.findAllNodes("aten::detach"):
        if not memory.is_written(node.arguments[0]) and compared.isdisjoint(
                (node.arguments[0], node.results[0])):
            node.results[0].replaceAllUsesWith(node.arguments[0])
            node.destroy()
