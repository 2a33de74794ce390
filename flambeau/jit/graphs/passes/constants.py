"""Constant propagation: nodes of constants are computed once, branches on constants taken."""

from __future__ import annotations

from typing import Any

from ..aliases import Memory
from ..nodes import Graph, Node, Value
from ..refinement import decide_instance, decide_none
from ..types import IRType
from .evaluation import evaluate_node, is_pure

__all__ = ["inline_block", "propagate_constants"]


def propagate_constants(graph: Graph) -> bool:
    """Compute nodes of constants unless something writes to them; return whether it changed."""
    changed = False
    while _propagate(graph, graph, Memory(graph)):
        changed = True
    return changed


def _propagate(graph: Graph, sequence: Any, memory: Memory) -> bool:
    changed = False
    for node in list(sequence.body):
        for block in list(node.blocks()):
            changed |= _propagate(graph, block, memory)
        if node.kind() == "prim::If":
            changed |= _take_branch(node)
        elif node.kind() == "prim::Loop":
            changed |= _drop_loop(node)
        elif node.kind() != "prim::Constant":
            changed |= _replace_node(graph, node, memory)
    return changed


def _replace_node(graph: Graph, node: Node, memory: Memory) -> bool:
    if not is_pure(node) or any(map(memory.is_written, [*node.arguments, *node.results])):
        return False
    known = _decide(node)
    results = evaluate_node(node) if known is None else [known]
    if results is None:
        return False
    for value, result in zip(node.results, results, strict=True):
        constant = graph.create_constant(result, _keep_type(value.type(), result))
        constant.insertBefore(node)
        value.replaceAllUsesWith(constant.results[0])
    node.destroy()
    return True


def _keep_type(kind: IRType, value: Any) -> IRType | None:
    """Return the type of a constant that stands for a value of another type."""
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return None
    return kind


def _decide(node: Node) -> bool | None:
    """Return what a test of types says whatever the value, or None."""
    if node.kind() in ("aten::__is__", "aten::__isnot__"):
        first, second = node.arguments
        return decide_none(first.type(), second.type(), node.kind() == "aten::__isnot__")
    if node.kind() == "prim::isinstance" and node.annotation is not None:
        return decide_instance(node.arguments[0].type(), node.annotation)
    return None


def _take_branch(node: Node) -> bool:
    condition = node.arguments[0].toIValue()
    if node.arguments[0].node().kind() != "prim::Constant" or not isinstance(condition, bool):
        return _join_equal_results(node)
    block = list(node.blocks())[0 if condition else 1]
    inline_block(node, block)
    return True


def _join_equal_results(node: Node) -> bool:
    """Replace results that both branches pass on from outside; drop those that nobody uses."""
    first, second = node.blocks()
    changed = False
    for position in reversed(range(len(node.results))):
        a, b = first.results[position], second.results[position]
        result = node.results[position]
        if a is b or _is_same_constant(a, b) and a.node().owningBlock() is not first:
            result.replaceAllUsesWith(a)
            _drop_result(node, position)
            changed = True
    return changed


def _is_same_constant(a: Value, b: Value) -> bool:
    if a.node().kind() != "prim::Constant" or b.node().kind() != "prim::Constant":
        return False
    return type(a.toIValue()) is type(b.toIValue()) and isinstance(
        a.toIValue(), (bool, int, float, str, type(None))) and a.toIValue() == b.toIValue()


def _drop_result(node: Node, position: int) -> None:
    node.eraseOutput(position)
    for block in node.blocks():
        block.eraseOutput(position)


def inline_block(node: Node, block: Any) -> None:
    """Put the nodes of a block in the place of the node that it belongs to."""
    for inner in list(block.body):
        inner.moveBefore(node)
    for result, value in zip(node.results, block.results, strict=True):
        result.replaceAllUsesWith(value)
    node.destroy()


def _drop_loop(node: Node) -> bool:
    """Leave out a loop that has no rounds."""
    limit, condition, *first = node.arguments
    if limit.toIValue() != 0 and condition.toIValue() is not False:
        return False
    for result, value in zip(node.results, first, strict=True):
        result.replaceAllUsesWith(value)
    node.destroy()
    return True
