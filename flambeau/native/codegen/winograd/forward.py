"""Convolutions by Winograd's algorithm: 3 x 3 taps, 2 x 2 outputs from sixteen products a tile.

A thread transforms its weights and a batch of tiles into sixteen positions, multiplies matrices
per position, and transforms the sums into outputs, on which the epilogue runs.
"""

from __future__ import annotations

from llvmlite import ir

from ...loop_ir.ir import Contract, Index
from ..conv.direct_blocking import Unsupported, require_static
from ..gemm.micro_kernel import DepthLoop, MicroTile, TileSource, emit_accumulation
from ..llvm.address import constant, offset_bytes
from ..llvm.builder import Builder
from ..llvm.scratch_abi import USABLE_BYTES
from ..llvm.vectors import load_vector, store_vector
from ..loops.context import Context
from ..loops.epilogue import emit_epilogue
from ..loops.privatized_sums import accumulate_in_registers
from ..loops.scratch import borrow_scratch
from ..loops.work_partition import split_units
from .epilogue_prefetch import EpiloguePrefetch
from .nchw_layout import ChannelsLastImages, TransposedOutputs
from .plan import WinogradPlan, plan_winograd
from .transforms import InputTiles, Square, transform_output
from .weight_panels import WeightPanels


def emit_winograd(context: Context, contract: Contract) -> None:
    """Emit a convolution, split among the threads.

    Raises Unsupported, before anything is emitted, for other forms and if it does not pay.
    """
    cut = plan_winograd(contract, context.target)
    if contract.a.indirect or contract.b.indirect or contract.b.mask is not None:
        raise Unsupported("gathers")
    _WinogradEmitter(context, contract, cut).emit()


