"""Padding with copied elements, resampling, im2col and col2im, and their adjoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....native.loop_ir.ir import ReduceOp, Scalar
from ....ops.view.padding import pair_pads, locate_sources
from ...ir import graph
from ...ir.graph import Node
from ..numpy.indexing import match_advanced_index
from ..numpy.node_builders import (
    apply_operation, cast, compute_type, literal, reduce_axes, reshape_node, slice_axis,
    stack_nodes,
)
from ..numpy.symbolic_array import Symbol, wrap_node
from ..registry import lowering
from .pool import Windows
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


# ------------------------------------------------------------------------------- resampling


@lowering("_resampled_adjoint")
def _resampled_adjoint(g: Symbol, shape: Sequence[int], taps: Sequence[Any]) -> Symbol:
    """Multiply by a matrix along each axis, or sum repeated elements for nearest upsampling."""
    y = wrap_node(cast(g.node, compute_type(g.node.type)))
    for t in reversed(taps):
        n, out = shape[t.axis], t.indices.shape[1]
        repeated = np.arange(n).repeat(out // n) if out % n == 0 else None
        if t.weights is None and repeated is not None and np.array_equal(t.indices[0], repeated):
            cut = y.reshape((*y.shape[: t.axis], n, out // n, *y.shape[t.axis + 1 :]))
            y = np.sum(cut, t.axis + 1)
            continue
        matrix = np.zeros((out, n), y.dtype)
        weights = np.ones(t.indices.shape) if t.weights is None else t.weights
        np.add.at(matrix, (np.arange(out)[None], t.indices), weights)
        y = np.moveaxis(np.matmul(np.moveaxis(y, t.axis, -1), matrix), -1, t.axis)
    return y.astype(g.dtype)


# ------------------------------------------------------------------------------- columns


@lowering("_im2col")
def _im2col(input: Symbol, window: Any) -> Symbol:
    windows = Windows(input.node, window)
    x = windows.add_border(input.node, 0)
    n, c = input.shape[:2]
    parts = stack_nodes([windows.met(x, position) for position in windows.positions()], 2)
    return wrap_node(reshape_node(parts, (n, c * windows.places, -1)))


@lowering("_col2im")
def _col2im(input: Symbol, spatial: Sequence[int], window: Any) -> Symbol:
    kh, kw = window.kernel
    n, c = input.shape[0], input.shape[1] // (kh * kw)
    like = graph.constant(0, input.node.type, (n, c, *spatial))
    windows = Windows(like, window)
    columns = input.reshape((n, c, kh, kw, *windows.output))
    return wrap_node(windows.spread_back(lambda at: columns[:, :, at[0], at[1]].node, like))
