"""The weights of a Winograd convolution: panels of columns, transformed into the sixteen places."""

from __future__ import annotations

from collections.abc import Iterator

from llvmlite import ir

from ...loop_ir.ir import Contract
from ..gemm.pack_panels import StridedBlock, pack_block
from ..llvm.address import constant, multiply, offset_bytes
from ..llvm.builder import Builder
from ..llvm.vectors import load_vector, store_vector
from .plan import WinogradPlan
from .transforms import InputTiles, transform_weight


class WeightPanels:
    """Packs the panels of a thread. `square`, `taps` and `weights` are addresses of scratch."""

    square: ir.Value
    taps: ir.Value
    weights: ir.Value

    def __init__(self, b: Builder, contract: Contract, cut: WinogradPlan, tiles: InputTiles
                 ) -> None:
        self.b, self.contract, self.cut, self.tiles = b, contract, cut, tiles

    def each(self, first: ir.Value, until: ir.Value) -> Iterator[tuple[ir.Value, int]]:
        """(a panel's number, its columns): emits code for full panels, and for a smaller last."""
        b, cut = self.b, self.cut
        rest = cut.columns % cut.width
        full = cut.columns // cut.width
        if full:
            with b.counted_loop(first, b.minimum_of(until, constant(full))) as index:
                yield index, cut.width
        if rest:
            with b.if_then(b.icmp_signed("==", until, constant(cut.count))):
                yield constant(cut.count - 1), rest

    def pack(self, first: ir.Value, until: ir.Value) -> None:
        """The weights of some panels in the sixteen places: place by place, panel by panel."""
        b, cut, load = self.b, self.cut, self.contract.b
        column = load.at.stride(self.contract.column.index)
        axes = [cut.sides[0].tap, cut.sides[1].tap, cut.channel]
        depth = [(int(a.extent), int(load.at.stride(a.index))) for a in axes]  # type: ignore[arg-type]
        block = StridedBlock(depth, int(column), cut.type, cut.lanes, cut.width, self.square)  # type: ignore[arg-type]
        start = self.tiles.address(load, {})
        for index, valid in self.each(first, until):
            source = offset_bytes(b, start, multiply(b, index, cut.width * block.column * 4))
            pack_block(b, block, source, self.taps, valid)
            target = self.address(index, first)
            with b.counted_loop(0, cut.weights, cut.lanes * 4) as offset:
                self._transform_vector(offset_bytes(b, self.taps, offset),
                                       offset_bytes(b, target, offset))

    def _transform_vector(self, source: ir.Value, target: ir.Value) -> None:
        b, cut = self.b, self.cut
        rows, columns = (range(3)[::-1] if side.turned else range(3) for side in cut.sides)
        taps = [
            [
                load_vector(
                    b, offset_bytes(b, source, (3 * i + j) * cut.weights), cut.type, cut.lanes
                )
                for j in columns
            ]
            for i in rows
        ]
        for k, transformed in enumerate(
            value for row in transform_weight(b, taps) for value in row
        ):
            store_vector(b, transformed, offset_bytes(b, target, k * cut.weights), 4)

    def address(self, index: ir.Value, first: ir.Value) -> ir.Value:
        place = self.b.mul(self.b.sub(index, first), constant(16 * self.cut.weights))
        return offset_bytes(self.b, self.weights, place)