class _WinogradEmitter:
    """Emits a convolution."""

    def __init__(self, context: Context, contract: Contract, cut: WinogradPlan) -> None:
        self.context, self.contract, self.cut = context, contract, cut
        self.b: Builder = context.builder
        self.tiles = InputTiles(context, contract.a, cut.sides, cut.others, cut.channels)
        self.prefetch = EpiloguePrefetch(context, contract, cut, self.tiles)
        self.weights = WeightPanels(self.b, contract, cut, self.tiles)
        self.images = self.turned = None
        image, sizes = cut.others[0].index if cut.images else None, [0, 0]
        if cut.packed:
            self.images = ChannelsLastImages(
                contract.a, cut.sides, cut.channel.index, cut.channels, cut.lanes
            )
            sizes[0] = self.images.bytes * cut.images
        if cut.turned:
            assert image is not None
            self.turned = TransposedOutputs(
                context, contract, cut.sides, image, cut.lanes, cut.width
            )
            sizes[1] = self.turned.bytes * cut.images
        parts = (cut.lanes * cut.lanes * 4, 9 * cut.weights, 16 * cut.weights * cut.panels,
                 16 * cut.inputs_plane, 16 * cut.sums_plane,
                 -(-8 * (cut.batch + cut.rows) * len(self.prefetch.streams) // 64) * 64,
                 sizes[0], sizes[1] * cut.panels)
        self.places = [sum(parts[:k]) for k in range(len(parts))]
        if sum(parts) > USABLE_BYTES:
            raise Unsupported("too much scratch")

    def emit(self) -> None:
        """Groups of panels by batches of tiles, this thread's share of them."""
        b, cut = self.b, self.cut
        low, high = split_units(b, self.context, -(-cut.count // cut.panels) * cut.units)
        with borrow_scratch(b, self.context.tid) as memory:
            (self.square, self.weights.taps, self.weights.weights, self.inputs, self.sums,
             self.prefetch.table, self.image, self.output_block) = (
                offset_bytes(b, memory, place) for place in self.places
            )
            self.weights.square = self.square
            if cut.once:
                self._transform_inputs(constant(0), constant(cut.tiles))
            if self.images is not None:
                self.images.clear(b, self.image, cut.images)
            units = constant(cut.units)
            end = b.sdiv(b.add(high, constant(cut.units - 1)), units)
            with b.counted_loop(b.sdiv(low, units), end) as group:
                before = b.mul(group, units)
                start = b.intrinsic("smax", before.type, (b.sub(low, before), constant(0)))
                stop = b.minimum_of(b.sub(high, before), units)
                panel = b.mul(group, constant(cut.panels))
                until = b.minimum_of(b.add(panel, constant(cut.panels)), constant(cut.count))
                self.weights.pack(panel, until)
                with b.counted_loop(start, stop) as unit:
                    self._emit_unit(unit, panel, until)

    # ------------------------------------------------------------------------------ tiles

    def _emit_unit(self, unit: ir.Value, panel: ir.Value, until: ir.Value) -> None:
        """Some images, or a batch of tiles, over some panels."""
        b, cut = self.b, self.cut
        begin = b.mul(unit, constant(cut.span))
        if not cut.images:
            self._emit_batch(begin, begin, constant(cut.tiles), panel, until)
            return
        image = b.mul(unit, constant(cut.images))
        total = require_static(cut.others[0].extent)
        images = b.minimum_of(b.sub(constant(total), image), constant(cut.images))
        if self.images is not None:
            with b.counted_loop(constant(0), images) as i:
                source = self.tiles.address(self.contract.a,
                                            {cut.others[0].index: b.add(image, i)})
                target = offset_bytes(b, self.image, b.mul(i, constant(self.images.bytes)))
                self.images.pack(b, source, target, self.square, cut.channels)
        end = b.minimum_of(b.add(begin, constant(cut.span)), constant(cut.tiles))
        with b.counted_loop(begin, end, cut.batch) as first:
            self._emit_batch(first, begin, end, panel, until)
        if self.turned is not None:
            for index, valid in self.weights.each(panel, until):
                with b.counted_loop(constant(0), images) as i:
                    source = self._locate_output(index, panel, i, constant(0), constant(0))
                    column = b.mul(index, constant(cut.width))
                    self.turned.emit(b, source, b.add(image, i), column, valid, self.square)

    def _locate_output(
        self, index: ir.Value, panel: ir.Value, image: ir.Value, y: ir.Value, x: ir.Value
    ) -> ir.Value:
        """Where an output of a unit's image waits to be turned."""
        assert self.turned is not None
        b, bytes_per_tile = self.b, self.turned.bytes * self.cut.images
        start = offset_bytes(b, self.output_block,
                             b.mul(b.sub(index, panel), constant(bytes_per_tile)))
        return self.turned.place(b, start, image, y, x)

    def _emit_batch(self, first: ir.Value, begin: ir.Value, end: ir.Value, panel: ir.Value,
                    until: ir.Value) -> None:
        """A batch of tiles, of a unit that begins at tile `begin`, over some panels."""
        b, cut = self.b, self.cut
        count = b.minimum_of(b.sub(end, first), constant(cut.batch))
        inputs = self.inputs
        if cut.once:
            inputs = offset_bytes(b, inputs, b.mul(first, constant(cut.line)))
        elif self.images is not None:
            self._transform_packed_inputs(b.sub(first, begin), count)
        else:
            self._transform_inputs(first, count)
        self.prefetch.note_addresses(first, count)
        for index, valid in self.weights.each(panel, until):
            self._multiply(inputs, self.weights.address(index, panel), count, index)
            with b.counted_loop(0, count) as i:
                source = offset_bytes(b, self.sums, b.mul(i, constant(cut.width * 4)))
                if self.turned is None:
                    self._store_tile(b.add(first, i), source, index, valid)
                else:
                    self._keep_outputs(b.add(b.sub(first, begin), i), source, index, panel)

    def _transform_packed_inputs(self, first: ir.Value, count: ir.Value) -> None:
        """Inputs of some tiles of the packed images in the sixteen places."""
        b, cut, images = self.b, self.cut, self.images
        assert images is not None
        with b.counted_loop(constant(0), count) as i:
            start = images.place(b, self.image, *self.tiles.within(b.add(first, i)))
            target = offset_bytes(b, self.inputs, b.mul(i, constant(cut.line)))
            self.tiles.channelwise(start, (images.row, images.line), cut.channels, cut.lanes,
                                   target, cut.inputs_plane)

    def _keep_outputs(
        self, number: ir.Value, source: ir.Value, index: ir.Value, panel: ir.Value
    ) -> None:
        """A tile's outputs over a panel are put aside, to be turned."""
        b, cut = self.b, self.cut
        start = self._locate_output(index, panel, *self.tiles.within(number))
        assert self.turned is not None
        row = self.turned.across * cut.width * 4
        with b.counted_loop(0, cut.vectors) as j:
            offset = b.mul(j, constant(cut.lanes * 4))
            for k, line in enumerate(self._transform_sums(offset_bytes(b, source, offset))):
                for m, value in enumerate(line):
                    into = offset_bytes(b, start, k * row + m * cut.width * 4)
                    store_vector(b, value, offset_bytes(b, into, offset), 4)

    def _transform_inputs(self, first: ir.Value, count: ir.Value) -> None:
        """Inputs of some tiles in the sixteen places."""
        b, cut = self.b, self.cut
        with b.counted_loop(constant(0), count) as i:
            target = offset_bytes(b, self.inputs, b.mul(i, constant(cut.line)))
            self.tiles.spread(b.add(first, i), cut.channels, cut.lanes, target, cut.inputs_plane)

    def _multiply(self, inputs: ir.Value, weights: ir.Value, count: ir.Value, index: ir.Value
                  ) -> None:
        """Sixteen matrix products: tiles by channels by columns."""
        b, cut = self.b, self.cut
        tile = MicroTile(cut.rows, cut.vectors, cut.lanes, cut.type)
        rows = [i * cut.line for i in range(cut.rows)]
        step = cut.width * 4
        with b.counted_loop(0, 16) as place:
            a = offset_bytes(b, inputs, b.mul(place, constant(cut.inputs_plane)))
            panel = offset_bytes(b, weights, b.mul(place, constant(cut.weights)))
            target = offset_bytes(b, self.sums, b.mul(place, constant(cut.sums_plane)))
            ahead = [self.prefetch.offset_in_tile(stream, place, index)
                     for stream in self.prefetch.streams]
            with b.counted_loop(constant(0), count, cut.rows) as i:
                self.prefetch.fetch(i, ahead)
                source = TileSource(
                    offset_bytes(b, a, b.mul(i, constant(cut.line))), rows, panel, cut.type,
                    cut.type,
                )
                sums = emit_accumulation(
                    b, tile, source, [DepthLoop(cut.channels, 4, step)], unroll=4
                )
                into = offset_bytes(b, target, b.mul(i, constant(step)))
                for k, value in enumerate(sums):
                    store_vector(b, value, offset_bytes(b, into, k * cut.lanes * 4), 4)

    # ---------------------------------------------------------------------------- outputs

    def _store_tile(self, number: ir.Value, source: ir.Value, index: ir.Value, valid: int) -> None:
        """A tile's outputs over a panel of `valid` columns."""
        b, cut = self.b, self.cut
        place = {axis.index: constant(0) for axis in self.contract.rows} | self.tiles.place(number)
        column = b.mul(index, constant(cut.width))
        full = valid // cut.lanes
        if full:
            with b.counted_loop(0, full) as j:
                done = b.mul(j, constant(cut.lanes))
                self._store_vector(place, offset_bytes(b, source, b.mul(done, constant(4))),
                                   b.add(column, done), None)
        if valid % cut.lanes:
            done = constant(full * cut.lanes)
            rest = offset_bytes(b, source, full * cut.lanes * 4)
            position = b.add(column, done)
            self._store_vector(place, rest, position, b.first_lanes(valid % cut.lanes, cut.lanes))

    def _store_vector(self, place: dict[Index, ir.Value], source: ir.Value, column: ir.Value,
                      mask: ir.Value | None) -> None:
        """2 x 2 outputs of a vector of columns."""
        is_odd = any(side.extent % 2 for side in self.cut.sides)
        with accumulate_in_registers(self.context, not is_odd):
            for i, row in enumerate(self._transform_sums(source)):
                for j, value in enumerate(row):
                    self._store_output(place, (i, j), value, column, mask)

    def _transform_sums(self, source: ir.Value) -> Square:
        """2 x 2 outputs of the sums at `source`."""
        b, cut = self.b, self.cut
        sums = [
            [
                load_vector(
                    b, offset_bytes(b, source, (4 * i + j) * cut.sums_plane), cut.type, cut.lanes
                )
                for j in range(4)
            ]
            for i in range(4)
        ]
        return transform_output(b, sums)

    def _store_output(self, place: dict[Index, ir.Value], offsets: tuple[int, int], value: ir.Value,
                      column: ir.Value, mask: ir.Value | None) -> None:
        b, cut, there, known = self.b, self.cut, None, dict(place)
        for side, step in zip(cut.sides, offsets, strict=True):
            row = side.row.index
            known[row] = b.add(place[row], constant(step)) if step else place[row]
            if step and side.extent % 2:
                there = b.and_masks(there, b.icmp_signed("<", known[row], constant(side.extent)))

        def store() -> None:
            emit_epilogue(self.context, self.contract.body, known,
                          (self.contract.column.index, column),
                          cut.lanes, value, mask)

        if there is None:
            store()
            return
        with b.if_then(there):
            store()
