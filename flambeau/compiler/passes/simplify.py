"""Algebraic simplification: local rewrites that compute the same values with fewer nodes.

Removes movements that do nothing or undo each other, arithmetic with 0 and 1 if that is exact,
casts to the same type, reductions over extents of 1, and movements of constants.
"""

from __future__ import annotations

from typing import Any

from ...native.loop_ir.ir import ReduceOp, Scalar, Type
from ..ir.graph import Graph, Node, Op, apply, constant, permute, reshape, strided_slice
from .pattern import Rule, RuleSet, capture, is_literal, literal, op, rule, scalar

x, y, condition = capture("x"), capture("y"), capture("condition")
number = capture("number", Op.CONSTANT)


def simplify(graph: Graph) -> Graph:
    """Apply the rules at each node, inputs first, until none applies."""
    return _RULES.rewrite(graph)


# ------------------------------------------------------------------------------- movements


def _drop(node: Node, x: Node) -> Node | None:
    """Rewrite a movement as its operand if the shape stays the same."""
    return x if x.shape == node.shape else None


def _move_constant(node: Node, number: Node) -> Node:
    """Rewrite a movement of a constant as the constant in the new shape."""
    return Node(Op.CONSTANT, (), node.shape, node.type, number.attributes)


@rule(op.RESHAPE(op.RESHAPE(x)))
def _merge_reshapes(node: Node, x: Node) -> Node:
    """Rewrite reshape(reshape(x)) as reshape(x)."""
    return reshape(x, node.shape)


@rule(op.PERMUTE(x))
def _drop_identity(node: Node, x: Node) -> Node | None:
    """Rewrite permute(x) as x if no axis moves."""
    return x if node.axes == tuple(range(len(node.axes))) else None


@rule(op.PERMUTE(op.PERMUTE(x)))
def _merge_permutations(node: Node, x: Node) -> Node:
    """Rewrite permute(permute(x)) as permute(x)."""
    inner = node.inputs[0].axes
    return permute(x, tuple(inner[i] for i in node.axes))


@rule(op.PERMUTE(x))
def _permute_as_reshape(node: Node, x: Node) -> Node | None:
    """Rewrite permute(x) as reshape(x) when only axes of extent 1 move."""
    nonunit = [i for i in node.axes if x.shape[i] != 1]
    return reshape(x, node.shape) if nonunit == sorted(nonunit) else None


@rule(op.EXPAND(op.EXPAND(x)))
def _merge_expansions(node: Node, x: Node) -> Node:
    """Rewrite expand(expand(x)) as expand(x)."""
    return Node(Op.EXPAND, (x,), node.shape, node.type)


@rule(op.SLICE(x))
def _drop_full_slice(node: Node, x: Node) -> Node | None:
    """Rewrite slice(x) as x if it takes all elements in order."""
    takes_all = x.shape == node.shape and not any(node.starts) and all(s == 1 for s in node.steps)
    return x if takes_all else None


@rule(op.SLICE(op.SLICE(x)))
def _merge_slices(node: Node, x: Node) -> Node:
    """Rewrite slice(slice(x)) as slice(x)."""
    inner = node.inputs[0]
    starts = tuple(
        first + start * step
        for first, start, step in zip(inner.starts, node.starts, inner.steps, strict=True))
    steps = tuple(a * b for a, b in zip(inner.steps, node.steps, strict=True))
    return strided_slice(x, starts, steps, node.shape)


@rule(op.SLICE(op.CONCAT()))
def _slice_part(node: Node) -> Node | None:
    """Rewrite slice(concat(a, b)) as slice(a) when the slice lies within one part."""
    (parent,) = node.inputs
    axis, offset = parent.axis, 0
    start, step, n = node.starts[axis], node.steps[axis], node.shape[axis]
    if n == 0:
        return None
    low, high = sorted((start, start + (n - 1) * step))
    for part in parent.inputs:
        extent = part.shape[axis]
        if offset <= low and high < offset + extent:
            starts = (*node.starts[:axis], start - offset, *node.starts[axis + 1 :])
            return strided_slice(part, starts, node.steps, node.shape)
        offset += extent
    return None


@rule(op.PAD(x))
def _drop_empty_pad(node: Node, x: Node) -> Node | None:
    """Rewrite pad(x) as x when nothing is added."""
    return None if any(node.low) or any(node.high) else x


@rule(op.PAD(number))
def _pad_zero(node: Node, number: Node) -> Node | None:
    """Rewrite pad(0) as 0 in the new shape."""
    return _move_constant(node, number) if is_literal(number, 0) else None


@rule(op.CONCAT())
def _drop_empty_parts(node: Node) -> Node | None:
    """Drop empty parts from a concat; rewrite it as its only part if one is left."""
    parts = [p for p in node.inputs if p.shape[node.axis] != 0]
    if len(parts) == 1:
        return parts[0]
    if len(parts) == len(node.inputs) or not parts:
        return None
    attributes = {"axis": node.axis}
    return Node(Op.CONCAT, tuple(parts), node.shape, node.type, attributes, node.origin)


# ------------------------------------------------------------------------------ reductions


