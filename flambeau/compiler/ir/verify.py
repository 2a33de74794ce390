"""verify_graph: check the rules of the graph IR. All tests run it after every stage."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ...native.kernels.recurrent_cells import CELLS
from ...native.loop_ir.ir import ReduceOp, Scalar, Type
from .graph import COMPARISONS, Graph, Node, Op
from .recurrence import (
    get_inputs_by_name, get_extents, has_result, get_input_shapes, get_result_shape,
)


class GraphError(AssertionError):
    """A graph or plan that breaks a rule; the message names the node."""


def verify_graph(graph: Graph) -> None:
    """Raise GraphError if a node's shape, type or attributes do not fit its inputs."""
    visited: set[int] = set()
    for node in graph.nodes():
        require(all(id(operand) in visited for operand in node.inputs), node,
                "reads a node that comes later")
        require(all(isinstance(n, int) and n >= 0 for n in node.shape), node,
                "an extent that is negative or not an int")
        require(isinstance(node.type, Type), node, "no type")
        rule = _RULES.get(node.op)
        if rule is not None:
            rule(node, *node.inputs)
        visited.add(id(node))
    for node in graph.nodes():
        if node.op is Op.INPUT:
            source = graph.sources[node.slot]
            require(source.shape == node.shape and source.type is node.type, node,
                    f"its source has {source.shape} {source.type}")
    slots = [slot for slot, _ in graph.writes]
    require(len(slots) == len(set(slots)), None, "a source is written twice")
    for slot, node in graph.writes:
        source = graph.sources[slot]
        require(source.shape == node.shape and source.type is node.type, node,
                f"is written to source {slot} of {source.shape} {source.type}")


def require(holds: bool, node: Node | None, why: str) -> None:
    """Raise GraphError, naming the node and the broken rule, unless the condition holds."""
    if not holds:
        raise GraphError(f"{node!r}: {why}" if node is not None else why)


def _require_same_type(node: Node, *inputs: Node) -> None:
    require(all(operand.type is node.type for operand in inputs), node, "inputs of another type")


def _check_apply(node: Node, *inputs: Node) -> None:
    rank = len(node.shape)
    require(all(len(operand.shape) == rank for operand in inputs), node, "inputs of another rank")
    for axis, extent in enumerate(node.shape):
        lengths = {operand.shape[axis] for operand in inputs} - {1}
        broadcasts = lengths == {extent} or (not lengths and extent == 1)
        require(broadcasts, node, f"axis {axis} has {lengths}")
    operation = node.operation
    if operation in (Scalar.CAST, Scalar.BITCAST):
        return
    if operation is Scalar.WHERE:
        require(inputs[0].type is Type.BOOL, node, "a condition that is not a BOOL")
        inputs = inputs[1:]
    require(len({operand.type for operand in inputs}) == 1, node, "operands of several types")
    result = Type.BOOL if operation in COMPARISONS else inputs[0].type
    result = Type.U32 if operation is Scalar.PHILOX_WORD else result
    require(node.type is result, node, f"the result of {operation.name} is {result.value}")


def _check_reshape(node: Node, a: Node) -> None:
    _require_same_type(node, a)
    require(prod(a.shape) == prod(node.shape), node, f"from {a.shape}")


def _check_permute(node: Node, a: Node) -> None:
    _require_same_type(node, a)
    require(sorted(node.axes) == list(range(len(a.shape))), node, "axes are not a permutation")
    require(node.shape == tuple(a.shape[i] for i in node.axes), node, f"from {a.shape}")


def _check_expand(node: Node, a: Node) -> None:
    _require_same_type(node, a)
    require(len(a.shape) == len(node.shape), node, f"from {a.shape}")
    pairs = zip(a.shape, node.shape, strict=True)
    require(all(n in (1, m) for n, m in pairs), node, f"from {a.shape}")


def _check_slice(node: Node, a: Node) -> None:
    _require_same_type(node, a)
    parts = zip(node.starts, node.steps, node.shape, a.shape, strict=True)
    for start, step, count, extent in parts:
        ends = (start, start + (count - 1) * step) if count else (0,)
        require(all(0 <= end < max(extent, 1) for end in ends), node, f"leaves {a.shape}")


def _check_pad(node: Node, a: Node) -> None:
    _require_same_type(node, a)
    padded = tuple(x + n + y for x, n, y in zip(node.low, a.shape, node.high, strict=True))
    require(min((*node.low, *node.high), default=0) >= 0, node, "negative padding")
    require(node.shape == padded, node, f"from {a.shape}")


def _check_concat(node: Node, *parts: Node) -> None:
    _require_same_type(node, *parts)
    axis = node.axis
    total = sum(part.shape[axis] for part in parts)
    for part in parts:
        shape = (*part.shape[:axis], total, *part.shape[axis + 1 :])
        require(shape == node.shape, node, f"a part has {part.shape}")


def _check_update(node: Node, a: Node, b: Node) -> None:
    _require_same_type(node, a, b)
    require(a.shape == node.shape, node, f"from {a.shape}")
    written = Node(Op.SLICE, (a,), b.shape, a.type, dict(node.attributes))
    _check_slice(written, a)


