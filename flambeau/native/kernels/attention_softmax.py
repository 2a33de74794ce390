"""Attention's probabilities from its scores, in place."""

from __future__ import annotations

import math

from ..loop_ir.ir import (
    Accumulator, Affine, Apply, Begin, Buffer, Constant, Expression, Index, IndexValue, Kernel,
    Load, Loop, LoopKind, ReduceOp, Scalar, Size, Statement, Store, Type, Update,
)


def probabilities(type: Type, causal: bool) -> Kernel:
    """scores, scale: softmax of scores * scale along rows; with `causal` not beyond the diagonal.

    Sizes: batches, rows, columns, rows * columns.
    """
    batch, row, column = Index("batch"), Index("row"), Index("column")
    batches, rows, columns, each = (Size(n) for n in ("batches", "rows", "columns", "each"))
    scores, scale = Buffer(type, "scores"), Buffer(type, "scale")
    at = Affine(0, ((batch, each), (row, columns), (column, 1)))

    def two(operation: Scalar, a: Expression, b: Expression) -> Expression:
        return Apply(operation, (a, b), type)

    value: Expression = two(Scalar.MUL, Load(scores, at), Load(scale, Affine()))
    if causal:
        seen = Apply(Scalar.LE, (IndexValue(Affine(0, ((column, 1),))),
                                 IndexValue(Affine(0, ((row, 1),)))), Type.BOOL)
        value = Apply(Scalar.WHERE, (seen, value, Constant(type, -math.inf)), type)
    top, total = Accumulator(ReduceOp.MAXIMUM, type, "top"), Accumulator(ReduceOp.SUM, type)
    shifted = Apply(Scalar.EXP, (two(Scalar.SUB, value, top),), type)
    # What is summed is what was stored: the scores are gone by then.
    steps: list[list[Statement]] = [
        [Update(top, value)],
        [Update(total, shifted), Store(scores, at, shifted)],
        [Store(scores, at, two(Scalar.MUL, Load(scores, at),
                               two(Scalar.DIV, Constant(type, 1), total)))],
    ]
    loops = [Loop(column, columns, inside, LoopKind.VECTORIZED) for inside in steps]
    body: list[Statement] = [Begin(top), loops[0], Begin(total), loops[1], loops[2]]
    nest = Loop(batch, batches, [Loop(row, rows, body, LoopKind.PARALLEL)], LoopKind.PARALLEL)
    return Kernel("probabilities", [scores, scale], [nest], [batches, rows, columns, each])
