"""NumPy's selection by condition or position, triangles, and products, on symbols."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....native.loop_ir.ir import ReduceOp, Scalar, Type
from ....native.loop_ir.numpy_forms import dtype_of
from ...ir import graph
from ...ir.graph import Node, Op
from ..registry import lowering, refuse
from . import node_builders as nodes
from .indexing import normalize_positions, take_along_axis_of
from .node_builders import (
    apply_operation, broadcast_shape, broadcast_to, cast, compute_type, iota, number, reduce_axes,
    reshape_node, type_of,
)
from .reductions import reduce_array
from .symbolic_array import (
    Symbol, call_ufunc, choose_full_precision, convert_to_node, get_promotion_operand, implements,
    wrap_node,
)


@implements(np.where)
def _where(condition: Any, *choices: Any) -> Symbol:
    if len(choices) != 2:
        refuse("np.nonzero")
    test = convert_to_node(condition)
    if test.type is not Type.BOOL:
        test = apply_operation(Scalar.NE, test, number(0, test.type, len(test.shape)))
    kinds = [v if isinstance(get_promotion_operand(v), type) else get_promotion_operand(v)
             for v in choices]
    kind = np.result_type(*kinds)
    return wrap_node(nodes.where(test, *(convert_to_node(v, kind) for v in choices)))


@implements(np.copyto)
def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    value = convert_to_node(src, dst.dtype)
    if where is not True:
        value = nodes.where(convert_to_node(where), value, dst.node)
    dst.assign(value)


@implements(np.clip)
def _clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **_: Any) -> Symbol:
    y = a if a_min is None else call_ufunc(np.maximum, (a, a_min))
    y = y if a_max is None else call_ufunc(np.minimum, (y, a_max))
    return y if out is None else call_ufunc(np.positive, (y,), out=out)


@implements(np.take)
def _take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    if mode != "raise":
        refuse("np.take with mode=")
    node = convert_to_node(a) if axis is not None else reshape_node(convert_to_node(a), (-1,))
    return wrap_node(take_along_axis_of(node, convert_to_node(indices),
                                        int(axis or 0) % len(node.shape)))


@implements(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Symbol:
    """Select elements by position along an axis; other axes broadcast."""
    x, index = convert_to_node(arr), convert_to_node(indices)
    at = axis % len(x.shape)
    index = normalize_positions(index, x.shape[at])
    shape = list(broadcast_shape(with_unit_axis(x, at), with_unit_axis(index, at)))
    index = broadcast_to(index, [index.shape[at] if i == at else n for i, n in enumerate(shape)])
    x = broadcast_to(x, [x.shape[at] if i == at else n for i, n in enumerate(shape)])
    return wrap_node(Node(Op.TAKE_ALONG, (x, index), index.shape, x.type, {"axis": at}))


def with_unit_axis(node: Node, axis: int) -> Node:
    """A placeholder with extent 1 along an axis, used only for its shape."""
    shape = tuple(1 if i == axis else n for i, n in enumerate(node.shape))
    return graph.constant(0, node.type, shape)


@implements(np.diagonal)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Symbol:
    """The diagonal of two axes as the last axis: a strided slice of the flattened matrices."""
    first, second = axis1 % a.ndim, axis2 % a.ndim
    order = [i for i in range(a.ndim) if i not in (first, second)]
    turned = a.transpose((*order, first, second))
    n, m = turned.shape[-2:]
    length = max(min(n, m - offset) if offset >= 0 else min(n + offset, m), 0)
    start = (offset if offset >= 0 else -offset * m) if length else 0
    flat = turned.reshape((*turned.shape[:-2], n * m))
    return flat[..., start : start + (length - 1) * (m + 1) + 1 : m + 1] if length \
        else flat[..., :0]


@implements(np.tril)
def _tril(m: Any, k: int = 0) -> Symbol:
    keep = triangle(m.shape, k)
    return wrap_node(nodes.where(keep, m.node, number(0, m.node.type, m.ndim)))


@implements(np.triu)
def _triu(m: Any, k: int = 0) -> Symbol:
    keep = triangle(m.shape, k - 1)
    return wrap_node(nodes.where(keep, number(0, m.node.type, m.ndim), m.node))


@lowering("tril")
def _lower_triangle(input: Symbol, diagonal: int = 0) -> Symbol:
    return _tril(input, diagonal)


@lowering("triu")
def _upper_triangle(input: Symbol, diagonal: int = 0) -> Symbol:
    return _triu(input, diagonal)


def triangle(shape: Sequence[int], k: int) -> Node:
    """A mask of the lower triangle of matrices, up to diagonal k."""
    rank = len(shape)
    row, column = iota(shape, rank - 2), iota(shape, rank - 1)
    shifted = apply_operation(Scalar.ADD, row, number(k, Type.I64, rank)) if k else row
    return apply_operation(Scalar.LE, column, shifted)


# ------------------------------------------------------------------------------- products


@implements(np.dot)
def _dot(a: Any, b: Any, out: Any = None) -> Symbol:
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return call_ufunc(np.multiply, (a, b), out=out)
    if b.ndim > 2:
        refuse("np.dot of more than two dimensions")
    return call_ufunc(np.matmul, (a, b), out=out)


@implements(np.outer)
def _outer_product(a: Any, b: Any, out: Any = None) -> Symbol:
    return call_ufunc(np.multiply, (a.reshape(-1)[:, None], b.reshape(-1)[None, :]))


@implements(np.einsum)
def einsum(subscripts: Any, *operands: Any, **_: Any) -> Symbol:
    """Einsum of one or two operands with an explicit output; no letter twice in one operand."""
    operands_text, _arrow, target = subscripts.replace(" ", "").partition("->")
    terms = operands_text.split(",")
    if not _arrow or len(terms) > 2 or any(len(set(t) - {"."}) != len(t.replace(".", ""))
                                           for t in terms):
        refuse(f"np.einsum of {subscripts}")
    if "..." in subscripts:
        terms, target = _spell_ellipses(terms, target, [np.ndim(x) for x in operands])
        if any(len(set(t)) != len(t) for t in terms):
            refuse(f"np.einsum of {subscripts}")
    sizes = {c: n for t, x in zip(terms, operands, strict=True)
             for c, n in zip(t, x.shape, strict=True)}
    nodes = [convert_to_node(x) for x in operands]
    if len(nodes) == 1:
        letters = [c for c in terms[0] if c in target]
        summed = reduce_axes(
            nodes[0], ReduceOp.SUM, [i for i, c in enumerate(terms[0]) if c not in target]
        )
        return wrap_node(graph.permute(summed, [letters.index(c) for c in target]))
    return wrap_node(_contract_pair(nodes, terms, target, sizes))


def _spell_ellipses(terms: list[str], target: str, ranks: list[int]) -> tuple[list[str], str]:
    """Replace ellipses with letters."""
    ellipsis_rank = max(r - len(t) + 3 for t, r in zip(terms, ranks, strict=True) if "..." in t)
    letters = "ABCDEFGHIJ"[:ellipsis_rank]
    spelled = []
    for t, r in zip(terms, ranks, strict=True):
        n = r - len(t) + 3
        spelled.append(t.replace("...", letters[ellipsis_rank - n :]) if "..." in t else t)
    return spelled, target.replace("...", letters)


def _contract_pair(nodes: list[Node], terms: list[str], target: str, sizes: dict[str, int]) -> Node:
    a, b = terms
    batch = [c for c in target if c in a and c in b]
    free = [c for c in target if c in a and c not in b]
    right = [c for c in target if c in b and c not in a]
    depth = [c for c in a if c in b and c not in target]
    matrices = []
    for node, term, order in ((nodes[0], a, (batch, free, depth)),
                              (nodes[1], b, (batch, depth, right))):
        flat = [c for group in order for c in group]
        extra = [i for i, c in enumerate(term) if c not in flat]
        node = reduce_axes(node, ReduceOp.SUM, extra)
        letters = [c for c in term if c in flat]
        node = graph.permute(node, [letters.index(c) for c in flat])
        matrices.append(reshape_node(node, [math.prod(sizes[c] for c in group) for group in order]))
    type = type_of(np.result_type(*(dtype_of(n.type) for n in matrices)))
    inside = compute_type(type)
    first, second = (cast(n, inside) for n in matrices)
    y = cast(graph.matmul(first, second, choose_full_precision(type)), type)
    result_letters = batch + free + right
    y = reshape_node(y, [sizes[c] for c in result_letters])
    return graph.permute(y, [result_letters.index(c) for c in target])


@implements(np.trace)
def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, **_: Any) -> Symbol:
    return reduce_array(np.add, diagonal(a, offset, axis1, axis2), -1)
