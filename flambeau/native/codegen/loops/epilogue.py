"""Emits the epilogue of a contraction, once a tile's sums are complete."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from ...loop_ir.ir import Index, Statement
from .context import Bindings, Context
from .statement import emit_body


def emit_epilogue(
    context: Context,
    body: Sequence[Statement],
    bindings: Bindings,
    column: tuple[Index, ir.Value],
    lanes: int,
    sums: ir.Value,
    mask: ir.Value | None = None,
) -> None:
    """Emit a contraction's body for `lanes` columns of one row.

    `bindings` has the row's indices, `sums` its finished sums, `mask` (lanes x i1) the columns that
    exist.
    """
    assert context.sum is not None
    scope = context.tile_scope(bindings, column, lanes, mask)
    context.accumulators[context.sum] = sums
    context.invalidate([context.sum])
    emit_body(context, scope, body)
