"""Contractions as plain loops: the fallback for forms and types without a tiled kernel."""

from __future__ import annotations

from ...loop_ir.ir import (
    Apply, Begin, Contract, Expression, Loop, LoopKind, Scalar, Statement, Type, Update,
)
from .context import Context
from .parallel_loops import emit_parallel
from .statement import emit_body
from .vectorization import extend_plan


def emit_contraction_loops(context: Context, statement: Contract) -> None:
    """Emit a Contract as loops, split among the threads if it stands outermost."""
    body = lower_to_loops(statement, parallel=not context.parallel)
    extend_plan(context.plan, [body], context.target)
    if context.parallel:
        emit_body(context, context.scope, [body])
    else:
        emit_parallel(context, body)


def lower_to_loops(statement: Contract, parallel: bool = False) -> Loop:
    """The loop nest equivalent to a Contract."""
    total = statement.sum
    operands = _cast(statement.a, total.type), _cast(statement.b, total.type)
    product = Apply(statement.product, operands, total.type)
    inner: Statement = Update(total, product)
    for axis in reversed(statement.depth):
        inner = Loop(axis.index, axis.extent, [inner])
    rows = statement.rows
    kind = LoopKind.VECTORIZED if rows or not parallel else LoopKind.PARALLEL
    column = statement.column
    nest = Loop(column.index, column.extent, [Begin(total), inner, *statement.body], kind)
    for axis in reversed(rows):
        nest = Loop(
            axis.index, axis.extent, [nest], LoopKind.PARALLEL if parallel else LoopKind.SERIAL
        )
    return nest


def _cast(value: Expression, type: Type) -> Expression:
    return value if value.type is type else Apply(Scalar.CAST, (value,), type)
