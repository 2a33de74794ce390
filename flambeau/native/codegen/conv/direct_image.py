"""The image operand of a convolution, as read by a unit of rows; packed into scratch if needed."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from llvmlite import ir

from ...loop_ir.ir import Affine, Contract, Index, Load
from ..gemm.micro_kernel import DepthLoop
from ..llvm.address import constant, multiply, offset_bytes
from ..llvm.builder import Builder
from ..loops.context import Context
from .direct_blocking import ConvPlan, PaddedCoordinate
from .direct_tile import Bindings
from .pack_window import WindowPacker


class ImageOperand:
    """Locates and packs `a`. `window`: the scratch that packed rows go to; `shared`: the address
    of a window that several units read.
    """

    def __init__(self, context: Context, contract: Contract, cut: ConvPlan) -> None:
        self.context, self.contract, self.cut = context, contract, cut
        self.b: Builder = context.builder
        self.size = cut.type.size
        self.window: ir.Value | None = None
        self.shared: ir.Value | None = None

    def a_stride(self, index: Index) -> int:
        """Return an index's stride in bytes in `a`, or in its packed copy."""
        if not self.cut.lines:
            return int(self.contract.a.at.stride(index)) * self.size  # type: ignore[arg-type]
        total = 0
        for line, (_, stride) in zip(self.cut.lines, self.cut.local, strict=True):
            step = self.cut.reach(line)[1]
            total += sum(c // step * stride for i, c in line.terms if i is index)
        return total * self.size

    def depth_loops(self) -> list[DepthLoop]:
        """Return the loops over a depth block, merged if `a`'s strides allow it."""
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

    def locate(self, rows: list[ir.Value], depth_start: Sequence[ir.Value | int]) -> ir.Value:
        """Return the address of `a` for a unit's first row, after packing if needed."""
        if self.shared is not None:
            return self._move_to_rows(self.shared, rows)
        if self.cut.lines:
            return self.pack(rows, depth_start)
        load = self.contract.a
        bindings = {a.index: v for a, v in zip(self.cut.rows, rows, strict=True)}
        bindings |= {a.index: constant(v) for a, v in zip(self.cut.depth, depth_start, strict=True)}
        return self.address(load, bindings)

    def address(self, load: Load, bindings: Bindings) -> ir.Value:
        """Return a load's address with the contraction's other axes at 0."""
        known = {**self.context.bindings, **bindings}
        terms = tuple([term for term in load.at.terms if term[0] in known])
        return self.context.address(load.buffer, Affine(load.at.base, terms), bindings)

    def _move_to_rows(self, a: ir.Value, rows: list[ir.Value]) -> ir.Value:
        """A packed window's address for the rows of one unit."""
        for axis, row in zip(self.cut.rows, rows, strict=True):
            a = offset_bytes(self.b, a, multiply(self.b, row, self.a_stride(axis.index)))
        return a

    def pack(self, rows: list[ir.Value], depth_start: Sequence[ir.Value | int]) -> ir.Value:
        """Pack the part of `a` that a unit reads; return the address of its first row and step."""
        b, cut, load = self.b, self.cut, self.contract.a
        values = {a.index: v for a, v in zip(cut.rows, rows, strict=True)}
        values |= {a.index: constant(v) for a, v in zip(cut.depth, depth_start, strict=True)}
        spans = cut.spans()
        lows, counts, shift = [], [], 0
        source = self.address(load, {})
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
            counts.append(self._count_rows(line, values))
        reach = [cut.reach(line) for line in cut.lines]
        strides = [stride for _, stride in cut.local]
        WindowPacker(b, cut.type, cut.lanes, cut.lines, reach, strides, lows, counts).pack(
            source, self.window
        )
        return offset_bytes(b, self.window, shift * self.size)

    def _count_rows(self, line: PaddedCoordinate, values: Bindings) -> ir.Value | None:
        """Return how many values an unpadded coordinate has if a unit may have fewer, else None."""
        cut = self.cut
        extent, unit = cut.row_extents[cut.first], cut.unit[cut.first]
        index = cut.rows[cut.first].index
        if line.extent is not None or not extent % unit or line.terms[0][0] is not index:
            return None
        remaining = self.b.sub(constant(extent), values[index])
        return self.b.minimum_of(remaining, constant(unit))
