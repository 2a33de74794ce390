"""Gradients of 3 x 3 weights by Winograd's algorithm: sixteen products for a tile of 2 x 2 outputs.

A thread computes a rectangle of input channels by output channels. Batches of tiles of the image
and of the outputs' gradient are transformed into sixteen positions, where matrix products
accumulate; at the end the sums are transformed into nine taps.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from llvmlite import ir

from ...loop_ir.ir import Axis, Contract, Index, Type
from ...target.cost_model import MAX_WINOGRAD_RELATIVE_COST, SET_CONFLICT_PADDING_BYTES
from ...target.cost_model import MAX_WINOGRAD_SUM_BYTES, WINOGRAD_BATCH_TILES
from ...target.machine import Target
from ..conv.direct_blocking import Unsupported, require_static
from ..gemm.micro_kernel import DepthLoop, MicroTile, TileSource, emit_accumulation
from ..llvm.address import constant, multiply, offset_bytes
from ..llvm.builder import Builder, vector
from ..llvm.scratch_abi import USABLE_BYTES
from ..llvm.vectors import load_vector, splat, store_vector
from ..loops.context import Context
from ..loops.epilogue import emit_epilogue
from ..loops.scratch import borrow_scratch
from ..loops.work_partition import TileRange, split_tiles
from .nchw_layout import ChannelsLastImages
from .plan import PLACES, ImageAxis, count_tiles, match_geometry, pad_line_bytes
from .transforms import InputTiles, Square, transform_both_axes


@dataclass(frozen=True)
class WinogradWeightPlan:
    """A gradient cut: register tiles of `rows` x `vectors`, and sums of at most
    `channels` x `columns` at a time. Channels and columns are shared out by vectors and by
    panels."""

    contract: Contract
    sides: tuple[ImageAxis, ImageAxis]
    others: tuple[Axis, ...]
    channel: Axis
    lanes: int
    rows: int
    vectors: int
    channels: int
    columns: int
    packed: bool  # images have their rows innermost, and are turned first

    @property
    def images(self) -> int:
        """How many are turned at a time."""
        return (
            max(1, WINOGRAD_BATCH_TILES // (self.sides[0].tiles * self.sides[1].tiles))
            if self.packed
            else 0
        )

    @property
    def outputs(self) -> tuple[ImageAxis, ImageAxis]:
        """The sides of the outputs' gradient."""
        first, second = (
            ImageAxis(
                s.row, s.tap, require_static(self.contract.b.at.stride(s.row.index)), False, 0,
                s.extent,
            )
            for s in self.sides
        )
        return first, second

    @property
    def tiles(self) -> int:
        """Tiles in all."""
        return count_tiles(self.sides, self.others)

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes

    @property
    def lines(self) -> tuple[int, int]:
        """Bytes from one tile's channels, or columns, to the next one's."""
        return pad_line_bytes(self.channels, self.lanes, 4), pad_line_bytes(
            self.columns, self.lanes, 4
        )

    @property
    def costs(self) -> tuple[int, int, int]:
        """Cycles for a tile of the image: of the products of one group of channels and one panel,
        of bringing a panel's gradients and a group's channels into the sixteen places."""
        spread = 90 if self.packed else 50
        return PLACES * self.lanes * self.vectors // 2, spread * self.vectors, spread

    @property
    def planes(self) -> tuple[int, int, int]:
        """Bytes of one of the sixteen places: of inputs, of gradients, of sums."""
        inputs, outputs = (
            WINOGRAD_BATCH_TILES * line + SET_CONFLICT_PADDING_BYTES for line in self.lines
        )
        return inputs, outputs, self.channels * self.columns * 4 + SET_CONFLICT_PADDING_BYTES


