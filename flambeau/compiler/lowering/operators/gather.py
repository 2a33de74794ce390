"""Rows and elements by position: embeddings, gather and scatter along an axis.

Lowerings assume positions within bounds; these are checked before the program writes anything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....native.loop_ir.ir import Scalar, Type
from ....native.target.graph_costs import MAX_POSITION_TABLE_ELEMENTS, MAX_SELECT_CHAIN_POSITIONS
from ...ir import graph
from ...ir.axis_order import invert_permutation
from ...ir.graph import Node, Op
from ..numpy.indexing import (
    flatten_positions, match_advanced_index, normalize_positions, take_along_axis_of,
)
from ..numpy.node_builders import (
    apply_operation, broadcast_to, cast, compute_type, iota, number, reshape_node, where,
)
from ..numpy.symbolic_array import Symbol, convert_to_node, is_symbol, wrap_node
from ..registry import lowering, refuse, require, require_positions


def _add_rows(index: Node, values: Node, shape: Sequence[int]) -> Node:
    """Add rows to a zero array of a shape, summing half precision in F32."""
    inside = cast(values, compute_type(values.type))
    sums = Node(Op.ADD_ROWS, (cast(index, Type.I64), inside), tuple(shape), inside.type)
    return cast(sums, values.type)


# ------------------------------------------------------------------------------- embeddings


@lowering("_embedding")
def _embedding(weight: Any, indices: Any, *_: Any) -> Symbol:
    return wrap_node(take_along_axis_of(convert_to_node(weight), convert_to_node(indices), 0,
                                        False))


@lowering("embedding_dense_backward")
def _embedding_backward(
    grad_output: Symbol, indices: Symbol, num_weights: int, padding_idx: int,
    scale_grad_by_freq: bool,
) -> Symbol:
    width = grad_output.shape[-1]
    g = grad_output.node
    flat = reshape_node(cast(convert_to_node(indices), Type.I64), (-1,))
    g = cast(reshape_node(g, (flat.shape[0], width)), compute_type(g.type))
    if padding_idx >= 0:
        is_counted = apply_operation(Scalar.NE, flat, number(padding_idx, Type.I64, 1))
        g = where(reshape_node(is_counted, (*is_counted.shape, 1)), g, number(0, g.type, 2))
    if scale_grad_by_freq:
        ones = graph.constant(1, g.type, flat.shape)
        counts = take_along_axis_of(_add_rows(flat, ones, (num_weights,)), flat, 0, False)
        g = apply_operation(Scalar.DIV, g, reshape_node(counts, (*counts.shape, 1)))
    return wrap_node(cast(_add_rows(flat, g, (num_weights, width)), grad_output.node.type))


# ------------------------------------------------------------------------------- one axis


def _take_along_axis(x: Node, index: Node, axis: int) -> Node:
    """Select x's elements at an index of the same rank, whose other extents may be smaller."""
    for i, n in enumerate(index.shape):
        if i != axis and n < x.shape[i]:
            x = wrap_node(x)[(slice(None),) * i + (slice(0, n),)].node
    index = cast(index, Type.I64)
    return Node(Op.TAKE_ALONG, (x, index), index.shape, x.type, {"axis": axis})


@lowering("gather")
def _gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Symbol:
    x, at = convert_to_node(input), convert_to_node(index)
    if not x.shape:
        return wrap_node(broadcast_to(x, at.shape))
    if not at.shape:
        return wrap_node(reshape_node(take_along_axis_of(x, at, 0, False), ()))
    if 0 in at.shape:
        return wrap_node(graph.constant(0, x.type, at.shape))
    return wrap_node(_take_along_axis(x, at, dim % len(x.shape)))


def _flatten_index(index: Node, axis: int, shape: Sequence[int]) -> Node:
    """The row-major positions of the elements that an index along an axis selects."""
    grid = [index if i == axis else iota(index.shape, i) for i in range(len(index.shape))]
    return reshape_node(flatten_positions(grid, shape, False), (-1,))


