"""Algebraic simplification: local rewrites that compute the same values with fewer nodes.

Removes movements that do nothing or undo each other, arithmetic with 0 and 1 where that is exact,
casts to the same type, reductions over extents of 1, and movements of constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...native.loop_ir.ir import ReduceOp, Scalar, Type
from ..ir.graph import Graph, Node, Op, is_operation, permute, reshape, rewrite_nodes, strided_slice

Rule = Callable[[Node], Node]


def simplify(graph: Graph) -> Graph:
    """Apply the rules at each node, inputs first, until none applies."""

    def rule(node: Node) -> Node:
        while True:
            simpler = _RULES[node.op](node) if node.op in _RULES else node
            if simpler is node:
                return node
            node = simpler

    return rewrite_nodes(graph, rule)


def _reshape(node: Node) -> Node:
    (a,) = node.inputs
    if a.shape == node.shape:
        return a
    if a.op is Op.RESHAPE:
        return reshape(a.inputs[0], node.shape)
    if a.op is Op.CONSTANT:
        return Node(Op.CONSTANT, (), node.shape, node.type, a.attributes)
    return node


def _permute(node: Node) -> Node:
    (a,) = node.inputs
    axes = node.axes
    if axes == tuple(range(len(axes))):
        return a
    if a.op is Op.PERMUTE:
        return permute(a.inputs[0], tuple(a.axes[i] for i in axes))
    if a.op is Op.CONSTANT:
        return Node(Op.CONSTANT, (), node.shape, node.type, a.attributes)
    wide = [i for i in axes if a.shape[i] != 1]
    if wide == sorted(wide):  # only axes of extent 1 move
        return reshape(a, node.shape)
    return node


def _expand(node: Node) -> Node:
    (a,) = node.inputs
    if a.shape == node.shape:
        return a
    if a.op is Op.EXPAND:
        return Node(Op.EXPAND, a.inputs, node.shape, node.type)
    if a.op is Op.CONSTANT:
        return Node(Op.CONSTANT, (), node.shape, node.type, a.attributes)
    return node


def _slice(node: Node) -> Node:
    (a,) = node.inputs
    starts, steps = node.starts, node.steps
    if a.shape == node.shape and not any(starts) and all(s == 1 for s in steps):
        return a
    if a.op is Op.CONSTANT:
        return Node(Op.CONSTANT, (), node.shape, node.type, a.attributes)
    if a.op is Op.SLICE:
        first = tuple(x + y * s for x, y, s in zip(a.starts, starts, a.steps, strict=True))
        step = tuple(x * y for x, y in zip(a.steps, steps, strict=True))
        return strided_slice(a.inputs[0], first, step, node.shape)
    if a.op is Op.CONCAT:
        return _slice_of_concat(node, a)
    return node


def _slice_of_concat(node: Node, a: Node) -> Node:
    """slice(concat(a, b)) as slice(a), where the slice lies within one part."""
    axis, at = a.axis, 0
    start, step, n = node.starts[axis], node.steps[axis], node.shape[axis]
    if n == 0:
        return node
    low, high = sorted((start, start + (n - 1) * step))
    for part in a.inputs:
        extent = part.shape[axis]
        if at <= low and high < at + extent:
            starts = (*node.starts[:axis], start - at, *node.starts[axis + 1 :])
            return strided_slice(part, starts, node.steps, node.shape)
        at += extent
    return node


def _pad(node: Node) -> Node:
    (a,) = node.inputs
    if a.op is Op.CONSTANT and _is_constant(a, 0):
        return Node(Op.CONSTANT, (), node.shape, node.type, a.attributes)
    return a if not any(node.low) and not any(node.high) else node


def _reduce(node: Node) -> Node:
    (a,) = node.inputs
    if node.fold in (ReduceOp.ARGMAX, ReduceOp.ARGMIN):
        return node
    wide = tuple(i for i in node.axes if a.shape[i] != 1)
    if not wide:
        return a
    if len(wide) < len(node.axes):
        attributes = {"fold": node.fold, "axes": wide}
        return Node(Op.REDUCE, (a,), node.shape, node.type, attributes, node.origin)
    if a.op is Op.REDUCE and a.fold is node.fold and a.type is node.type:
        attributes = {"fold": node.fold, "axes": tuple(sorted({*a.axes, *node.axes}))}
        return Node(Op.REDUCE, a.inputs, node.shape, node.type, attributes, node.origin)
    return node


def _concat(node: Node) -> Node:
    parts = [p for p in node.inputs if p.shape[node.axis] != 0]
    if len(parts) == 1:
        return parts[0]
    if len(parts) < len(node.inputs) and parts:
        attributes = {"axis": node.axis}
        return Node(Op.CONCAT, tuple(parts), node.shape, node.type, attributes, node.origin)
    return node


def _is_constant(node: Node, value: float) -> bool:
    """Whether a node is this constant everywhere. Tells 0.0 from -0.0."""
    if node.op is Op.EXPAND or node.op is Op.RESHAPE:
        return _is_constant(node.inputs[0], value)
    if node.op is not Op.CONSTANT or isinstance(node.value, complex):
        return False
    number = float(node.value)
    return number == value and math.copysign(1.0, number) == math.copysign(1.0, value)


def _apply(node: Node) -> Node:
    inputs = tuple(a.inputs[0] if a.op is Op.EXPAND and _is_implicit(node, a) else a
                   for a in node.inputs)
    if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
        return Node(Op.APPLY, inputs, node.shape, node.type, node.attributes, node.origin)
    rule = _ARITHMETIC.get(node.operation)
    simpler = None if rule is None else rule(node, *node.inputs)
    if simpler is None:
        return node
    if simpler.shape == node.shape:
        return simpler
    return Node(Op.EXPAND, (simpler,), node.shape, node.type)


def _is_implicit(node: Node, expanded: Node) -> bool:
    """Whether the operation broadcasts to its shape without this EXPAND."""
    inner = expanded.inputs[0]
    operands = [a.inputs[0] if a.op is Op.EXPAND else a for a in node.inputs]
    extents = zip(*(a.shape for a in operands), strict=True)
    return len(inner.shape) == len(node.shape) and all(
        max(n) == m for n, m in zip(extents, node.shape, strict=True)
    )


def _add(node: Node, a: Node, b: Node) -> Node | None:
    zero = -0.0 if node.type.floating else 0  # x + 0.0 turns -0.0 into 0.0
    return a if _is_constant(b, zero) else b if _is_constant(a, zero) else None


def _sub(node: Node, a: Node, b: Node) -> Node | None:
    return a if _is_constant(b, 0) else None


def _mul(node: Node, a: Node, b: Node) -> Node | None:
    return a if _is_constant(b, 1) else b if _is_constant(a, 1) else None


def _div(node: Node, a: Node, b: Node) -> Node | None:
    return a if _is_constant(b, 1) else None


def _neg(node: Node, a: Node) -> Node | None:
    return a.inputs[0] if is_operation(a, Scalar.NEG) else None


def _cast(node: Node, a: Node) -> Node | None:
    if a.type is node.type:
        return a
    if a.op is Op.CONSTANT and node.type is not Type.BOOL:
        value: Any = float(a.value) if node.type.floating else int(a.value)
        if node.type in (Type.F32, Type.F64, Type.I64, Type.I32):
            return Node(Op.CONSTANT, (), a.shape, node.type, {"value": value})
    return None


def _where(node: Node, condition: Node, a: Node, b: Node) -> Node | None:
    if a is b:
        return a
    if condition.op is Op.CONSTANT:
        return a if condition.value else b
    return None


_ARITHMETIC: dict[Scalar, Callable[..., Node | None]] = {
    Scalar.ADD: _add, Scalar.SUB: _sub, Scalar.MUL: _mul, Scalar.DIV: _div, Scalar.NEG: _neg,
    Scalar.CAST: _cast, Scalar.WHERE: _where,
}
_RULES: dict[Op, Rule] = {
    Op.RESHAPE: _reshape, Op.PERMUTE: _permute, Op.EXPAND: _expand, Op.SLICE: _slice,
    Op.PAD: _pad, Op.REDUCE: _reduce, Op.CONCAT: _concat, Op.APPLY: _apply,
}
