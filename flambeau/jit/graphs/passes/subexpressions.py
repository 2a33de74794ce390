"""Common subexpressions: equal pure nodes of equal arguments are one node."""

from __future__ import annotations

from typing import Any

from ....tensor.tensor import Tensor
from ..aliases import Memory
from ..nodes import Graph, Node, Value
from .evaluation import is_pure

__all__ = ["eliminate_common_subexpressions"]


def eliminate_common_subexpressions(graph: Graph) -> bool:
    """Replace nodes that repeat an earlier one's computation; return whether it changed."""
    return _merge(graph, Memory(graph), {})


def _merge(sequence: Any, memory: Memory, known: dict[Any, Node]) -> bool:
    known, changed = dict(known), False
    for node in list(sequence.body):
        for block in node.blocks():
            changed |= _merge(block, memory, known)
        if not _may_merge(node, memory):
            continue
        key = (node.kind(), str(node.annotation), _describe(node), tuple(
            map(id, node.arguments)), tuple(str(value.type()) for value in node.results))
        earlier = known.setdefault(key, node)
        if earlier is not node:
            for value, other in zip(node.results, earlier.results, strict=True):
                value.replaceAllUsesWith(other)
            node.destroy()
            changed = True
    return changed


def _may_merge(node: Node, memory: Memory) -> bool:
    values: list[Value] = [*node.arguments, *node.results]
    if node.kind() == "prim::GetAttr" and (memory.calls or node.s("name") in memory.assigned):
        return False
    if list(node.blocks()) or not is_pure(node) or any(map(memory.is_written, values)):
        return False
    return node.kind() not in ("prim::ListConstruct", "prim::DictConstruct", "aten::list",
                               "aten::copy", "prim::CreateObject", "prim::Uninitialized") \
        and all(not v.type().is_mutable() or v.type().kind() in ("TensorType", "ClassType")
                or node.kind() == "prim::GetAttr" for v in node.results)


def _describe(node: Node) -> str:
    if node.kind() != "prim::Constant":
        return str(node.attributes)
    value = node.constant
    return f"{type(value).__name__} {id(value) if isinstance(value, Tensor) else repr(value)}"
