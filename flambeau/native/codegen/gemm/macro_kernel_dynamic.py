"""The macro-kernel for convolutions of run-time sizes, with a single tile shape.

The convolution packs both operands itself. Edge tiles compute values that do not exist and skip
storing them, which keeps the number of tile variants small.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from llvmlite import ir

from ...loop_ir.ir import Index, Statement, Store
from .blocking import GemmPlan, GemmProblem, choose_unroll
from ...target.cost_model import MAX_GEMM_UNCUT_DEPTH
from .macro_kernel import MacroKernel
from .micro_kernel import MicroTile


def plan_dynamic(context: Any, p: GemmProblem, depth: int = MAX_GEMM_UNCUT_DEPTH) -> GemmPlan:
    """A plan that packs everything, and cuts a depth above about `depth`."""
    registers = context.target.vector_registers
    rows, vectors = (8, 3) if registers == 32 else (6, 2)
    tile = MicroTile(rows, vectors, context.target.lanes(p.type), p.type)
    whole = depth // tile.columns * tile.columns
    unroll = choose_unroll(rows, vectors, registers, whole, False)
    return GemmPlan(tile, True, True, whole, True, unroll)


class DynamicMacroKernel(MacroKernel):
    """A macro-kernel whose extents are run-time values."""

    narrows = False

    def same(self, *pairs: tuple[ir.Value, ir.Value]) -> ir.Value:
        """Whether the numbers of each pair are the same."""
        equal = ir.Constant(ir.IntType(1), 1)
        for x, y in pairs:
            equal = self.builder.and_(equal, self.builder.icmp_signed("==", x, y))
        return equal

    def only_store(self) -> Store:
        """The one statement of the epilogue."""
        (store,) = self.statement.body
        assert isinstance(store, Store)
        return store

    def in_lanes(self, index: Index) -> list[Statement]:
        """The epilogue, for when what it stores lies in a row along an index."""
        store = self.only_store()
        terms = tuple(
            [
                (each_index, 1 if each_index is index else stride)
                for each_index, stride in store.at.terms
            ]
        )
        return [replace(store, at=replace(store.at, terms=terms))]
