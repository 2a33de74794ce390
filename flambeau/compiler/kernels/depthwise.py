"""Depthwise convolutions, which have one input channel per output channel, and their weight
gradients: vectors of channels, with the kernel's taps inside.

No product of matrices is worth its packing here. Several columns are computed at a time, so that
they share the weights and their sums do not wait for one another. Those whose taps all lie inside
the image load without masks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...native.loop_ir.ir import (
    Accumulator, Apply, Begin, Index, Load, Loop, LoopKind, ReduceOp, Scalar, Statement, Update,
)
from ...native.target.graph_costs import DEPTHWISE_COLUMNS
from ..fusion.placement import Allocation
from ..ir.graph import Node
from ..ir.strided_view import StridedView
from .index_maps import FIXED, Coordinate, map_index, wrap_in_loops

Operand = tuple[Allocation, StridedView]
LoadElement = Callable[[Operand, Sequence[Coordinate]], Load]
Epilogue = Callable[[Accumulator, Sequence[Coordinate]], list[Statement]]


def is_depthwise(node: Node, channels: int) -> bool:
    """Whether each of a convolution's groups has one input and one output channel."""
    return channels == 1 and node.groups > 1 and node.groups == node.shape[-1]


def emit_convolution(
    node: Node, x: Operand, w: Operand, load: LoadElement, epilogue: Epilogue
) -> list[Statement]:
    """Build the loops of a CONV; `epilogue` stores what an accumulator holds."""
    images, rows, columns, channels = node.shape
    height, width = w[1].shape[:2]
    (row_step, step), (down, right) = node.stride, node.dilation
    n, h, g = Index("n"), Index("h"), Index("g")
    nests: list[Statement] = []
    for start, count, together in _split_into_blocks(columns, *_find_inner(node, x[1], width)):
        v, i, j = Index("w"), Index("kh"), Index("kw")
        part = x[0], _slice_columns(
            x[1], start * step, (count * together - 1) * step + (width - 1) * right + 1)
        weight = load(w, [map_index(i), map_index(j), FIXED, map_index(g)])
        row: Coordinate = (0, ((h, row_step), (i, down)))
        sums = [Accumulator(ReduceOp.SUM, node.type) for _ in range(together)]
        updates: list[Statement] = []
        stores: list[Statement] = []
        for k, total in enumerate(sums):
            column = (k * step, ((v, together * step), (j, right)))
            value = load(part, [map_index(n), row, column, map_index(g)])
            updates.append(Update(total, Apply(Scalar.MUL, (value, weight), node.type)))
            stores += epilogue(total, [map_index(n), map_index(h),
                                       map_index(v, together, start + k), map_index(g)])
        taps = wrap_in_loops(updates, [(i, height), (j, width)])
        body = [*map(Begin, sums), *taps, *stores]
        nests.append(Loop(v, count, [Loop(g, channels, body, LoopKind.VECTORIZED)]))
    return wrap_in_loops(nests, [(n, images), (h, rows)], LoopKind.PARALLEL)


def _split_into_blocks(columns: int, first: int, last: int) -> list[tuple[int, int, int]]:
    """Split columns into (start, number of blocks, columns of a block). Blocks between `first` and
    `last` are apart from those that read padding."""
    size = DEPTHWISE_COLUMNS
    end = columns // size
    low = min(-(-first // size), end)
    high = max(min(last // size, end), low)
    ranges = [(0, low, size), (low * size, high - low, size), (high * size, end - high, size),
              (end * size, columns - end * size, 1)]
    return [item for item in ranges if item[1]]


def emit_weight_gradient(
    node: Node, x: Operand, y: Operand, load: LoadElement, epilogue: Epilogue
) -> list[Statement]:
    """Build the loops of a CONV_WEIGHT. A row of taps has a sum each, so that they share what is
    read; threads share the rows of taps and the channels."""
    height, width, _, channels = node.shape
    images, rows, columns, _ = y[1].shape
    (row_step, step), (down, right) = node.stride, node.dilation
    n, h, g, i = Index("n"), Index("h"), Index("g"), Index("kh")
    sums = [Accumulator(ReduceOp.SUM, node.type) for _ in range(width)]
    row: Coordinate = (0, ((h, row_step), (i, down)))
    strips: list[Statement] = []
    first, last = (min(edge, columns) for edge in _find_inner(node, x[1], width))
    for start, count in ((0, first), (first, last - first), (last, columns - last)):
        if not count:
            continue
        v = Index("w")
        part = x[0], _slice_columns(
            x[1], start * step, (count - 1) * step + (width - 1) * right + 1)
        gradient = load(y, [map_index(n), map_index(h), map_index(v, base=start), map_index(g)])
        updates: list[Statement] = []
        for j, total in enumerate(sums):
            column = map_index(v, step, j * right)
            value = load(part, [map_index(n), row, column, map_index(g)])
            updates.append(Update(total, Apply(Scalar.MUL, (value, gradient), node.type)))
        strips.append(Loop(v, count, updates))
    stores = [statement for j, total in enumerate(sums) for statement in epilogue(
        total, [map_index(i), (j, ()), FIXED, map_index(g)])]
    body = [*map(Begin, sums), *wrap_in_loops(strips, [(n, images), (h, rows)]), *stores]
    return wrap_in_loops(body, [(i, height), (g, channels)], LoopKind.PARALLEL)


def _find_inner(node: Node, window: StridedView, width: int) -> tuple[int, int]:
    """Return the range of result columns whose taps all lie inside the image."""
    low, high = (0, window.shape[2]) if window.valid is None else window.valid[2]
    step, reach = node.stride[1], (width - 1) * node.dilation[1]
    first = -(-low // step)
    return first, max((high - 1 - reach) // step + 1, first)


def _slice_columns(window: StridedView, start: int, extent: int) -> StridedView:
    images, rows, _, channels = window.shape
    return window.slice((0, 0, start, 0), (1, 1, 1, 1), (images, rows, extent, channels))
