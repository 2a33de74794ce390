"""Build nodes: constants, broadcasting, casts, reshapes, slices and concatenation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ....native.loop_ir.ir import ReduceOp, Scalar, Type
from ....native.loop_ir.numpy_forms import dtype_of
from ...ir import graph
from ...ir.graph import Node, Op, Shape
from ..registry import refuse

_TYPES_BY_NAME = {type.value: type for type in Type}
_HALF_TYPES = (Type.F16, Type.BF16)


@cache  # NumPy takes 5 us to find the name of a dtype
def _find_type(kind: Any) -> Type | None:
    return _TYPES_BY_NAME.get(np.dtype(kind).name)


def type_of(kind: Any) -> Type:
    """The graph's type for a NumPy dtype; raise Untraceable if there is none, as for complex."""
    type = _find_type(kind)
    return type if type is not None else refuse(f"no type for {kind}")


def compute_type(type: Type) -> Type:
    """The type used to compute with elements of `type`: half precision is only a storage type."""
    return Type.F32 if type in _HALF_TYPES else type


# ------------------------------------------------------------------------------- constants


def number(value: Any, type: Type, rank: int = 0) -> Node:
    """A constant with `rank` axes of extent 1."""
    return graph.constant(value, type, (1,) * rank)


def literal(array: np.ndarray) -> Node:
    """An array as a node: a CONSTANT if all elements have the same bits."""
    type = type_of(array.dtype)
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.size and flat.tobytes() == flat[:1].tobytes() * flat.size:
        value = float(flat[0]) if type in _HALF_TYPES else flat[0].item()
        return graph.constant(value, type, array.shape)
    return Node(Op.ARRAY, (), array.shape, type, {"value": np.array(array)})


def iota(shape: Sequence[int], axis: int) -> Node:
    """Positions along an axis of a shape, I64; the other extents are 1."""
    line_shape = tuple(n if i == axis else 1 for i, n in enumerate(shape))
    return Node(Op.IOTA, (), line_shape, Type.I64, {"axis": axis})


# ------------------------------------------------------------------------------- elements


def prepend_axes(node: Node, rank: int) -> Node:
    """Prepend axes of extent 1, up to `rank`; rebuild constants instead of reshaping them."""
    short = rank - len(node.shape)
    if short <= 0:
        return node
    shape = (1,) * short + node.shape
    if node.op is Op.CONSTANT:
        return graph.constant(node.value, node.type, shape)
    return graph.reshape(node, shape)


def broadcast_shape(*nodes: Node) -> Shape:
    """The shape that nodes broadcast to, by NumPy's rules."""
    return np.broadcast_shapes(*(node.shape for node in nodes))


def apply_operation(operation: Scalar, *nodes: Node, type: Type | None = None) -> Node:
    """Apply a scalar operation with NumPy's broadcasting of ranks and extents."""
    rank = max(len(node.shape) for node in nodes)
    return graph.apply(operation, *(prepend_axes(node, rank) for node in nodes), type=type)


def cast(node: Node, type: Type) -> Node:
    """Convert to another type; constants are converted immediately."""
    if node.type is type:
        return node
    if node.op is Op.CONSTANT:
        with np.errstate(all="ignore"):
            converted = np.asarray(np.asarray(node.value, dtype_of(node.type))).astype(
                dtype_of(type)
            )
        return graph.constant(literal(converted).value, type, node.shape)
    return graph.cast(node, type)


def broadcast_to(node: Node, shape: Sequence[int]) -> Node:
    """Broadcast a node to a shape."""
    shape = tuple(shape)
    node = prepend_axes(node, len(shape))
    if node.op is Op.CONSTANT:
        return graph.constant(node.value, node.type, shape)
    return graph.expand(node, shape)


def where(condition: Node, a: Node, b: Node) -> Node:
    """Select `a` where the condition holds, else `b`."""
    inside = compute_type(a.type)
    chosen = apply_operation(Scalar.WHERE, condition, cast(a, inside), cast(b, inside), type=inside)
    return cast(chosen, a.type)


# ------------------------------------------------------------------------------- axes


def reshape_node(node: Node, shape: Sequence[int]) -> Node:
    """Reshape in row-major order; `shape` may contain a -1."""
    shape = tuple(int(n) for n in shape)
    if -1 in shape:
        known = math.prod(n for n in shape if n != -1)
        shape = tuple((math.prod(node.shape) // known if known else 0) if n == -1 else n
                      for n in shape)
    if math.prod(shape) != math.prod(node.shape):
        refuse(f"reshape of {node.shape} to {shape}")
    if node.op is Op.CONSTANT:
        return graph.constant(node.value, node.type, shape)
    if node.op is Op.RESHAPE:
        node = node.inputs[0]
    return graph.reshape(node, shape)


def reduce_axes(node: Node, fold: ReduceOp, axes: Sequence[int], keep: bool = False) -> Node:
    """Reduce over axes, and drop them unless `keep`."""
    reduced = node if not axes else graph.reduce(node, fold, axes)
    if keep:
        return reduced
    return reshape_node(reduced, [n for i, n in enumerate(node.shape) if i not in axes])


def slice_axis(node: Node, axis: int, start: int, length: int, step: int = 1) -> Node:
    """Slice `length` elements of one axis."""
    starts, steps = [0] * len(node.shape), [1] * len(node.shape)
    starts[axis], steps[axis] = start, step
    shape = (*node.shape[:axis], length, *node.shape[axis + 1 :])
    return graph.strided_slice(node, starts, steps, shape)


def concatenate(parts: Sequence[Node], axis: int) -> Node:
    """Concatenate along an axis; skip empty parts."""
    nonempty = [part for part in parts if part.shape[axis]] or list(parts[:1])
    return graph.concat(nonempty, axis)


def stack_nodes(parts: Sequence[Node], axis: int) -> Node:
    """Stack along a new axis."""
    expanded = [reshape_node(p, (*p.shape[:axis], 1, *p.shape[axis:])) for p in parts]
    return concatenate(expanded, axis)


def bitcast(node: Node, type: Type) -> Node:
    """Reinterpret the bits as another type of the same size."""
    return node if node.type is type else graph.apply(Scalar.BITCAST, node, type=type)
