"""NCHW images for Winograd's algorithm: transposed on the way in and out.

Whole images are copied with channels innermost and a border of zeros; outputs are stored with
columns innermost, and transposed for the epilogue, whose lanes run along the rows.
"""

from __future__ import annotations

from llvmlite import ir

from ...loop_ir.ir import Contract, Index, Load, Type
from ..conv.direct_tile import collect_epilogue_accesses, runs_along_rows
from ..gemm.pack_panels import transpose_into
from ..llvm.address import constant, offset_bytes
from ..llvm.builder import Builder
from ..llvm.types import Number, memory_type
from ..llvm.vectors import load_vector, store_vector
from ..loops.context import Context
from ..loops.epilogue import emit_epilogue
from .plan import ImageAxis, pad_line_bytes


class ChannelsLastImages:
    """Scratch for whole images with channels innermost: places start at the border's corner."""

    def __init__(
        self,
        load: Load,
        sides: tuple[ImageAxis, ImageAxis],
        channel: Index,
        channels: int,
        lanes: int,
    ) -> None:
        self.load, self.sides, self.channel, self.lanes = load, sides, channel, lanes
        self.line = pad_line_bytes(channels, lanes, 4)
        height, width = (2 * side.tiles + 2 for side in sides)
        self.row = width * self.line
        self.bytes = height * self.row

    def clear(self, b: Builder, target: ir.Value, images: int) -> None:
        """Clear the scratch; packing never covers the border."""
        zero = ir.Constant(ir.VectorType(memory_type(Type.F32), 16), None)
        with b.counted_loop(0, images * self.bytes, 64) as offset:
            store_vector(b, zero, offset_bytes(b, target, offset), 4)

    def place(self, b: Builder, start: ir.Value, image: ir.Value, y: ir.Value, x: ir.Value
              ) -> ir.Value:
        """Return the address of a position's channels."""
        for number, stride in ((image, self.bytes), (y, self.row), (x, self.line)):
            start = offset_bytes(b, start, b.mul(number, constant(stride)))
        return start

    def pack(self, b: Builder, source: ir.Value, target: ir.Value, square: ir.Value,
             channels: Number) -> None:
        """Pack an image's first channels; `source`: the image's address."""
        lanes, stride = self.lanes, int(self.load.at.stride(self.channel)) * 4  # type: ignore[arg-type]
        (down, right) = self.sides
        for side in self.sides:
            source = offset_bytes(b, source, -side.shift * side.stride * 4)
        with b.counted_loop(constant(0), constant(channels), lanes) as c:
            rows = b.minimum_of(b.sub(constant(channels), c), constant(lanes))
            first = offset_bytes(b, source, b.mul(c, constant(stride)))
            into = offset_bytes(b, target, b.mul(c, constant(4)))
            with b.counted_loop(down.low, down.high) as y:
                line = offset_bytes(b, first, b.mul(y, constant(down.stride * 4)))
                there = offset_bytes(b, into, b.mul(y, constant(self.row)))
                with b.counted_loop(right.low, right.high, lanes) as x:
                    count = b.minimum_of(b.sub(constant(right.high), x), constant(lanes))
                    transpose_into(
                        b, Type.F32, lanes, offset_bytes(b, line, b.mul(x, constant(4))), stride,
                        rows, count, square,
                    )
                    with b.counted_loop(constant(0), count) as i:
                        channels_vector = load_vector(
                            b, offset_bytes(b, square, b.mul(i, constant(lanes * 4))), Type.F32,
                            lanes,
                        )
                        offset = b.mul(b.add(x, i), constant(self.line))
                        store_vector(b, channels_vector, offset_bytes(b, there, offset), 4)


class TransposedOutputs:
    """Scratch for whole images of outputs with their columns innermost, a panel at a time."""

    def __init__(
        self,
        context: Context,
        contract: Contract,
        sides: tuple[ImageAxis, ImageAxis],
        image: Index,
        lanes: int,
        width: int,
    ) -> None:
        self.context, self.contract, self.sides, self.image = context, contract, sides, image
        self.lanes, self.width = lanes, width
        self.height, self.across = (2 * side.tiles for side in sides)
        self.bytes = self.height * self.across * width * 4  # of an image
        self.flat = self._is_flat()

    @staticmethod
    def needed(contract: Contract, sides: tuple[ImageAxis, ImageAxis]) -> bool:
        """Whether the epilogue's stores are closer along the rows than along the columns."""
        return runs_along_rows(contract, sides[1].row.index)

    def _is_flat(self) -> bool:
        """Whether an image's rows are contiguous for the epilogue."""
        down, right = self.sides
        strides = [(access.at.stride(down.row.index), access.at.stride(right.row.index))
                   for access in collect_epilogue_accesses(self.contract)]
        return right.extent == self.across and all(
            pair in ((0, 0), (right.extent, 1)) for pair in strides
        )

    def place(self, b: Builder, target: ir.Value, image: ir.Value, y: ir.Value, x: ir.Value
              ) -> ir.Value:
        """Return the address of an output position's columns."""
        row = b.add(b.mul(image, constant(self.height)), y)
        pixel = b.add(b.mul(row, constant(self.across)), x)
        return offset_bytes(b, target, b.mul(pixel, constant(self.width * 4)))

    def emit(self, b: Builder, source: ir.Value, image: ir.Value, column: ir.Value, valid: int,
             square: ir.Value) -> None:
        """Emit an image's epilogue over `valid` columns; its outputs begin at `source`."""
        down, right = self.sides
        rows, run = (1, down.extent * right.extent) if self.flat else (down.extent, right.extent)
        known = {axis.index: constant(0) for axis in self.contract.rows} | {self.image: image}
        with b.counted_loop(0, rows) as y:
            line = offset_bytes(b, source, b.mul(y, constant(self.across * self.width * 4)))
            with b.counted_loop(0, run, self.lanes) as x, b.counted_loop(0, valid, self.lanes) as j:
                count = b.minimum_of(b.sub(constant(run), x), constant(self.lanes))
                start = offset_bytes(b, line, b.mul(x, constant(self.width * 4)))
                start = offset_bytes(b, start, b.mul(j, constant(4)))
                transpose_into(
                    b, Type.F32, self.lanes, start, self.width * 4, count, self.lanes, square
                )
                remaining = b.minimum_of(b.sub(constant(valid), j), constant(self.lanes))
                bindings = {**known, down.row.index: y}
                del bindings[right.row.index]
                self._emit_columns(
                    b, bindings, b.add(column, j), remaining, (right.row.index, x), count, square
                )

    def _emit_columns(self, b: Builder, known: dict[Index, ir.Value], column: ir.Value,
                      left: ir.Value,
                      row: tuple[Index, ir.Value], count: ir.Value, square: ir.Value
                      ) -> None:
        mask = b.first_lanes(count, self.lanes)
        with b.counted_loop(constant(0), left) as c:
            vector_sums = load_vector(
                b, offset_bytes(b, square, b.mul(c, constant(self.lanes * 4))), Type.F32, self.lanes
            )
            bindings = {**known, self.contract.column.index: b.add(column, c)}
            emit_epilogue(self.context, self.contract.body, bindings, row, self.lanes, vector_sums,
                          mask)