def _scatter_sum(g: Node, axis: int, index: Node, shape: Sequence[int]) -> Node:
    if axis == 0 and len(shape) == 1:
        return _add_rows(reshape_node(index, (-1,)), reshape_node(g, (-1,)), shape)
    flat = _flatten_index(index, axis, shape)
    sums = _add_rows(flat, reshape_node(g, (-1,)), (math.prod(shape),))
    return reshape_node(sums, shape)


def _add_along(g: Node, axis: int, index: Node, shape: Sequence[int]) -> Node:
    """Add g at the indices of a zero array of a shape; with one index per row, use a select."""
    if not shape:
        return reshape_node(wrap_node(g).sum().node, ())
    if not index.shape:
        index, g = reshape_node(index, (1,)), reshape_node(g, (1,))
    if 0 in index.shape:
        return graph.constant(0, g.type, tuple(shape))
    same = all(n == m or i == axis for i, (n, m) in enumerate(zip(index.shape, shape, strict=True)))
    if index.shape[axis] == 1 and same:
        hits = apply_operation(Scalar.EQ, iota(shape, axis), cast(index, Type.I64))
        return where(hits, g, number(0, g.type, len(shape)))
    return _scatter_sum(g, axis, index, shape)


@lowering("_scattered")
def _scatter_backward(g: Any, dim: int, index: Any, shape: Sequence[int]) -> Symbol:
    axis = dim % len(shape) if shape else 0
    return wrap_node(_add_along(convert_to_node(g), axis, convert_to_node(index), tuple(shape)))


def _crop_source(src: Node, index: Node) -> Node:
    """The part of a source that an index covers."""
    if len(src.shape) != len(index.shape):
        return broadcast_to(src, index.shape)
    return wrap_node(src)[tuple(slice(0, n) for n in index.shape)].node


def _require_along(x: Node, dim: int, index: Node) -> None:
    """Require that an index lies within an axis."""
    require_positions(index, x.shape[dim] if x.shape else 1)


@lowering("_scatter_add")
def _scatter_add(input: Any, dim: int, index: Any, src: Any) -> Symbol:
    x, at = convert_to_node(input), convert_to_node(index)
    _require_along(x, dim, at)
    if 0 in at.shape:
        return input
    share = _add_along(_crop_source(convert_to_node(src), at), dim % max(len(x.shape), 1), at,
                       x.shape)
    return input + wrap_node(share)


@lowering("_scatter_reduce")
def _scatter_reduce(
    input: Symbol, dim: int, index: Any, src: Any, reduce: str, include_self: bool
) -> Symbol:
    x, at = input.node, convert_to_node(index)
    if reduce not in ("sum", "mean"):
        refuse(f"a scatter by {reduce}")
    _require_along(x, dim, at)
    if 0 in at.shape:
        return input
    axis = dim % max(len(x.shape), 1)
    ones = graph.constant(1, Type.I64, at.shape)
    counts = wrap_node(_add_along(ones, axis, at, x.shape))
    total = wrap_node(_add_along(_crop_source(convert_to_node(src), at), axis, at, x.shape))
    initial = input if include_self else np.where(np.equal(counts, 0), input, input.dtype.type(0))
    if reduce == "sum":
        return initial + total
    counts = np.maximum(counts + (1 if include_self else 0), 1).astype(input.dtype)
    return (initial + total) // counts if input.dtype.kind in "iu" else (initial + total) / counts


@lowering("_scatter")
def _scatter(input: Any, dim: int, index: Any, src: Any) -> Symbol:
    x, at = convert_to_node(input), cast(convert_to_node(index), Type.I64)
    _require_along(x, dim, convert_to_node(index))
    if 0 in at.shape:
        return wrap_node(x)
    if not x.shape or not at.shape:
        return wrap_node(_write_in_order(reshape_node(x, (-1,)), 0, reshape_node(at, (1,)),
                                         reshape_node(convert_to_node(src), (1,)), x.shape))
    return wrap_node(
        _write_in_order(x, dim % len(x.shape), at, _crop_source(convert_to_node(src), at), x.shape)
    )