@rule(op.REDUCE(x))
def _drop_narrow_axes(node: Node, x: Node) -> Node | None:
    """Drop reduced axes of extent 1; rewrite reduce(x) as x if no other is left."""
    if node.fold in (ReduceOp.ARGMAX, ReduceOp.ARGMIN):
        return None
    nonunit = tuple(i for i in node.axes if x.shape[i] != 1)
    if not nonunit:  # a sum begins at 0.0, which turns -0.0 into 0.0
        adds = node.fold is ReduceOp.SUM and node.type.floating
        return apply(Scalar.ADD, x, constant(0.0, x.type, (1,) * len(x.shape))) if adds else x
    if len(nonunit) == len(node.axes):
        return None
    attributes = {"fold": node.fold, "axes": nonunit}
    return Node(Op.REDUCE, (x,), node.shape, node.type, attributes, node.origin)


@rule(op.REDUCE(op.REDUCE(x)))
def _merge_reductions(node: Node, x: Node) -> Node | None:
    """Rewrite reduce(reduce(x)) as reduce(x) if both have the same fold and type."""
    (inner,) = node.inputs
    if node.fold in (ReduceOp.ARGMAX, ReduceOp.ARGMIN):
        return None
    if inner.fold is not node.fold or inner.type is not node.type:
        return None
    attributes = {"fold": node.fold, "axes": tuple(sorted({*inner.axes, *node.axes}))}
    return Node(Op.REDUCE, (x,), node.shape, node.type, attributes, node.origin)


# ------------------------------------------------------------------------------ arithmetic


@rule(scalar.ANY())
def _broadcast_implicitly(node: Node) -> Node | None:
    """Rewrite f(expand(a), b) as f(a, b) if the operation broadcasts a anyway."""
    inputs = node.inputs
    if all(a.op is not Op.EXPAND for a in inputs):
        return None
    narrow = tuple(a.inputs[0] if a.op is Op.EXPAND and _is_implicit(node, a) else a
                   for a in inputs)
    if all(new is old for new, old in zip(narrow, inputs, strict=True)):
        return None
    return Node(Op.APPLY, narrow, node.shape, node.type, node.attributes, node.origin)


def _is_implicit(node: Node, expanded: Node) -> bool:
    """Whether the operation broadcasts to its shape without this EXPAND."""
    inner = expanded.inputs[0]
    operands = [a.inputs[0] if a.op is Op.EXPAND else a for a in node.inputs]
    extents = zip(*(a.shape for a in operands), strict=True)
    return len(inner.shape) == len(node.shape) and all(
        max(n) == m for n, m in zip(extents, node.shape, strict=True)
    )


def _keep(node: Node, x: Node) -> Node:
    """Rewrite an operation as one of its operands, broadcast to its shape."""
    return x if x.shape == node.shape else Node(Op.EXPAND, (x,), node.shape, node.type)


@rule(scalar.CAST(x))
def _drop_cast(node: Node, x: Node) -> Node | None:
    """Rewrite cast(x) as x if the type stays the same."""
    return _keep(node, x) if x.type is node.type else None


@rule(scalar.CAST(number))
def _cast_constant(node: Node, number: Node) -> Node | None:
    """Rewrite cast(number) as the number in the new type."""
    if node.type not in (Type.F32, Type.F64, Type.I64, Type.I32):
        return None
    value: Any = float(number.value) if node.type.floating else int(number.value)
    return _keep(node, Node(Op.CONSTANT, (), number.shape, node.type, {"value": value}))


@rule(scalar.WHERE(condition, x, x))
def _drop_choice(node: Node, condition: Node, x: Node) -> Node:
    """Rewrite where(c, x, x) as x."""
    return _keep(node, x)


@rule(scalar.WHERE(number, x, y))
def _choose(node: Node, number: Node, x: Node, y: Node) -> Node:
    """Rewrite where(c, x, y) as x or y when c is a constant."""
    return _keep(node, x if number.value else y)


_RULES = RuleSet(
    Rule(op.RESHAPE(x), _drop), _merge_reshapes, Rule(op.RESHAPE(number), _move_constant),
    _drop_identity, _merge_permutations, Rule(op.PERMUTE(number), _move_constant),
    _permute_as_reshape,
    Rule(op.EXPAND(x), _drop), _merge_expansions, Rule(op.EXPAND(number), _move_constant),
    _drop_full_slice, Rule(op.SLICE(number), _move_constant), _merge_slices, _slice_part,
    _pad_zero, _drop_empty_pad, _drop_empty_parts, _drop_narrow_axes, _merge_reductions,
    _broadcast_implicitly,
    # x + 0.0 turns -0.0 into 0.0, so only the addition of -0.0 can be removed.
    Rule(scalar.ADD(x, literal(0, negative_zero=True), commutes=True), _keep),
    Rule(scalar.SUB(x, literal(0)), _keep),
    Rule(scalar.MUL(x, literal(1), commutes=True), _keep),
    Rule(scalar.DIV(x, literal(1)), _keep),
    Rule(scalar.NEG(scalar.NEG(x)), _keep),
    _drop_cast, _cast_constant, _drop_choice, _choose,
    repeats=True,
)
