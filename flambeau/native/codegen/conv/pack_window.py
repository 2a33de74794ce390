"""Pack the window of `a` that a unit of rows reads, with zeros for padding.

The copy's axes are ordered as in the source, whose strides are arbitrary: a tile broadcasts single
elements, so it does not matter which axis is contiguous.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from ...loop_ir.ir import Type
from ..llvm.address import constant, multiply, offset_bytes
from ..llvm.builder import I1, I64, POINTER, Builder, lane_numbers, vector
from ..llvm.types import Number, memory_type
from ..llvm.vectors import load_vector, store_vector
from .direct_blocking import PaddedCoordinate


class WindowPacker:
    """A window being packed.

    `lines`, `reach` (extent, step), `strides` (elements in scratch) and `lows` (the least value,
    an i64) of each coordinate; `counts`: the number of values of coordinates that may have fewer.
    """

    def __init__(
        self, b: Builder, type: Type, lanes: int, lines: Sequence[PaddedCoordinate],
        reach: Sequence[tuple[int, int]], strides: Sequence[int], lows: Sequence[ir.Value],
        counts: Sequence[ir.Value | None],
    ) -> None:
        self.b, self.type, self.lanes, self.size = b, type, lanes, type.size
        self.lines, self.reach, self.strides = lines, reach, strides
        self.lows, self.counts = lows, counts

    def pack(self, source: ir.Value, target: ir.Value) -> None:
        """Pack the window. `source`: the address at which every coordinate is least."""
        self._loop_outer(0, None, source, target)

    def _measure_distance(self, k: int) -> int:
        """Return the elements between neighbors along a coordinate in the source."""
        return self.lines[k].stride * self.reach[k][1]

    def _test_inside(self, k: int, position: ir.Value) -> ir.Value | None:
        """Whether an iteration of a coordinate is not padding."""
        line, step = self.lines[k], self.reach[k][1]
        if line.extent is None:
            return None
        value = self.b.add(self.lows[k], constant(multiply(self.b, position, step)))
        return self.b.icmp_unsigned("<", value, constant(line.extent))

    def _loop_outer(
        self, k: int, ok: ir.Value | None, source: ir.Value, target: ir.Value
    ) -> None:
        """Loop over coordinates k and further; `ok`: whether the earlier ones are not padding."""
        b, last = self.b, len(self.lines) - 1
        if k == last - 1 and self._is_joined():
            body: Callable[..., None] = self._pack_line
            width = self.reach[k][0] * self.strides[k]
        else:
            body, width = self._pack_row, self.reach[last][0]
        if k < last and body == self._pack_row:
            with b.counted_loop(0, self.counts[k] or self.reach[k][0]) as i:
                self._loop_outer(
                    k + 1, b.and_masks(ok, self._test_inside(k, i)),
                    offset_bytes(b, source, multiply(b, i, self._measure_distance(k) * self.size)),
                    offset_bytes(b, target, multiply(b, i, self.strides[k] * self.size)),
                )
            return
        if ok is None:
            body(source, target)
            return
        with b.if_else(ok) as (inside, padding):
            with inside:
                body(source, target)
            with padding:
                self._clear_elements(target, width)

    def _is_joined(self) -> bool:
        """Whether the two innermost coordinates are contiguous in source and copy."""
        k, last = len(self.lines) - 2, len(self.lines) - 1
        if k < 0 or self.lines[last].extent is not None or self.counts[k] is not None:
            return False
        if self.reach[k][1] != 1:
            return False
        extent = self.reach[last][0]
        return self._measure_distance(last) == 1 \
            and self._measure_distance(k) == extent == self.strides[k]

    def _pack_line(self, source: ir.Value, target: ir.Value) -> None:
        """Pack the two innermost coordinates at once: zeros, data, zeros."""
        b, k = self.b, len(self.lines) - 2
        line, extent, stride = self.lines[k], self.reach[k][0], self.strides[k] * self.size
        low, high = constant(0), constant(extent)
        if line.extent is not None:
            low = b.intrinsic("smax", I64, (b.neg(self.lows[k]), constant(0)))
            high = b.minimum_of(b.sub(constant(line.extent), self.lows[k]), constant(extent))
            low, high = b.minimum_of(low, constant(extent)), b.intrinsic("smax", I64, (low, high))
            with b.counted_loop(0, low) as i:
                self._clear_elements(
                    offset_bytes(b, target, b.mul(i, constant(stride))), self.strides[k]
                )
            with b.counted_loop(high, extent) as i:
                self._clear_elements(
                    offset_bytes(b, target, b.mul(i, constant(stride))), self.strides[k]
                )
        start = b.mul(low, constant(stride))
        count = b.mul(b.sub(high, low), constant(self.strides[k]))
        self._copy_elements(offset_bytes(b, source, start), offset_bytes(b, target, start), count)

    def _copy_elements(self, source: ir.Value, target: ir.Value, count: ir.Value) -> None:
        """Copy `count` contiguous elements."""
        b, lanes, size = self.b, self.lanes, self.size
        full = b.and_(count, constant(-lanes))
        with b.counted_loop(constant(0), full, lanes) as i:
            offset = multiply(b, i, size)
            store_vector(b, load_vector(b, offset_bytes(b, source, offset), self.type, lanes),
                         offset_bytes(b, target, offset), size)
        offset, mask = multiply(b, full, size), b.first_lanes(b.sub(count, full), lanes)
        rest = load_vector(b, offset_bytes(b, source, offset), self.type, lanes, mask)
        store_vector(b, rest, offset_bytes(b, target, offset), size, mask)

    def _clear_elements(self, target: ir.Value, count: int) -> None:
        """Clear contiguous elements."""
        b, lanes = self.b, self.lanes
        zero = ir.Constant(vector(memory_type(self.type), lanes), None)
        if count >= lanes:
            with b.counted_loop(0, count // lanes) as i:
                store_vector(
                    b, zero, offset_bytes(b, target, multiply(b, i, lanes * self.size)), self.size
                )
        if count % lanes:
            to = offset_bytes(b, target, count // lanes * lanes * self.size)
            store_vector(b, zero, to, self.size, b.first_lanes(count % lanes, lanes))

    def _pack_row(self, source: ir.Value, target: ir.Value) -> None:
        """Pack along the innermost coordinate, a vector at a time."""
        last, b, lanes = len(self.lines) - 1, self.b, self.lanes
        extent = self.reach[last][0]

        def chunk(first: Number, count: int) -> None:
            mask = None if count == lanes else b.first_lanes(count, lanes)
            value = self._read(last, source, first, mask)
            store_vector(
                b, value, offset_bytes(b, target, multiply(b, first, self.size)), self.size, mask
            )

        self._loop_chunks(extent, chunk)

    def _loop_chunks(self, extent: int, chunk: Callable[[Number, int], None]) -> None:
        full = extent // self.lanes * self.lanes
        if full:
            with self.b.counted_loop(0, full, self.lanes) as first:
                chunk(first, self.lanes)
        if extent > full:
            chunk(full, extent - full)

    def _read(self, k: int, source: ir.Value, first: Number, mask: ir.Value | None) -> ir.Value:
        """Load `lanes` values along a coordinate from `first` on; zero outside the image."""
        b, lanes, distance = self.b, self.lanes, self._measure_distance(k) * self.size
        mask = b.and_masks(mask, self._mask_lanes(k, first))
        place = offset_bytes(b, source, multiply(b, first, distance))
        if distance == self.size:
            return load_vector(b, place, self.type, lanes, mask)
        pointers = b.gep(place, [lane_numbers(lanes, I64, distance)], source_etype=ir.IntType(8))
        pointers.type = vector(POINTER, lanes)
        return b.gather(pointers, self.type, lanes,
                        b.splat(ir.Constant(I1, 1), lanes) if mask is None else mask)

    def _mask_lanes(self, k: int, first: Number) -> ir.Value | None:
        """Which lanes of a coordinate from `first` on are not padding."""
        b, lanes, line, step = self.b, self.lanes, self.lines[k], self.reach[k][1]
        if line.extent is None:
            return None
        value = b.add(self.lows[k], constant(multiply(b, first, step)))
        values = b.add(b.splat(value, lanes), lane_numbers(lanes, I64, step))
        return b.icmp_unsigned("<", values, b.splat(constant(line.extent), lanes))