def _write_in_order(x: Node, axis: int, index: Node, src: Node, result: Sequence[int]) -> Node:
    """Write position by position along the axis, so that the last write wins."""
    if index.shape[axis] > MAX_SELECT_CHAIN_POSITIONS:
        refuse("a scatter in which the last of several equal indices wins")
    shape = [n for i, n in enumerate(x.shape) if i != axis]
    part = [n for i, n in enumerate(index.shape) if i != axis]
    inner = x
    if shape != part:
        inner = wrap_node(x)[tuple(
            slice(None) if i == axis else slice(0, n) for i, n in enumerate(index.shape))].node
    positions = iota(inner.shape, axis)
    updated = inner
    for k in range(index.shape[axis]):
        pick = (slice(None),) * axis + (slice(k, k + 1),)
        hits = apply_operation(Scalar.EQ, positions, wrap_node(index)[pick].node)
        updated = where(hits, wrap_node(src)[pick].node, updated)
    if inner is not x:
        updated = Node(Op.UPDATE, (x, updated), x.shape, x.type, {
            "starts": (0,) * len(x.shape), "steps": (1,) * len(x.shape)})
    return reshape_node(updated, result)


# ------------------------------------------------------------------------------- vectors of rows


@lowering("index_select")
def _index_select(input: Any, dim: int, index: Any) -> Symbol:
    x, at = convert_to_node(input), convert_to_node(index)
    if not x.shape:
        return input
    return wrap_node(take_along_axis_of(x, reshape_node(at, (-1,)), dim % len(x.shape), False))


@lowering("_index_add")
def _index_add(
    input: Any, dim: int, index: Any, source: Any, alpha: Any = 1
) -> Symbol:
    x, at, values = convert_to_node(input), reshape_node(convert_to_node(index),
                                                         (-1,)), convert_to_node(source)
    _require_along(x, dim, convert_to_node(index))
    values = cast(values, x.type)
    if not x.shape:
        x, values = reshape_node(x, (1,)), reshape_node(values, (-1,))
    axis = dim % len(x.shape)
    items = [at if i == axis else slice(None) for i in range(len(x.shape))]
    front = match_advanced_index(x.shape, items, False)
    share = wrap_node(front.scatter_add(x.shape, values))
    share = share if alpha.__class__ in (int, float) and alpha == 1 else share * alpha
    return (wrap_node(x) + share).reshape(input.shape).astype(input.dtype)


@lowering("_index_fill")
def _index_fill(input: Any, dim: int, index: Any, value: Any) -> Symbol:
    x, at = convert_to_node(input), reshape_node(convert_to_node(index), (-1,))
    shape = x.shape
    x = x if shape else reshape_node(x, (1,))
    axis = dim % len(x.shape)
    require_positions(convert_to_node(index), x.shape[axis], True)
    positions = iota((x.shape[axis], at.shape[0]), 0)
    columns = reshape_node(normalize_positions(at, x.shape[axis]), (1, at.shape[0]))
    hits = wrap_node(apply_operation(Scalar.EQ, positions, columns)).any(1)
    mask = hits.reshape([-1 if i == axis else 1 for i in range(len(x.shape))])
    filled = where(mask.node, cast(convert_to_node(value), x.type), x)
    return wrap_node(reshape_node(filled, shape))


@lowering("take")
def _take(input: Any, index: Any) -> Symbol:
    return wrap_node(take_along_axis_of(reshape_node(convert_to_node(input), (-1,)),
                                        convert_to_node(index)))


@lowering("_scatter_add_flat")
def _scatter_add_flat(g: Symbol, indices: Symbol, spatial: Sequence[int]) -> Symbol:
    n, lead = math.prod(spatial), g.shape[: g.ndim - len(spatial)]
    images = math.prod(lead)
    if not g.size:
        return np.zeros_like(g, shape=(*lead, *spatial))
    index = cast(reshape_node(indices.node, (images, -1)), Type.I64)
    return wrap_node(reshape_node(
        _scatter_sum(reshape_node(g.node, index.shape), 1, index, (images, n)), (*lead, *spatial)))


