"""The product being emitted: state shared by the parts of its emitter.

A macro-kernel (macro_kernel.py) loops over blocks and panels (tile_loops.py), packs operands
(operand_packer.py) into working memory (workspace.py), multiplies tiles (tile_kernel.py) and runs
the epilogue on their sums (tile_epilogue.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from ...loop_ir.ir import Contract, Type
from ...target.cost_model import MIN_EPILOGUE_PREFETCH_BYTES
from ..llvm.types import Number
from ..loops.epilogue_prefetch import count_stream_bytes, find_epilogue_streams, prefetch_tile
from .bf16_pairs import count_pair_steps
from .blocking import GemmPlan, GemmProblem


@dataclass(frozen=True)
class PanelColumns:
    """A panel of columns: its first column, and how many columns and vectors it has."""

    first: Number
    count: Number
    vectors: int


@dataclass(frozen=True)
class DepthBlock:
    """A block of rows and panels over a stretch of the depth.

    `ends`: whether it is the first and the last stretch, if the depth is cut.
    """

    start: Number
    depth: Number
    ends: tuple[ir.Value, ir.Value] | None
    first_group: Number
    first_panel: Number
    first_packed: Number  # the first of the panels that stay in L2
    turns: Number  # in which each tile prefetches its part of the next rows


class Product:
    """A Contract that is a matrix product, with its problem and plan."""

    def __init__(self, context: Any, statement: Contract, p: GemmProblem, plan: GemmPlan) -> None:
        self.context, self.statement, self.p, self.plan = context, statement, p, plan
        self.builder = context.builder
        self.tile = plan.tile
        self.row, self.column = p.row, statement.column.index
        streams = find_epilogue_streams(statement.body, self.row, self.column)
        self.streams = (
            streams if count_stream_bytes(streams, p.m, p.n) >= MIN_EPILOGUE_PREFETCH_BYTES else []
        )
        self.size = p.type.size
        self.packed_type = Type.I32 if plan.pairs else p.type  # element type of panels

    def count_steps(self, depth: Number) -> Number:
        """Return how many steps of packed panels a depth makes."""
        return count_pair_steps(self.builder, depth, self.plan.pairs)

    def prefetch_epilogue(self, row: Number, rows: int, column: Number, columns: int) -> None:
        """Prefetch what the epilogue of a tile will read and write."""
        prefetch_tile(self.context, self.streams, (self.row, row, rows),
                      (self.column, column, columns))
