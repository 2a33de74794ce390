"""Padding with a number, and the adjoint of padding with copied elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....native.loop_ir.ir import ReduceOp, Scalar
from ....ops.view.padding import pair_pads, locate_sources
from ...ir import graph
from ...ir.graph import Node
from ..numpy.indexing import match_advanced_index
from ..numpy.node_builders import (
    apply_operation, cast, compute_type, literal, reduce_axes, slice_axis,
)
from ..numpy.symbolic_array import Symbol, wrap_node
from ..registry import lowering
from .strided_windows import add_border


@lowering("constant_pad_nd")
def _constant_pad(input: Symbol, pad: Sequence[int], value: float = 0) -> Symbol:
    node = input.node
    pairs = pair_pads(pad, input.ndim)
    for axis, (before, after) in enumerate(pairs):
        start, end = max(-before, 0), node.shape[axis] - max(-after, 0)
        node = slice_axis(node, axis, start, max(end - start, 0))
    low, high = ([max(n, 0) for n in side] for side in zip(*pairs, strict=True))
    fill = np.asarray(value).astype(input.dtype)
    number = float(fill) if fill.dtype.kind in "fV" else fill.item()
    return wrap_node(add_border(node, low, high, number))


def _place_along(part: Node, axis: int, start: int, n: int) -> Node:
    """Place a part at `start` in n zeros along an axis."""
    low, high = [0] * len(part.shape), [0] * len(part.shape)
    low[axis], high[axis] = start, n - start - part.shape[axis]
    return graph.pad(part, low, high)


def _add_along(g: Node, axis: int, positions: np.ndarray, n: int) -> Node:
    """Add g at constant positions to n zeros along an axis."""
    shape = (*g.shape[:axis], n, *g.shape[axis + 1 :])
    items = [literal(positions.astype(np.int64)) if i == axis else slice(None)
             for i in range(len(shape))]
    return match_advanced_index(shape, items, False).scatter_add(shape, g)


def _fold_padding(g: Node, n: int, axis: int, before: int, after: int, mode: str) -> Node:
    """Sum the cotangents of padded elements into the elements that they copied."""
    sources = locate_sources(n, before, after, mode)
    if before < 0 or after < 0:
        return _add_along(g, axis, sources, n)
    gradient = slice_axis(g, axis, before, n)
    for start, places in ((0, sources[:before]), (before + n, sources[before + n :])):
        if not places.size:
            continue
        part = slice_axis(g, axis, start, places.size)
        if mode == "replicate":
            part = reduce_axes(part, ReduceOp.SUM, (axis,), True)
        elif places[0] > places[-1]:
            part = slice_axis(part, axis, places.size - 1, places.size, -1)
        gradient = apply_operation(
            Scalar.ADD, gradient, _place_along(part, axis, int(places.min()), n)
        )
    return gradient


@lowering("_padded_adjoint")
def _padded_adjoint(
    g: Symbol, shape: Sequence[int], pad: Sequence[int], mode: str
) -> Symbol:
    y = cast(g.node, compute_type(g.node.type))
    for axis, (before, after) in reversed(list(enumerate(pair_pads(pad, g.ndim)))):
        if before or after:
            y = _fold_padding(y, shape[axis], axis, before, after, mode)
    return wrap_node(cast(y, g.node.type))