@lowering("_gather_flat")
def _gather_flat(input: Symbol, indices: Symbol, n: int) -> Symbol:
    if not indices.size:
        return np.zeros_like(input, shape=indices.shape)
    flat = input.reshape((*input.shape[: input.ndim - n], -1))
    index = indices.reshape((*flat.shape[:-1], -1))
    return wrap_node(_take_along_axis(flat.node, index.node, flat.ndim - 1)).reshape(indices.shape)


# ------------------------------------------------------------------------------- the last written


def _find_last_writers(index: Node, n: int) -> tuple[Node, Node]:
    """Return, for each of n rows, the last position in `index` that names it, and whether any does.
    """
    m = index.shape[0]
    if not m or n * m > MAX_POSITION_TABLE_ELEMENTS:
        refuse("an assignment in which the last of several equal indices wins")
    hits = apply_operation(
        Scalar.EQ, iota((n, m), 0), reshape_node(normalize_positions(index, n), (1, m))
    )
    writers = where(hits, iota((n, m), 1), number(-1, Type.I64, 2))
    last = wrap_node(writers).max(1)
    clamped: Symbol = np.maximum(last, 0)
    has_writer: Symbol = np.greater_equal(last, 0)
    return clamped.node, has_writer.node


def write_rows(x: Node, index: Node, source: Node) -> Node:
    """Replace rows of x at a vector of indices by rows of a source; the last write wins."""
    last, has_writer = _find_last_writers(index, x.shape[0])
    rest = (1,) * (len(x.shape) - 1)
    return where(
        reshape_node(has_writer, (x.shape[0], *rest)), take_along_axis_of(source, last, 0, False), x
    )


@lowering("index_copy")
def _index_copy(input: Symbol, dim: int, index: Symbol, source: Symbol) -> Any:
    x = input if input.ndim else input.reshape(1)
    source = source if source.ndim else source.reshape(1)
    axis = dim % x.ndim
    require_positions(index.node, x.shape[axis], True)
    x, source = (np.moveaxis(v, axis, 0) for v in (x, source))
    written_rows = wrap_node(write_rows(x.node, reshape_node(index.node, (-1,)), source.node))
    return np.moveaxis(written_rows, 0, axis).reshape(input.shape)


@lowering("put")
def _lower_put(input: Symbol, index: Any, source: Any, accumulate: bool = False) -> Symbol:
    x, at, values = (reshape_node(convert_to_node(v), (-1,)) for v in (input, index, source))
    require_positions(convert_to_node(index), x.shape[0], True)
    if accumulate:
        share = wrap_node(_add_rows(normalize_positions(at, x.shape[0]), values, x.shape))
        return input + share.reshape(input.shape)
    return wrap_node(write_rows(x, at, values)).reshape(input.shape) if at.shape[0] else input


@lowering("_max_unpool1d", "_max_unpool2d", "_max_unpool3d")
def _max_unpool(input: Symbol, indices: Symbol, spatial: Sequence[int]) -> Symbol:
    lead = input.shape[: input.ndim - len(spatial)]
    images, n = math.prod(lead), math.prod(spatial)
    if not input.size:
        return np.zeros_like(input, shape=(*lead, *spatial))
    require_positions(indices.node, n)
    at = indices.reshape((images, -1)).astype(np.int64) + np.arange(images)[:, None] * n
    zeros: Symbol = np.zeros_like(input, shape=(images * n,))
    unpooled = write_rows(zeros.node, at.reshape(-1).node, input.reshape(-1).node)
    return wrap_node(unpooled).reshape((*lead, *spatial))


# ------------------------------------------------------------------------------- masks


def _rank_selected(mask: Symbol) -> Symbol:
    """Return, for each place where a mask holds, the number of such places before it."""
    flat = mask.reshape(-1).astype(np.int64)
    return np.maximum(np.cumsum(flat) - 1, 0)


