"""Contractions with several row or depth axes: convolutions, and their two backward passes.

Weights (`b`) are packed into panels of a register tile's width; a padded or turned image (`a`) is
packed into scratch a few rows at a time, an image already padded is read where it lies. Tiles span
as many row axes as it takes to fill the registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

from llvmlite import ir

from ...loop_ir.ir import Affine, Contract, Index, Load
from ..llvm.scratch_abi import USABLE_BYTES
from ..llvm.builder import Builder, vector
from ..loops.context import Context
from .direct_blocking import ConvPlan, PaddedCoordinate, Unsupported, plan_direct_conv
from .direct_tile import Bindings, ConvEpilogue, PlacedTile
from .pack_window import WindowPacker
from ..gemm.pack_panels import StridedBlock, pack_block
from ..loops.scratch import borrow_scratch
from ..loops.work_partition import split_units
from ..gemm.micro_kernel import DepthLoop, Sums, TileSource, emit_accumulation
from ..llvm.vectors import load_vector, store_vector
from ..llvm.address import add, constant, multiply, offset_bytes
from ..llvm.types import memory_type


def emit_direct_conv(context: Context, contract: Contract) -> None:
    """Emits a contraction of any number of row and depth axes, split among the threads.

    Raises Unsupported, before anything is emitted, for other forms.
    """
    cut = plan_direct_conv(contract, context.target, context.parallel)
    _DirectConvEmitter(context, contract, cut).emit()


class _DirectConvEmitter:
    """Emits one contraction."""

    def __init__(self, context: Context, contract: Contract, cut: ConvPlan) -> None:
        self.context, self.contract, self.cut = context, contract, cut
        self.b: Builder = context.builder
        self.size = cut.type.size
        self.panel_bytes = cut.steps * cut.width * self.size
        tile = cut.shape.rows * cut.width * self.size
        self.tile_bytes = tile
        window = -(-cut.scratch * self.size // 64) * 64 + 64 if cut.lines else 0
        sum_bytes = tile * cut.tiles * cut.units_at_once * cut.panels if cut.blocks > 1 else 0
        parts = (cut.lanes * cut.lanes * self.size, tile, cut.panels * self.panel_bytes, sum_bytes)
        self.places = [sum(parts[:k]) for k in range(len(parts) + 1)]
        if self.places[-1] + window > USABLE_BYTES:
            raise Unsupported("too much scratch")
        self.epilogue = ConvEpilogue(context, contract, cut)

    # ------------------------------------------------------------------------ what is where

    def a_stride(self, index: Index) -> int:
        """Bytes that an index moves in `a`, or in what is packed of it."""
        if not self.cut.lines:
            return int(self.contract.a.at.stride(index)) * self.size  # type: ignore[arg-type]
        total = 0
        for line, (_, stride) in zip(self.cut.lines, self.cut.local, strict=True):
            step = self.cut.reach(line)[1]
            total += sum(c // step * stride for i, c in line.terms if i is index)
        return total * self.size

    def _depth(self) -> list[DepthLoop]:
        """The loops over a block of the depth, merged where `a` allows it."""
        out: list[DepthLoop] = []
        width = self.cut.width * self.size
        for axis, extent in zip(reversed(self.cut.depth), reversed(self.cut.block), strict=True):
            if extent == 1 and out:
                continue
            stride = self.a_stride(axis.index)
            step = prod(int(d.extent) for d in out)
            if out and stride == out[0].extent * out[0].a:
                out[0] = DepthLoop(out[0].extent * extent, out[0].a, out[0].b)
            else:
                out.insert(0, DepthLoop(extent, stride, step * width))
        return out

    # ----------------------------------------------------------------------------- the loops

    def emit(self) -> None:
        """Column blocks by units of rows, this thread's share of them."""
        b, cut = self.b, self.cut
        groups = -(-cut.count // cut.panels)
        low, high = split_units(b, self.context, groups * cut.units)
        with borrow_scratch(b, self.context.tid) as memory:
            self.square, self.turning, self.panels, self.sums, self.window = (
                offset_bytes(b, memory, place) for place in self.places
            )
            zeros = [constant(0)] * len(cut.rows)
            self.shared = self._window(zeros, [0] * len(cut.depth)) if cut.once else None
            units = constant(cut.units)
            first = b.sdiv(low, units)
            end = b.sdiv(b.add(high, constant(cut.units - 1)), units)
            with b.counted_loop(first, end) as group:
                before = b.mul(group, units)
                start = b.intrinsic("smax", before.type, (b.sub(low, before), constant(0)))
                stop = b.minimum_of(b.sub(high, before), units)
                panel = b.mul(group, constant(cut.panels))
                until = b.minimum_of(b.add(panel, constant(cut.panels)), constant(cut.count))
                (self._whole if cut.blocks == 1 else self._blocked)(start, stop, panel, until)

    def _whole(self, start: ir.Value, stop: ir.Value, panel: ir.Value, until: ir.Value) -> None:
        """All of the depth at once: sums never leave the registers."""
        b, at = self.b, [0] * len(self.cut.depth)
        self._pack_panels(panel, until, at)
        with b.counted_loop(start, stop) as unit:
            rows = self._unit_rows(unit)
            a = self._placed(rows, at)
            for which, valid in self._each_panel(panel, until):
                packed = self._panel(which, panel)
                self._tiles(rows, lambda tile, _, packed=packed, which=which, valid=valid: (
                    self._finished(tile, self._summed(tile, a, packed, valid, None), which, valid)
                ))

    def _blocked(self, start: ir.Value, stop: ir.Value, panel: ir.Value, until: ir.Value) -> None:
        """A few units' sums wait in scratch while the blocks of the depth pass."""
        b, cut = self.b, self.cut
        with b.counted_loop(start, stop, cut.units_at_once) as first:
            last = b.minimum_of(b.add(first, constant(cut.units_at_once)), stop)

            def each(body: Callable[..., None]) -> None:
                for which, valid in self._each_panel(panel, until):
                    with b.counted_loop(first, last) as unit:
                        place = b.add(b.mul(b.sub(which, panel), constant(cut.units_at_once)),
                                      b.sub(unit, first))
                        place = b.mul(place, constant(cut.tiles * self.tile_bytes))
                        rows = self._unit_rows(unit)
                        body(rows, which, valid, offset_bytes(b, self.sums, place))

            def clear(rows: list[ir.Value], which: ir.Value, valid: int, sums: ir.Value) -> None:
                size = cut.lanes * self.size
                zero = ir.Constant(vector(memory_type(cut.type), cut.lanes), None)
                with b.counted_loop(0, cut.tiles * self.tile_bytes // size) as i:
                    store_vector(
                        b, zero, offset_bytes(b, sums, b.mul(i, constant(size))), self.size
                    )

            each(clear)
            for at in self._each_block():
                self._pack_panels(panel, until, at)
                if cut.lines:
                    self.shared = self._window([constant(0)] * len(cut.rows), at)
                each(self._adder(at, panel))

            def finish(rows: list[ir.Value], which: ir.Value, valid: int, sums: ir.Value) -> None:
                self._tiles(rows, lambda tile, n: self._finished(
                    tile, self._waiting(tile, sums, n, valid), which, valid))

            each(finish)

    def _each_panel(self, first: ir.Value, until: ir.Value) -> Iterator[tuple[ir.Value, int]]:
        """(a panel's number, its columns): emits code for full panels, and for a smaller last."""
        b, cut = self.b, self.cut
        if cut.count > 1 and cut.last == cut.width:
            with b.counted_loop(first, until) as which:
                yield which, cut.width
            return
        if cut.count > 1:
            full = b.minimum_of(until, constant(cut.count - 1))
            with b.counted_loop(first, full) as which:
                yield which, cut.width
        if cut.panels >= cut.count:
            yield constant(cut.count - 1), cut.last
            return
        with b.if_then(b.icmp_signed("==", until, constant(cut.count))):
            yield constant(cut.count - 1), cut.last

    # ------------------------------------------------------------------- positions and packing

    def _each_block(self) -> Iterator[list[ir.Value | int]]:
        """Where each block of the depth begins: code for full ones, and for a smaller last one."""
        b, cut = self.b, self.cut
        extents, block = cut.depth_extents, cut.block
        k = max(k for k, (n, m) in enumerate(zip(extents, block, strict=True)) if n > m)
        inner = [0] * (len(block) - k - 1)
        with b.counted_loop(0, prod(extents[:k])) as number:
            outer: list[ir.Value | int] = []
            for extent in reversed(extents[:k]):
                outer.insert(0, b.srem(number, constant(extent)))
                number = b.sdiv(number, constant(extent))
            full, rest = divmod(extents[k], block[k])
            with b.counted_loop(0, full) as i:
                yield [*outer, multiply(b, i, block[k]), *inner]
            if rest:
                cut.block = [*block[:k], rest, *block[k + 1 :]]
                yield [*outer, full * block[k], *inner]
                cut.block = block

    def _adder(self, at: Sequence[ir.Value | int], panel: ir.Value) -> Callable[..., None]:
        """Code that adds a block's products to the sums of a unit and a panel."""

        def add(rows: list[ir.Value], which: ir.Value, valid: int, sums: ir.Value) -> None:
            a, packed = self._placed(rows, at), self._panel(which, panel)

            def accumulate_tile(tile: PlacedTile, n: ir.Value) -> None:
                self._kept(tile, sums, n, self._summed(tile, a, packed, valid, (sums, n)), valid)

            self._tiles(rows, accumulate_tile)

        return add

    def _unit_rows(self, unit: ir.Value) -> list[ir.Value]:
        """The first row of a unit, along each axis."""
        b, cut = self.b, self.cut
        out = [constant(0)] * len(cut.rows)
        extents = cut.row_extents
        for k in range(cut.first, -1, -1):
            each = cut.unit[k]
            count = -(-extents[k] // each)
            here = b.srem(unit, constant(count)) if k else unit
            out[k] = constant(multiply(b, here, each))
            unit = b.sdiv(unit, constant(count)) if k else unit
        return out

    def _pack_panels(self, panel: ir.Value, until: ir.Value, at: Sequence[ir.Value | int]) -> None:
        b, cut, load = self.b, self.cut, self.contract.b
        column = int(load.at.stride(self.contract.column.index))  # type: ignore[arg-type]
        axes = [(n, int(load.at.stride(a.index)))  # type: ignore[arg-type]
                for a, n in zip(cut.depth, cut.block, strict=True)]
        block = StridedBlock(axes, column, cut.type, cut.lanes, cut.width, self.square)
        bindings = {a.index: constant(v) for a, v in zip(cut.depth, at, strict=True)}
        start = self._address(load, bindings)
        for which, valid in self._each_panel(panel, until):
            source = offset_bytes(b, start, multiply(b, which, cut.width * column * self.size))
            pack_block(b, block, source, self._panel(which, panel), valid)

    def _panel(self, which: ir.Value, first: ir.Value) -> ir.Value:
        place = self.b.mul(self.b.sub(which, first), constant(self.panel_bytes))
        return offset_bytes(self.b, self.panels, place)

    def _placed(self, rows: list[ir.Value], at: Sequence[ir.Value | int]) -> ir.Value:
        """Where `a` of a unit's first row lies, packed first if it must be."""
        if self.shared is not None:
            return self._moved_to(self.shared, rows)
        if self.cut.lines:
            return self._window(rows, at)
        load = self.contract.a
        bindings = {a.index: v for a, v in zip(self.cut.rows, rows, strict=True)}
        bindings |= {a.index: constant(v) for a, v in zip(self.cut.depth, at, strict=True)}
        return self._address(load, bindings)

    def _address(self, load: Load, bindings: Bindings) -> ir.Value:
        """The address that a load has where all other axes of the contraction are at 0."""
        known = {**self.context.bindings, **bindings}
        terms = tuple([term for term in load.at.terms if term[0] in known])
        return self.context.address(load.buffer, Affine(load.at.base, terms), bindings)

    def _moved_to(self, a: ir.Value, rows: list[ir.Value]) -> ir.Value:
        """A packed window's address for the rows of one unit."""
        for axis, row in zip(self.cut.rows, rows, strict=True):
            a = offset_bytes(self.b, a, multiply(self.b, row, self.a_stride(axis.index)))
        return a

    def _window(self, rows: list[ir.Value], at: Sequence[ir.Value | int]) -> ir.Value:
        """Packs what a unit reads of `a`; the address that its first row and step have there."""
        b, cut, load = self.b, self.cut, self.contract.a
        values = {a.index: v for a, v in zip(cut.rows, rows, strict=True)}
        values |= {a.index: constant(v) for a, v in zip(cut.depth, at, strict=True)}
        spans = cut.spans()
        lows, counts, shift = [], [], 0
        source = self._address(load, {})
        for line, (_, stride) in zip(cut.lines, cut.local, strict=True):
            step, low = cut.reach(line)[1], constant(0)
            behind = 0
            for index, c in line.terms:
                low = b.add(low, constant(multiply(b, values[index], c)))
                if c < 0:
                    behind += -c * (spans[index] - 1)
            low = b.sub(low, constant(behind))
            source = offset_bytes(b, source, b.mul(low, constant(line.stride * self.size)))
            shift += behind // step * stride
            lows.append(b.add(low, constant(line.offset)))
            counts.append(self._fewer(line, values))
        reach = [cut.reach(line) for line in cut.lines]
        strides = [stride for _, stride in cut.local]
        WindowPacker(b, cut.type, cut.lanes, cut.lines, reach, strides, lows, counts).pack(
            source, self.window
        )
        return offset_bytes(b, self.window, shift * self.size)

    def _fewer(self, line: PaddedCoordinate, values: Bindings) -> ir.Value | None:
        """How many values of an unpadded coordinate there are, where a unit may have fewer."""
        cut = self.cut
        extent, each = cut.row_extents[cut.first], cut.unit[cut.first]
        index = cut.rows[cut.first].index
        if line.extent is not None or not extent % each or line.terms[0][0] is not index:
            return None
        left = self.b.sub(constant(extent), values[index])
        return self.b.minimum_of(left, constant(each))

    # -------------------------------------------------------------------------------- the tiles

    def _tiles(self, rows: list[ir.Value], body: Callable[..., None]) -> None:
        """Code for every tile of a unit: body(tile, its number in the unit)."""
        self._tiles_from(self.cut.first, rows, list(rows), constant(0), body)

    def _tiles_from(self, k: int, start: list[ir.Value], rows: list[ir.Value], number: ir.Value,
                    body: Callable[..., None]) -> None:
        b, cut = self.b, self.cut
        shape, extent, each = cut.shape, cut.row_extents[k], cut.unit[k]
        step = shape.extent if k == shape.axis else 1
        partial = extent % each != 0  # only along `first`: the last unit is a smaller one
        left = b.minimum_of(b.sub(constant(extent), start[k]), constant(each)) if partial \
            else constant(each)
        whole: ir.Value | int = b.sdiv(left, constant(step)) if partial else each // step

        def at(i: ir.Value | int, size: int) -> None:
            moved_rows = list(rows)
            moved_rows[k] = constant(add(b, start[k], multiply(b, i, step)))
            if k == shape.axis:
                placed = PlacedTile(cut, self.contract, b, start, moved_rows, size)
                body(placed, constant(add(b, number, i)))
                return
            count = -(-cut.unit[k + 1] // (shape.extent if k + 1 == shape.axis else 1))
            inner = constant(multiply(b, b.add(number, constant(i)), count))
            self._tiles_from(k + 1, start, moved_rows, inner, body)

        if isinstance(whole, ir.Value) or whole > 1:
            with b.counted_loop(0, whole) as i:
                at(i, shape.extent)
        elif whole == 1:
            at(0, shape.extent)
        if k != shape.axis or not extent % step:
            return
        if each % step and each == extent:  # the unit is the whole axis
            at(whole, extent % step)
            return
        begins = extent - extent % step  # only in the last unit
        here = b.icmp_signed(">", b.add(start[k], left), constant(begins))
        with b.if_then(here):
            at(b.sdiv(left, constant(step)), extent % step)

    def _summed(self, tile: PlacedTile, a: ir.Value, packed: ir.Value, valid: int,
                waiting_sums: tuple[ir.Value, ir.Value] | None) -> Sums:
        """A tile's sums over a block of the depth."""
        b, cut = self.b, self.cut
        for axis, row, start in zip(cut.rows, tile.rows, tile.start, strict=True):
            if row is not start:
                delta = b.sub(row, start)
                a = offset_bytes(b, a, b.mul(delta, constant(self.a_stride(axis.index))))
        source = TileSource(a, tile.offsets(self.a_stride), packed, cut.type, cut.type)
        sums = None if waiting_sums is None else self._waiting(tile, *waiting_sums, valid)
        return emit_accumulation(b, tile.shape(valid), source, self._depth(), sums)

    def _sum_places(
        self, tile: PlacedTile, sums: ir.Value, n: ir.Value, valid: int
    ) -> list[ir.Value]:
        b = self.b
        shape, step = tile.shape(valid), self.cut.lanes * self.size
        base = offset_bytes(b, sums, b.mul(n, constant(self.tile_bytes)))
        return [offset_bytes(b, base, i * step) for i in range(shape.rows * shape.vectors)]

    def _waiting(self, tile: PlacedTile, sums: ir.Value, n: ir.Value, valid: int) -> Sums:
        return [load_vector(self.b, place, self.cut.type, self.cut.lanes)
                for place in self._sum_places(tile, sums, n, valid)]

    def _kept(
        self, tile: PlacedTile, sums: ir.Value, n: ir.Value, values: Sums, valid: int
    ) -> None:
        places = self._sum_places(tile, sums, n, valid)
        for value, place in zip(values, places, strict=True):
            store_vector(self.b, value, place, self.size)

    def _finished(self, tile: PlacedTile, sums: Sums, which: ir.Value, valid: int) -> None:
        """The contraction's body, for every row and vector of a tile."""
        column = self.b.mul(which, constant(self.cut.width))
        self.epilogue.emit(tile, sums, column, valid, self.square, self.turning)
