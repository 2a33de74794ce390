"""Partial sums of tiles, kept in memory between the blocks of a long depth."""

from __future__ import annotations

from llvmlite import ir

from ..llvm.address import add, multiply, offset_bytes, subtract
from ..llvm.types import Number
from ..llvm.vectors import load_vector, store_vector
from .micro_kernel import MicroTile, Sums
from .product import DepthBlock, Product
from .workspace import Workspace


class PartialSums:
    """Stores and resumes the sums of tiles."""

    def __init__(self, product: Product, workspace: Workspace) -> None:
        self.builder, self.size, self.workspace = product.builder, product.size, workspace

    def address(self, group: Number, panel: Number, work: DepthBlock) -> ir.Value:
        """Return the address of a tile's sums; `group`: its position in the block."""
        b, workspace = self.builder, self.workspace
        index = add(
            b, multiply(b, group, workspace.block_panels), subtract(b, panel, work.first_panel)
        )
        return offset_bytes(
            b, offset_bytes(b, workspace.memory, workspace.sums_at),
            multiply(b, index, workspace.tile_bytes),
        )

    def load(self, tile: MicroTile, partial_sums: ir.Value, fresh: ir.Value) -> Sums:
        """Load the sums so far; zero on the first stretch."""
        b = self.builder
        before = b.block
        read, go_on = b.append_basic_block("resume"), b.append_basic_block("sums")
        b.cbranch(fresh, go_on, read)
        b.position_at_end(read)
        step = tile.lanes * self.size
        loaded = [load_vector(b, offset_bytes(b, partial_sums, i * step), tile.type, tile.lanes)
                  for i in range(tile.rows * tile.vectors)]
        b.branch(go_on)
        b.position_at_end(go_on)
        out = []
        for vector in loaded:
            phi = b.phi(vector.type)
            phi.add_incoming(ir.Constant(vector.type, None), before)
            phi.add_incoming(vector, read)
            out.append(phi)
        return out

    def store(self, tile: MicroTile, sums: Sums, into: ir.Value) -> None:
        """Write a tile's sums to memory."""
        step = tile.lanes * self.size
        for i, vector in enumerate(sums):
            store_vector(
                self.builder, vector, offset_bytes(self.builder, into, i * step), self.size
            )