@lowering("_masked_spread")
def _masked_scatter_backward(g: Symbol, mask: Symbol, shape: Sequence[int]) -> Symbol:
    if not g.size:
        return np.zeros_like(g, shape=tuple(shape))
    values = wrap_node(take_along_axis_of(g.node, _rank_selected(mask).node, 0, False)).reshape(
        mask.shape
    )
    return np.where(mask, values, g.dtype.type(0))


@lowering("_masked_scatter")
def _masked_scatter(input: Symbol, mask: Symbol, source: Symbol) -> Symbol:
    require(np.sum(mask) <= source.size)
    if not source.size or not input.size:
        return input
    last = source.size - 1
    ranks = np.minimum(_rank_selected(mask), last)
    values = wrap_node(take_along_axis_of(source.reshape(-1).node, ranks.node, 0, False))
    return np.where(mask, values.reshape(mask.shape), input)


@lowering("_gather_masked")
def _gather_masked(input: Symbol, mask: Symbol, count: int) -> Symbol:
    if not count or not input.size:
        return np.zeros_like(input, shape=(count,))
    ranks = np.minimum(_rank_selected(mask), count - 1)
    chosen = np.where(mask, input, input.dtype.type(0)).reshape(-1)
    return wrap_node(_add_rows(ranks.node, chosen.node, (count,)))


# ------------------------------------------------------------------------------- indices


def _convert_index(index: Any, rank: int) -> list[Any]:
    """Convert an index to full slices and integer nodes; refuse masks and other slices."""
    entries: list[Any] = []
    for w in index if isinstance(index, (tuple, list)) else (index,):
        if is_symbol(w) or isinstance(w, np.ndarray):
            if w.dtype.kind == "b":
                refuse("a boolean mask as an index")
            entries.append(convert_to_node(w))
        elif isinstance(w, slice) and w == slice(None):
            entries.append(w)
        else:
            refuse("an index that mixes arrays and views")
    return [*entries, *[slice(None)] * (rank - len(entries))]


@lowering("index")
def _index(input: Symbol, where: Any) -> Symbol:
    items = _convert_index(where, input.ndim)
    if sum(item.__class__ is Node for item in items) > 1:  # TAKE checks a single index
        _require_each(input.shape, items)
    return wrap_node(match_advanced_index(input.shape, items).read(input.node))


def _require_each(shape: Sequence[int], items: Sequence[Any]) -> None:
    """Check positions per axis: a flat position may be in bounds when a single one is not."""
    for size, item in zip(shape, items, strict=True):
        if item.__class__ is Node:
            require_positions(item, size, True)


@lowering("index_adjoint")
def _index_adjoint(g: Symbol, shape: Sequence[int], where: Any) -> Symbol:
    positions = match_advanced_index(shape, _convert_index(where, len(shape)))
    return wrap_node(positions.scatter_add(shape, g.node))


@lowering("_index_put")
def _index_put(input: Symbol, values: Symbol, where: Any, accumulate: bool) -> Any:
    if accumulate:
        items = _convert_index(where, input.ndim)
        _require_each(input.shape, items)
        positions = match_advanced_index(input.shape, items)
        share = positions.scatter_add(input.shape, cast(values.node, input.node.type))
        return input + wrap_node(share)
    masks = [w for w in where if is_symbol(w) and w.dtype.kind == "b"]
    if len(masks) == len(where) == 1 and values.size == 1:
        mask = masks[0].reshape((*masks[0].shape, *(1,) * (input.ndim - masks[0].ndim)))
        return np.where(mask, values.reshape(()).astype(input.dtype), input)
    items = _convert_index(where, input.ndim)
    _require_each(input.shape, items)
    positions = match_advanced_index(input.shape, items)
    front = graph.permute(input.node, positions.order)
    rest = front.shape[positions.count :]
    flat = reshape_node(front, (math.prod(front.shape[: positions.count]), *rest))
    source = positions.first(cast(values.node, flat.type), rest)
    updated = reshape_node(
        write_rows(flat, reshape_node(positions.index, (-1,)), source), front.shape
    )
    return wrap_node(graph.permute(updated, invert_permutation(positions.order)))
