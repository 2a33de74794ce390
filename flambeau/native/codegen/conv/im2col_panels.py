"""Packs im2col panels of an image whose sizes are known only at run time.

The columns of a panel are output positions; each depth step is one entry of the window (channel,
row, column). Vectors are loaded from one or two rows of positions if neighbors are contiguous, else
gathered. Masks keep loads inside the image; masks and addresses are computed once for
all channels.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from ..gemm.micro_kernel import MicroTile
from ..llvm.address import add, constant, multiply, offset_bytes
from ..llvm.builder import Builder
from ..llvm.types import I32, I64, POINTER, Number
from ..llvm.vectors import load_vector, splat, store_vector
from .image_loads import WindowedImage

_OUTSIDE = -(1 << 30)  # a coordinate outside any image, whichever window offset is added


class Im2colPacker:
    """Packs panels of windows. Depth steps are ordered (channel, row, column of the window)."""

    def __init__(self, context: Any, image: WindowedImage, tile: MicroTile) -> None:
        self.b: Builder = context.builder
        self.image, self.tile, self.size = image, tile, tile.type.size
        b, lines = self.b, (image.rows, image.columns)
        self.taps = b.mul(image.rows.entries, image.columns.entries)
        self.each = b.mul(image.rows.outputs, image.columns.outputs)  # positions per image
        columns = tile.columns
        self.offsets = b.entry_slot(I64, columns, "offsets", 64)
        self.places = [b.entry_slot(I32, columns, "places", 64) for _ in lines]
        self.extents = [splat(b, b.trunc(line.extent, I32), tile.lanes) for line in lines]
        step = b.mul(image.columns.stride, image.columns.apart)
        long = b.icmp_signed(">=", image.columns.outputs, constant(tile.lanes - 1))
        self.in_rows = [  # by step: whether a vector spans at most two rows of positions
            (steps, b.and_(long, b.icmp_signed("==", step, constant(steps * self.size))))
            for steps in (1, 2)
        ]

    # ------------------------------------------------------------------- where columns are

    def place(self, first: Number, count: Number) -> None:
        """Record the window starts of the columns, for `count` positions from `first` on."""
        b, image = self.b, self.image
        first = constant(first)
        number, position = b.udiv(first, self.each), b.urem(first, self.each)
        row, column = b.udiv(position, image.columns.outputs), b.urem(position,
                                                                      image.columns.outputs)
        start_column, zero, unit = column, constant(0), constant(1)
        with b.carrying_loop(0, self.tile.columns, [number, row, column]) as loop:
            i, (number, row, column) = loop.index, loop.values
            is_inside = b.icmp_signed("<", i, constant(count))
            offset = b.mul(number, image.image_apart)
            for line, coordinate, offsets in zip((image.rows, image.columns), (row, column),
                                                 self.places,
                                                 strict=True):
                start = b.sub(b.mul(coordinate, line.stride), line.padding)
                offset = b.add(offset, b.mul(start, line.apart))
                valid_start = b.select(is_inside, start, constant(_OUTSIDE))
                b.store(
                    b.trunc(valid_start, I32), offset_bytes(b, offsets, multiply(b, i, 4)), align=4
                )
            b.store(offset, offset_bytes(b, self.offsets, multiply(b, i, 8)), align=8)
            column = b.add(column, unit)
            over = b.icmp_signed("==", column, image.columns.outputs)
            column = b.select(over, zero, column)
            row = b.select(over, b.add(row, unit), row)
            below = b.icmp_signed("==", row, image.rows.outputs)
            row = b.select(below, zero, row)
            loop.values = [b.select(below, b.add(number, unit), number), row, column]
        self.column = start_column

    # --------------------------------------------------------------------------- packing

    def pack(self, start: Number, depth: Number, into: ir.Value) -> None:
        """Pack the steps [start, start + depth) of the columns recorded by `place`."""
        self._pack(self.in_rows, start, depth, into)

    def _pack(self, ways: list[tuple[int, ir.Value]], start: Number, depth: Number, into: ir.Value
              ) -> None:
        if not ways:
            self._gather(start, depth, into)
            return
        (steps, fits), *others = ways
        with self.b.if_else(fits) as (rows, gaps):
            with rows:
                self._from_rows(steps, start, depth, into)
            with gaps:
                self._pack(others, start, depth, into)

    def _emit_taps(self, start: Number, depth: Number, into: ir.Value, body: Any) -> None:
        """Emit body(offset, masks, first and last channel, destination) for each tap."""
        b, image, lines = self.b, self.image, (self.image.rows, self.image.columns)
        lanes = self.tile.lanes
        vectors = range(self.tile.vectors)
        loaded = [
            [
                b.load(
                    offset_bytes(b, offsets, v * lanes * 4), typ=ir.VectorType(I32, lanes), align=32
                )
                for v in vectors
            ]
            for offsets in self.places
        ]

        def inside(axis: int, entry: ir.Value) -> tuple[list[ir.Value], ir.Value]:
            line = lines[axis]
            ahead = b.mul(entry, line.dilation)
            step = splat(b, b.trunc(ahead, I32), lanes)
            masks = [b.icmp_unsigned("<", b.add(loaded[axis][v], step), self.extents[axis])
                     for v in vectors]
            return masks, b.mul(ahead, line.apart)

        with b.counted_loop(0, image.rows.entries) as i:
            across, down = inside(0, i)
            with b.counted_loop(0, image.columns.entries) as j:
                along, right = inside(1, j)
                masks = [b.and_(x, y) for x, y in zip(across, along, strict=True)]
                tap = b.add(b.mul(i, image.columns.entries), j)
                ends = (start, add(b, start, depth))
                low, high = (self.channels_before(tap, end) for end in ends)
                step = b.sub(b.add(b.mul(low, self.taps), tap), constant(start))
                place = offset_bytes(b, into, multiply(b, step, self.tile.columns * self.size))
                offset = b.add(b.add(down, right), b.mul(low, image.channel_apart))
                body(offset, masks, b.sub(high, low), place)

    def channels_before(self, tap: ir.Value, end: Number) -> ir.Value:
        """Return how many channels' steps of a tap precede step `end` of the depth."""
        b = self.b
        remaining = b.add(b.sub(constant(end), tap), b.sub(self.taps, constant(1)))
        return b.sdiv(remaining, self.taps)

    def _from_rows(self, steps: int, start: Number, depth: Number, into: ir.Value) -> None:
        """Load each vector from the row of positions in which it begins, and the next row.

        `steps`: elements between positions.
        """
        b, lanes, vectors = self.b, self.tile.lanes, range(self.tile.vectors)
        order = ir.Constant(ir.VectorType(I32, lanes), list(range(lanes)))
        bases, firsts, whole = [], [], ir.Constant(ir.IntType(1), 1)
        column = self.column
        for v in vectors:
            remaining = b.minimum_of(b.sub(self.image.columns.outputs, column), constant(lanes))
            last = b.minimum_of(remaining, constant(lanes - 1))
            pointer = offset_bytes(b, self.offsets, v * lanes * 8)
            base = b.load(pointer, typ=I64, align=8)
            other = b.load(offset_bytes(b, pointer, multiply(b, last, 8)), typ=I64, align=8)
            bases.append((base, b.sub(other, multiply(b, last, steps * self.size))))
            firsts.append(b.icmp_signed("<", order, splat(b, b.trunc(remaining, I32), lanes)))
            whole = b.and_(whole, b.icmp_signed("==", remaining, constant(lanes)))
            column = b.urem(b.add(column, constant(lanes)), self.image.columns.outputs)

        def several(count: int) -> None:
            def tap(offset: ir.Value, masks: list[ir.Value], repeats: ir.Value, place: ir.Value
                    ) -> None:
                parts = [[(b.add(bases[v][0], offset), masks[v])] for v in vectors]
                if count == 2:
                    parts = [[(b.add(bases[v][0], offset), b.and_(masks[v], firsts[v])),
                              (b.add(bases[v][1], offset), b.and_(masks[v], b.not_(firsts[v])))]
                             for v in vectors]
                self._copy_tap(steps, parts, repeats, place)

            self._emit_taps(start, depth, into, tap)

        with b.if_else(whole) as (one_row, two_rows):
            with one_row:
                several(1)
            with two_rows:
                several(2)

    def _copy_tap(self, steps: int, parts: list, count: ir.Value, place: ir.Value) -> None:
        """Pack a tap's channels: each vector combines the (offset, mask) parts of memory."""
        b, tile = self.b, self.tile
        if steps == 2:
            parts = [
                [(offset, self._split_even_mask(mask)) for offset, mask in tile] for tile in parts
            ]
        else:
            parts = [[(offset, [mask]) for offset, mask in tile] for tile in parts]
        with b.carrying_loop(0, count, [self.image.start, place]) as loop:
            source, target = loop.values
            for v, some in enumerate(parts):
                read = [
                    self._read(offset_bytes(b, source, offset), masks) for offset, masks in some
                ]
                value = read[0] if len(read) == 1 else self._combine(*read)
                store_vector(
                    b, value, offset_bytes(b, target, v * tile.lanes * self.size), self.size
                )
            loop.values = self._advance(source, target)

    def _split_even_mask(self, mask: ir.Value) -> list[ir.Value]:
        """Return the masks of two memory vectors of which every second element is used."""
        lanes = self.tile.lanes
        none = ir.Constant(mask.type, None)
        picks = ([part * lanes // 2 + i // 2 if i % 2 == 0 else lanes for i in range(lanes)]
                 for part in (0, 1))
        kind = ir.VectorType(I32, lanes)
        return [self.b.shuffle_vector(mask, none, ir.Constant(kind, pick)) for pick in picks]

    def _read(self, pointer: ir.Value, masks: list[ir.Value]) -> ir.Value:
        """Load a vector, or every second element of two vectors."""
        b, lanes, kind = self.b, self.tile.lanes, self.tile.type
        read = [load_vector(b, offset_bytes(b, pointer, i * lanes * self.size), kind, lanes, mask)
                for i, mask in enumerate(masks)]
        if len(read) == 1:
            return read[0]
        pick = ir.Constant(ir.VectorType(I32, lanes), list(range(0, 2 * lanes, 2)))
        return b.shuffle_vector(*read, pick)

    def _advance(self, source: ir.Value, target: ir.Value) -> list[ir.Value]:
        step = multiply(self.b, self.taps, self.tile.columns * self.size)
        return [
            offset_bytes(self.b, source, self.image.channel_apart),
            offset_bytes(self.b, target, step),
        ]

    def _combine(self, x: ir.Value, y: ir.Value) -> ir.Value:
        """Combine two vectors, of which one is zero in each lane."""
        b = self.b
        bits = ir.VectorType(ir.IntType(8 * self.size), self.tile.lanes)
        return b.bitcast(b.or_(b.bitcast(x, bits), b.bitcast(y, bits)), x.type)

    def _gather(self, start: Number, depth: Number, into: ir.Value) -> None:
        """Load each lane from its own address."""
        b, tile, kind = self.b, self.tile, self.tile.type
        vectors = range(tile.vectors)
        vector_type = ir.VectorType(I64, tile.lanes)
        offsets = [b.load(offset_bytes(b, self.offsets, v * tile.lanes * 8), typ=vector_type,
                          align=64)
                   for v in vectors]

        def tap(offset: ir.Value, masks: list[ir.Value], count: ir.Value, place: ir.Value) -> None:
            with b.carrying_loop(0, count, [self.image.start, place]) as loop:
                source, target = loop.values
                for v in vectors:
                    pointers = b.gep(offset_bytes(b, source, offset), [offsets[v]],
                                     source_etype=ir.IntType(8))
                    pointers.type = ir.VectorType(POINTER, tile.lanes)
                    value = b.gather(pointers, kind, tile.lanes, masks[v])
                    store_vector(
                        b, value, offset_bytes(b, target, v * tile.lanes * self.size), self.size
                    )
                loop.values = self._advance(source, target)

        self._emit_taps(start, depth, into, tap)
