"""NumPy's choices by conditions and positions, triangles, and products, on symbols."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....native.loop_ir.ir import ReduceOp, Scalar, Type
from ...ir import graph
from ...ir.graph import Node, Op
from . import node_builders as nodes
from .reductions import _reduce
from .indexing import positions, rows
from .node_builders import (
    applied, broadcast_shape, cast, computed, dtype_of, folded, iota, number, reshaped, stretched,
    type_of,
)
from ..registry import lowering, refuse
from .symbolic_array import Symbol, called, kind_of, node_of, parts_of, stands_for, symbol


@stands_for(np.where)
def _where(condition: Any, *choices: Any) -> Symbol:
    if len(choices) != 2:
        refuse("the places where a condition holds")
    test = node_of(condition)
    if test.type is not Type.BOOL:
        test = applied(Scalar.NE, test, number(0, test.type, len(test.shape)))
    kinds = [v if isinstance(kind_of(v), type) else kind_of(v) for v in choices]
    kind = np.result_type(*kinds)
    return symbol(nodes.where(test, *(node_of(v, kind) for v in choices)))


@stands_for(np.copyto)
def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    made = node_of(src, dst.dtype)
    if where is not True:
        made = nodes.where(node_of(where), made, dst.node)
    dst.assign(made)


@stands_for(np.clip)
def _clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **_: Any) -> Symbol:
    y = a if a_min is None else called(np.maximum, (a, a_min))
    y = y if a_max is None else called(np.minimum, (y, a_max))
    return y if out is None else called(np.positive, (y,), out=out)


@stands_for(np.take)
def _take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    if mode != "raise":
        refuse("np.take with a mode")
    node = node_of(a) if axis is not None else reshaped(node_of(a), (-1,))
    return symbol(rows(node, node_of(indices), int(axis or 0) % len(node.shape)))


@stands_for(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Symbol:
    """Elements at positions along an axis; other axes broadcast."""
    x, index = node_of(arr), node_of(indices)
    at = axis % len(x.shape)
    index = positions(index, x.shape[at])
    shape = list(broadcast_shape(reshaped_one(x, at), reshaped_one(index, at)))
    index = stretched(index, [index.shape[at] if i == at else n for i, n in enumerate(shape)])
    x = stretched(x, [x.shape[at] if i == at else n for i, n in enumerate(shape)])
    return symbol(Node(Op.TAKE_ALONG, (x, index), index.shape, x.type, {"axis": at}))


def reshaped_one(node: Node, axis: int) -> Node:
    """A stand-in with extent 1 along an axis, for its shape alone."""
    shape = tuple(1 if i == axis else n for i, n in enumerate(node.shape))
    return graph.constant(0, node.type, shape)


@stands_for(np.diagonal)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Symbol:
    """Elements where two axes have one index, as the last axis: a window."""
    first, second = axis1 % a.ndim, axis2 % a.ndim
    order = [i for i in range(a.ndim) if i not in (first, second)]
    turned = a.transpose((*order, first, second))
    n, m = turned.shape[-2:]
    length = max(min(n, m - offset) if offset >= 0 else min(n + offset, m), 0)
    start = (offset if offset >= 0 else -offset * m) if length else 0
    flat = turned.reshape((*turned.shape[:-2], n * m))
    return flat[..., start : start + (length - 1) * (m + 1) + 1 : m + 1] if length \
        else flat[..., :0]  # fmt: skip


@stands_for(np.tril)
def _tril(m: Any, k: int = 0) -> Symbol:
    keep = triangle(m.shape, k)
    return symbol(nodes.where(keep, m.node, number(0, m.node.type, m.ndim)))


@stands_for(np.triu)
def _triu(m: Any, k: int = 0) -> Symbol:
    keep = triangle(m.shape, k - 1)
    return symbol(nodes.where(keep, number(0, m.node.type, m.ndim), m.node))


@lowering("tril")
def _lower_triangle(input: Symbol, diagonal: int = 0) -> Symbol:
    return _tril(input, diagonal)


@lowering("triu")
def _upper_triangle(input: Symbol, diagonal: int = 0) -> Symbol:
    return _triu(input, diagonal)


def triangle(shape: Sequence[int], k: int) -> Node:
    """Where matrices have their lower triangle, up to the diagonal k."""
    rank = len(shape)
    row, column = iota(shape, rank - 2), iota(shape, rank - 1)
    shifted = applied(Scalar.ADD, row, number(k, Type.I64, rank)) if k else row
    return applied(Scalar.LE, column, shifted)


# ------------------------------------------------------------------------------- products


@stands_for(np.dot)
def _dot(a: Any, b: Any, out: Any = None) -> Symbol:
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return called(np.multiply, (a, b), out=out)
    if b.ndim > 2:
        refuse("np.dot of more than matrices")
    return called(np.matmul, (a, b), out=out)


@stands_for(np.outer)
def _outer_product(a: Any, b: Any, out: Any = None) -> Symbol:
    return called(np.multiply, (a.reshape(-1)[:, None], b.reshape(-1)[None, :]))


@stands_for(np.einsum)
def einsum(subscripts: Any, *operands: Any, **_: Any) -> Symbol:
    """Products summed over letters, of one or two operands; no letter twice in one."""
    given, _arrow, target = subscripts.replace(" ", "").partition("->")
    terms = given.split(",")
    if not _arrow or len(terms) > 2 or any(len(set(t) - {"."}) != len(t.replace(".", ""))
                                           for t in terms):  # fmt: skip
        refuse(f"np.einsum of {subscripts}")
    if "..." in subscripts:
        terms, target = _spelled(terms, target, [np.ndim(x) for x in operands])
        if any(len(set(t)) != len(t) for t in terms):
            refuse(f"np.einsum of {subscripts}")
    sizes = {c: n for t, x in zip(terms, operands, strict=True)
             for c, n in zip(t, x.shape, strict=True)}  # fmt: skip
    nodes = [node_of(x) for x in operands]
    if len(nodes) == 1:
        kept = [c for c in terms[0] if c in target]
        made = folded(
            nodes[0], ReduceOp.SUM, [i for i, c in enumerate(terms[0]) if c not in target]
        )
        return symbol(graph.permute(made, [kept.index(c) for c in target]))
    return symbol(_pair(nodes, terms, target, sizes))


def _spelled(terms: list[str], target: str, ranks: list[int]) -> tuple[list[str], str]:
    """Ellipses as letters."""
    many = max(r - len(t) + 3 for t, r in zip(terms, ranks, strict=True) if "..." in t)
    letters = "ABCDEFGHIJ"[:many]
    named = []
    for t, r in zip(terms, ranks, strict=True):
        n = r - len(t) + 3
        named.append(t.replace("...", letters[many - n :]) if "..." in t else t)
    return named, target.replace("...", letters)


def _pair(nodes: list[Node], terms: list[str], target: str, sizes: dict[str, int]) -> Node:
    a, b = terms
    batch = [c for c in target if c in a and c in b]
    left = [c for c in target if c in a and c not in b]
    right = [c for c in target if c in b and c not in a]
    depth = [c for c in a if c in b and c not in target]
    made = []
    for node, term, order in ((nodes[0], a, (batch, left, depth)),
                              (nodes[1], b, (batch, depth, right))):  # fmt: skip
        flat = [c for group in order for c in group]
        extra = [i for i, c in enumerate(term) if c not in flat]
        node = folded(node, ReduceOp.SUM, extra)
        kept = [c for c in term if c in flat]
        node = graph.permute(node, [kept.index(c) for c in flat])
        made.append(reshaped(node, [math.prod(sizes[c] for c in group) for group in order]))
    type = type_of(np.result_type(*(dtype_of(n.type) for n in made)))
    inside = computed(type)
    first, second = (cast(n, inside) for n in made)
    y = cast(graph.matmul(first, second, parts_of(type)), type)
    found = batch + left + right
    y = reshaped(y, [sizes[c] for c in found])
    return graph.permute(y, [found.index(c) for c in target])


@stands_for(np.trace)
def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, **_: Any) -> Symbol:
    return _reduce(np.add, diagonal(a, offset, axis1, axis2), -1)
