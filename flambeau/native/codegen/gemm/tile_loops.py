"""Loops over the row groups and column panels of a product, with separate code for edges."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from llvmlite import ir

from ..llvm.address import add, ceil_divide, constant, multiply
from ..llvm.types import Number
from .blocking import is_known
from .pack import emit_min
from .product import PanelColumns, Product


class TileLoops:
    """Emits the loops of one product.

    `narrow_edges`: the last of a run-time number of panels has separate tiles for each width in
    vectors.
    """

    def __init__(self, product: Product, narrow_edges: bool = True) -> None:
        self.builder, self.p, self.tile = product.builder, product.p, product.tile
        self.narrow_edges = narrow_edges

    def in_blocks(
        self, first: Number, last: Number, step: Number, body: Callable[[Number, Number], None]
    ) -> None:
        """Emit body(start, end) for blocks of at most `step` between first and last."""
        b = self.builder
        count = ceil_divide(b, b.sub(constant(last), constant(first)), step)
        with b.counted_loop(0, count) as i:
            start = add(b, first, multiply(b, i, step))
            body(start, emit_min(b, add(b, start, step), last))

    def repeat(self, first: Number, last: Number, body: Callable[[Number], None]) -> None:
        """Emit body(i) for first <= i < last."""
        b = self.builder
        if isinstance(first, int) and isinstance(last, int):
            extent: Number = last - first
        else:
            extent = b.sub(constant(last), constant(first))
        with b.counted_loop(0, extent) as i:
            body(add(b, first, i))

    def over_panels(
        self, first: Number, last: Number, body: Callable[[Number, PanelColumns], None]
    ) -> None:
        """Emit body(panel, its columns), separately for the edge panel's number of vectors."""
        b, n, width, lanes = self.builder, self.p.n, self.tile.columns, self.tile.lanes
        if not is_known(n):
            self._loop_panels_of_unknown(first, last, body)
            return
        full, tail = divmod(n, width)
        if full:
            self.repeat(first, emit_min(b, last, full), lambda i: body(
                i, PanelColumns(multiply(b, i, width), width, self.tile.vectors)))
        if tail:
            edge = PanelColumns(full * width, tail, -(-tail // lanes))
            self._emit_if_beyond(last, full, lambda: body(full, edge))

    def _loop_panels_of_unknown(
        self, first: Number, last: Number, body: Callable[[Number, PanelColumns], None]
    ) -> None:
        """Emit panels whose last vector may be partial, then one panel of fewer vectors."""
        b, n, width, lanes = self.builder, constant(self.p.n), self.tile.columns, self.tile.lanes
        max_vectors = self.tile.vectors

        def panel(i: Number) -> None:
            start = multiply(b, i, width)
            body(i, PanelColumns(start, emit_min(b, width, b.sub(n, constant(start))), max_vectors))

        if not self.narrow_edges:
            self.repeat(first, last, panel)
            return
        full_panels = b.udiv(b.add(n, constant(lanes - 1)), constant(width))
        self.repeat(first, emit_min(b, last, full_panels), panel)
        remaining = b.sub(n, b.mul(full_panels, constant(width)))
        for vectors in range(1, max_vectors):
            edge = PanelColumns(multiply(b, full_panels, width), remaining, vectors)
            low, high = constant((vectors - 1) * lanes), constant(vectors * lanes)
            fits = b.and_(b.icmp_signed(">", remaining, low), b.icmp_signed("<=", remaining, high))
            self._emit_if_beyond(last, full_panels, partial(body, full_panels, edge), fits)

    def over_groups(
        self, first: Number, last: Number, body: Callable[[Number, int, Number], None]
    ) -> None:
        """Emit body(group, rows of the tile, valid rows)."""
        b, m, rows = self.builder, self.p.m, self.tile.rows
        if not (is_known(m) or self.p.near):
            self.repeat(first, last, lambda g: body(
                g, rows, emit_min(b, rows, b.sub(m, constant(multiply(b, g, rows))))))
            return
        if is_known(m):
            full, tail = divmod(m, rows)
            edge = tail
        else:  # the last tile extends beyond the existing rows
            full, tail, edge = b.udiv(m, constant(rows)), b.urem(m, constant(rows)), rows
        if full != 0:
            self.repeat(first, emit_min(b, last, full), lambda g: body(g, rows, rows))
        if tail != 0:
            self._emit_if_beyond(last, full, lambda: body(full, edge, tail))

    def _emit_if_beyond(
        self, end: Number, start: Number, body: Callable[[], None], fits: ir.Value | None = None
    ) -> None:
        """Emit the edge for the thread whose share extends into it, if it `fits`."""
        if isinstance(end, int) and isinstance(start, int):
            if end > start:
                body()
            return
        b = self.builder
        beyond = b.icmp_signed(">", constant(end), constant(start))
        with b.if_then(beyond if fits is None else b.and_(beyond, fits)):
            body()