def _check_reduce(node: Node, a: Node) -> None:
    reduced = tuple(1 if i in node.axes else n for i, n in enumerate(a.shape))
    require(node.shape == reduced, node, f"from {a.shape}")
    is_position = node.fold in (ReduceOp.ARGMAX, ReduceOp.ARGMIN)
    require(node.type is (Type.I64 if is_position else a.type), node, f"of {a.type.value}")


def _check_sum_parts(node: Node, a: Node) -> None:
    reduced = tuple(1 if i in node.axes else n for i, n in enumerate(a.shape))
    require(node.shape[1:] == reduced and node.shape[0] > 0, node, f"from {a.shape}")
    require(node.type is a.type and a.type.floating, node, f"of {a.type.value}")


def _check_matmul(node: Node, a: Node, b: Node) -> None:
    _require_same_type(node, a, b)
    require(a.shape[-1] == b.shape[-2], node, f"{a.shape} @ {b.shape}")
    batch = tuple(max(x, y) for x, y in zip(a.shape[:-2], b.shape[:-2], strict=True))
    require(node.shape == (*batch, a.shape[-2], b.shape[-1]), node, f"{a.shape} @ {b.shape}")


def _count_windows(extent: int, kernel: int, stride: int, dilation: int) -> int:
    """Return the extent of a convolution's result along an axis."""
    return (extent - dilation * (kernel - 1) - 1) // stride + 1


def _check_conv(node: Node, x: Node, w: Node) -> None:
    _require_same_type(node, x, w)
    (sh, sw), (dh, dw) = node.stride, node.dilation
    expected = (x.shape[0], _count_windows(x.shape[1], w.shape[0], sh, dh),
                _count_windows(x.shape[2], w.shape[1], sw, dw), w.shape[3])
    require(node.shape == expected, node, f"{x.shape} with {w.shape}")
    require(w.shape[2] * node.groups == x.shape[3], node, f"{x.shape} with {w.shape}")


def _check_take(node: Node, table: Node, index: Node) -> None:
    _require_same_type(node, table)
    require(not index.type.floating, node, "positions that are not integers")
    require(node.shape == (*index.shape, *table.shape[1:]), node, f"of {table.shape}")


def _check_assertion(node: Node, holds: Node, *calls: Node) -> None:
    _require_same_type(node, holds)
    require(node.type is Type.BOOL and node.shape == holds.shape == (), node, f"of {holds.shape}")


def _check_attention(node: Node, q: Node, k: Node, *rest: Node) -> None:
    *batch, rows, depth = q.shape
    columns = k.shape[-2]
    require(k.shape == (*batch, columns, depth), node, f"of {q.shape} and {k.shape}")
    if node.op is Op.ATTENTION_SUMS:
        operands, masks, shape = [q, k], rest, (*batch, rows)
    else:
        v, width = rest[0], rest[0].shape[-1]
        require(v.shape == (*batch, columns, width), node, f"of {k.shape} and {v.shape}")
        operands, masks, shape = [q, k, v], rest[1:], (*batch, rows, width)
    if node.op is Op.ATTENTION_GRADIENT:
        (g, sums, inner), masks = rest[1:4], rest[4:]
        expected = (shape, (*batch, rows), (*batch, rows))
        require((g.shape, sums.shape, inner.shape) == expected, node, f"of {g}, {sums}, {inner}")
        operands += [g, sums, inner]
        shape = operands[node.of].shape
    require(tuple(shape) == node.shape and columns > 0, node, f"from {q.shape} and {k.shape}")
    _require_same_type(node, *operands)
    for mask in masks:
        pairs = list(zip(mask.shape, (*batch, rows, columns), strict=True))
        require(mask.type in (Type.BOOL, node.type) and all(n in (1, m) for n, m in pairs), node,
                f"a mask of {mask.type} {mask.shape}")


def _check_recurrence(node: Node, *inputs: Node) -> None:
    _require_same_type(node, *inputs)
    require(has_result(CELLS[node.cell], node.of), node, "no such result")
    shapes = get_input_shapes(node)
    for name, operand in get_inputs_by_name(node).items():
        require(shapes.get(name) == operand.shape, node, f"{name} of {operand.shape}")
    steps, rows, _ = get_extents(node)
    require(node.shape == get_result_shape(node, (steps, rows)), node, f"for {steps} steps")


_RULES: dict[Op, Callable[..., None]] = {
    Op.APPLY: _check_apply, Op.RESHAPE: _check_reshape, Op.PERMUTE: _check_permute,
    Op.EXPAND: _check_expand, Op.SLICE: _check_slice, Op.PAD: _check_pad, Op.CONCAT: _check_concat,
    Op.UPDATE: _check_update, Op.REDUCE: _check_reduce, Op.SUM_PARTS: _check_sum_parts,
    Op.ATTENTION: _check_attention, Op.ATTENTION_SUMS: _check_attention,
    Op.ATTENTION_GRADIENT: _check_attention,
    Op.RECURRENCE: _check_recurrence, Op.RECURRENCE_GRADIENT: _check_recurrence,
    Op.MATMUL: _check_matmul, Op.CONV: _check_conv, Op.TAKE: _check_take,
    Op.CHECK: _check_assertion,
}