def plan_winograd_weight(contract: Contract, target: Target) -> WinogradWeightPlan:
    """Plan a gradient. Raises Unsupported for other contractions, and if it does not pay."""
    a, b = contract.a, contract.b
    if a.type is not Type.F32 or b.type is not Type.F32 or b.indirect or b.mask is not None:
        raise Unsupported("types")
    sides, others, channel = match_geometry(a, contract.depth, contract.rows)
    lanes = target.lanes(Type.F32)
    channels, columns = require_static(channel.extent), require_static(contract.column.extent)
    packed = a.at.stride(channel.index) != 1
    lined = b.at.stride(sides[1].row.index if packed else contract.column.index) == 1
    if not lined or b.at.stride(channel.index) != 0:
        raise Unsupported("gradients in another order than the images")
    if any(b.at.stride(side.tap.index) != 0 for side in sides):
        raise Unsupported("gradients that slide")
    if channels < lanes or columns < lanes:
        raise Unsupported("few channels")
    rows, vectors = _choose_tile(-(-columns // lanes), target.vector_registers)
    if lanes % rows:
        raise Unsupported("few lanes")
    high = -(-channels // lanes) * lanes
    padded = -(-columns // (vectors * lanes)) * vectors * lanes
    while PLACES * high * padded * 4 > MAX_WINOGRAD_SUM_BYTES:
        if padded > high and padded > vectors * lanes:
            padded = -(-padded // (2 * vectors * lanes)) * vectors * lanes
        else:
            high = -(-high // (2 * lanes)) * lanes
    cut = WinogradWeightPlan(contract, sides, others, channel, lanes, rows, vectors, high, padded,
              packed)
    direct = _estimate_direct_cycles(cut, channels, columns)
    if _estimate_winograd_cycles(cut, channels, columns) > MAX_WINOGRAD_RELATIVE_COST * direct:
        raise Unsupported("direct sums are as fast")
    return cut


def _choose_tile(across: int, registers: int) -> tuple[int, int]:
    """Rows and vectors of the register tile."""
    if registers < 32:
        return 4, 2 if across % 2 == 0 else 1
    return (8, 2) if across % 2 == 0 else (8, 3) if across % 3 == 0 else (16, 1)


def _estimate_winograd_cycles(cut: WinogradWeightPlan, channels: int, columns: int) -> float:
    deep, across = -(-channels // cut.lanes), -(-columns // cut.lanes)
    repeats = -(-channels // cut.channels), -(-columns // cut.columns)
    products = PLACES * cut.tiles * deep * cut.lanes * across / 2 * 1.1
    spread = cut.tiles * 50 * (deep * repeats[1] + across * repeats[0])
    turned = cut.tiles * 40 * (deep * repeats[1] + across * repeats[0]) if cut.packed else 0
    return products + spread + turned + 120 * channels * across


def _estimate_direct_cycles(cut: WinogradWeightPlan, channels: int, columns: int) -> float:
    outputs = prod(require_static(a.extent) for a in cut.contract.depth)
    return 9 * outputs * channels * -(-columns // cut.lanes) / 2 / 0.85


def emit_winograd_weight(context: Context, contract: Contract) -> None:
    """Emit a weight gradient, split among the threads.

    Raises Unsupported, before anything is emitted, for other forms and where it does not pay.
    """
    _WinogradWeightEmitter(context, contract, plan_winograd_weight(contract, context.target)).emit()


def _transform_gradient(b: Builder, g: Square) -> Square:
    """2 x 2 gradients in the sixteen places; the last of each line has the other sign."""
    return transform_both_axes(g, lambda x: [x[0], b.fadd(x[0], x[1]), b.fsub(x[0], x[1]), x[1]])


def _transform_sums(b: Builder, m: Square) -> Square:
    """3 x 3 taps of the sixteen sums."""
    def line(x: list[ir.Value]) -> list[ir.Value]:
        half = ir.Constant(x[0].type, [0.5] * x[0].type.count)
        middle = b.fmul(b.fadd(x[1], x[2]), half)
        return [b.fadd(x[0], middle), b.fmul(b.fsub(x[1], x[2]), half), b.fsub(middle, x[3])]

    return transform_both_axes(m, line)


class _WinogradWeightEmitter:
    """Emits a weight gradient."""

    def __init__(self, context: Context, contract: Contract, cut: WinogradWeightPlan) -> None:
        self.context, self.contract, self.cut = context, contract, cut
        self.b: Builder = context.builder
        self.tiles = InputTiles(
            context, contract.a, cut.sides, cut.others, require_static(cut.channel.extent)
        )
        column = contract.column.index
        self.sources = (
            ChannelsLastImages(contract.a, cut.sides, cut.channel.index, cut.channels, cut.lanes),
            ChannelsLastImages(contract.b, cut.outputs, column, cut.columns, cut.lanes),
        )
        parts = [PLACES * plane for plane in cut.planes] + [cut.lanes * cut.lanes * 4]
        parts += [images.bytes * cut.images for images in self.sources]
        self.places = [sum(parts[:k]) for k in range(len(parts))]
        if sum(parts) > USABLE_BYTES:
            raise Unsupported("too much scratch")

    def emit(self) -> None:
        """This thread's rectangle, part by part."""
        b, cut = self.b, self.cut
        share = self._share()
        channels = require_static(cut.channel.extent)
        with borrow_scratch(b, self.context.tid) as memory:
            self.inputs, self.outputs, self.sums, self.square, *self.packed = (
                offset_bytes(b, memory, place) for place in self.places
            )
            low = b.mul(constant(share.first_group), constant(cut.lanes))
            high = b.minimum_of(b.mul(constant(share.last_group), constant(cut.lanes)),
                                constant(channels))
            left = b.mul(constant(share.first_panel), constant(cut.width))
            right = b.minimum_of(b.mul(constant(share.last_panel), constant(cut.width)),
                                 constant(require_static(self.contract.column.extent)))
            with b.counted_loop(low, high, cut.channels) as channel:
                count = b.minimum_of(b.sub(high, channel), constant(cut.channels))
                with b.counted_loop(left, right, cut.columns) as column:
                    across = b.minimum_of(b.sub(right, column), constant(cut.columns))
                    self._emit_part(channel, count, column, across)

    def _share(self) -> TileRange:
        cut, context = self.cut, self.context
        groups = -(-require_static(cut.channel.extent) // cut.lanes)
        panels = -(-require_static(self.contract.column.extent) // cut.width)
        if context.parallel:
            return TileRange(0, groups, 0, panels)
        return split_tiles(self.b, context.tid, context.threads, groups, panels, cut.costs)

    def _emit_part(self, channel: ir.Value, count: ir.Value, column: ir.Value, across: ir.Value
                   ) -> None:
        """The sums of some channels and columns over all tiles."""
        b, cut = self.b, self.cut
        zero = ir.Constant(vector(ir.FloatType(), cut.lanes), None)
        with b.counted_loop(0, PLACES * cut.planes[2], cut.lanes * 4) as offset:
            store_vector(b, zero, offset_bytes(b, self.sums, offset), 4)
        if not cut.packed:
            with b.counted_loop(0, cut.tiles, WINOGRAD_BATCH_TILES) as first:
                tiles = b.minimum_of(
                    b.sub(constant(cut.tiles), first), constant(WINOGRAD_BATCH_TILES)
                )
                with b.counted_loop(constant(0), tiles) as i:
                    number = b.add(first, i)
                    inputs, outputs = self._locate_targets(i)
                    self.tiles.spread(number, count, cut.lanes, inputs, cut.planes[0],
                                      {cut.channel.index: channel})
                    self._spread_outputs(number, column, across, outputs)
                self._emit_products(tiles, count, across)
        else:
            self._accumulate_images(channel, count, column, across)
        self._emit_taps(channel, count, column, across)

    def _locate_targets(self, tile: ir.Value) -> list[ir.Value]:
        """The scratch addresses of a tile's inputs and gradients."""
        starts = zip((self.inputs, self.outputs), self.cut.lines, strict=True)
        return [offset_bytes(self.b, p, self.b.mul(tile, constant(line))) for p, line in starts]

    # ----------------------------------------------------------------- rows innermost

    def _accumulate_images(
        self, channel: ir.Value, count: ir.Value, column: ir.Value, across: ir.Value
    ) -> None:
        """Accumulate over blocks of images, which are transposed first."""
        b, cut = self.b, self.cut
        image = cut.others[0]
        each = cut.sides[0].tiles * cut.sides[1].tiles
        for images, target in zip(self.sources, self.packed, strict=True):
            images.clear(b, target, cut.images)
        with b.counted_loop(0, require_static(image.extent), cut.images) as first:
            images_here = b.minimum_of(b.sub(constant(require_static(image.extent)), first),
                                       constant(cut.images))
            with b.counted_loop(constant(0), images_here) as i:
                known = {image.index: b.add(first, i)}
                limits = ((channel, count), (column, across))
                for images, target, (low, size) in zip(self.sources, self.packed, limits,
                                                       strict=True):
                    source = self.tiles.address(images.load, {**known, images.channel: low})
                    images.pack(
                        b, source, offset_bytes(b, target, b.mul(i, constant(images.bytes))),
                        self.square, size,
                    )
            end = b.mul(images_here, constant(each))
            with b.counted_loop(constant(0), end, WINOGRAD_BATCH_TILES) as start:
                tiles = b.minimum_of(b.sub(end, start), constant(WINOGRAD_BATCH_TILES))
                with b.counted_loop(constant(0), tiles) as i:
                    self._spread_packed(b.add(start, i), i, count, across)
                self._emit_products(tiles, count, across)

    def _spread_packed(self, number: ir.Value, tile: ir.Value, count: ir.Value, across: ir.Value
                       ) -> None:
        """A tile of turned images in the sixteen places."""
        b, cut, place = self.b, self.cut, self.tiles.within(number)
        inputs, outputs = self._locate_targets(tile)
        image, gradient = self.sources
        start = image.place(b, self.packed[0], *place)
        self.tiles.channelwise(start, (image.row, image.line), count, cut.lanes, inputs,
                               cut.planes[0])
        start = gradient.place(b, self.packed[1], *place)
        self._transform_columns(start, (gradient.row, gradient.line), across, outputs)

    # ------------------------------------------------------------------------------ tiles

    def _spread_outputs(self, number: ir.Value, column: ir.Value, across: ir.Value,
                        target: ir.Value) -> None:
        """A tile's gradients in the sixteen places."""
        b, cut, load = self.b, self.cut, self.contract.b
        place = self.tiles.place(number)
        start = self.tiles.address(load, {**place, self.contract.column.index: column})
        down, right = (int(load.at.stride(side.row.index)) * 4 for side in cut.sides)  # type: ignore[arg-type]
        there = [[None, None] if side.extent % 2 == 0 else
                 [None, b.icmp_signed("<", place[side.row.index], constant(side.extent - 1))]
                 for side in cut.sides]
        masks = [[None if (mask := b.and_masks(x, y)) is None else splat(b, mask, cut.lanes)
                  for y in there[1]] for x in there[0]]

        self._transform_columns(start, (down, right), across, target, masks)

    def _transform_columns(self, start: ir.Value, strides: tuple[int, int], across: ir.Value,
                           target: ir.Value, masks: Square | None = None) -> None:
        """The columns of a tile of gradients that begins at `start`."""
        b, cut = self.b, self.cut

        def vector(j: ir.Value, rest: ir.Value | None) -> None:
            source, into = (offset_bytes(b, p, multiply(b, j, 4)) for p in (start, target))
            tile = [[load_vector(b, offset_bytes(b, source, y * strides[0] + x * strides[1]),
                                 Type.F32,
                                 cut.lanes, b.and_masks(rest, masks[y][x] if masks else None))
                     for x in (0, 1)] for y in (0, 1)]
            for k, transformed in enumerate(
                value for row in _transform_gradient(b, tile) for value in row
            ):
                store_vector(b, transformed, offset_bytes(b, into, k * cut.planes[1]), 4)

        self.tiles.by_vectors(
            across, require_static(self.contract.column.extent), cut.lanes, vector
        )

    def _emit_products(self, tiles: ir.Value, count: ir.Value, across: ir.Value) -> None:
        """Sixteen matrix products, added to the sums: channels by tiles by columns."""
        b, cut = self.b, self.cut
        tile = MicroTile(cut.rows, cut.vectors, cut.lanes, Type.F32)
        rows = [4 * i for i in range(cut.rows)]
        with b.counted_loop(0, PLACES) as place:
            starts = zip((self.inputs, self.outputs, self.sums), cut.planes, strict=True)
            a, g, sums = (offset_bytes(b, p, b.mul(place, constant(plane))) for p, plane in starts)
            with b.counted_loop(constant(0), across, cut.width) as j:
                right = offset_bytes(b, g, b.mul(j, constant(4)))
                with b.counted_loop(constant(0), count, cut.rows) as i:
                    source = TileSource(
                        offset_bytes(b, a, b.mul(i, constant(4))), rows, right, Type.F32, Type.F32
                    )
                    into = offset_bytes(b, sums, b.mul(b.add(b.mul(i, constant(cut.columns)), j),
                                                       constant(4)))
                    addresses = [offset_bytes(b, into, (r * cut.columns + v * cut.lanes) * 4)
                                 for r in range(cut.rows) for v in range(cut.vectors)]
                    loaded_sums = [load_vector(b, p, Type.F32, cut.lanes) for p in addresses]
                    depth = [DepthLoop(tiles, *cut.lines)]
                    updated = emit_accumulation(b, tile, source, depth, loaded_sums, unroll=4)
                    for value, p in zip(updated, addresses, strict=True):
                        store_vector(b, value, p, 4)

    # ------------------------------------------------------------------------------- taps

    def _emit_taps(self, channel: ir.Value, count: ir.Value, column: ir.Value, across: ir.Value
                   ) -> None:
        """The nine taps of each channel and column."""
        b, cut = self.b, self.cut
        with b.counted_loop(constant(0), count) as i:
            line = offset_bytes(b, self.sums, b.mul(i, constant(cut.columns * 4)))
            known = {cut.channel.index: b.add(channel, i)}

            def vector(j: ir.Value, rest: ir.Value | None) -> None:
                start = offset_bytes(b, line, multiply(b, j, 4))
                sums = [
                    [
                        load_vector(
                            b, offset_bytes(b, start, (4 * y + x) * cut.planes[2]), Type.F32,
                            cut.lanes,
                        )
                        for x in range(4)
                    ]
                    for y in range(4)
                ]
                self._store_taps(_transform_sums(b, sums), known, b.add(column, constant(j)), rest)

            self.tiles.by_vectors(
                across, require_static(self.contract.column.extent), cut.lanes, vector
            )

    def _store_taps(self, taps: Square, known: dict[Index, ir.Value], column: ir.Value,
                    mask: ir.Value | None) -> None:
        """The epilogue, for nine taps of a vector of columns."""
        first, second = self.cut.sides
        zeros = {axis.index: constant(0) for axis in self.contract.rows}
        for y, row in enumerate(taps):
            for x, value in enumerate(row):
                at = {first.tap.index: constant(2 - y if first.turned else y),
                      second.tap.index: constant(2 - x if second.turned else x)}
                emit_epilogue(
                    self.context, self.contract.body, {**zeros, **known, **at},
                    (self.contract.column.index, column), self.cut.lanes, value, mask)
