"""Pointwise kernels for any number of elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..loop_ir.ir import (
    Affine, Buffer, Index, Kernel, Load, Loop, LoopKind, Size, Statement, Store, Type,
)
from .expression_builder import HALVES, Value, compute_type

# An operand's layout relative to the contiguous result.
FULL, NUMBER, ROW, COLUMN, APART = "full", "number", "row", "column", "apart"
SECOND = "second"


def pointwise(formula: Callable[..., Any], operands: Sequence[tuple[Type, str]],
              result: Type | None = None) -> Kernel:
    """Return a kernel that applies a formula: buffers are the operands, then the result (or all
    results of a formula that returns a tuple).

    Sizes: n; or rows, columns if an operand needs them. `result`: the result's type, if not the
    formula's. ROW: one row for all; COLUMN: one element per row; NUMBER: one element; APART: rows
    with gaps, whose strides are further sizes; SECOND: the same, and elements two apart.
    """
    plain = all(layout in (FULL, NUMBER) for _, layout in operands)
    row, column = Index("row"), Index("column")
    rows, columns = Size("rows"), Size("n" if plain else "columns")
    places = {
        FULL: Affine(0, ((column, 1),) if plain else ((row, columns), (column, 1))),
        NUMBER: Affine(), ROW: Affine(0, ((column, 1),)), COLUMN: Affine(0, ((row, 1),)),
    }
    buffers = [Buffer(type, f"x{k}") for k, (type, _) in enumerate(operands)]
    steps = {k: Size(f"step{k}") for k, (_, layout) in enumerate(operands)
             if layout in (APART, SECOND)}
    gapped = {k: Affine(0, ((row, step), (column, 1 if operands[k][1] == APART else 2)))
           for k, step in steps.items()}
    values = [
        Value(Load(b, gapped.get(k) or places[layout])).cast(compute_type(b.type))
        for k, (b, (_, layout)) in enumerate(zip(buffers, operands, strict=True))
    ]
    computed = formula(*values)
    several = computed if isinstance(computed, tuple) else (computed,)
    if any(not isinstance(value, Value) for value in several):
        raise NotImplementedError(f"{formula} gave {computed.__class__.__name__}")
    if result is None and operands[0][0] in HALVES and several[0].type is Type.F32:
        result = operands[0][0]
    if result is not None:
        several = tuple(value.cast(result) for value in several)
    ys = [Buffer(value.type, f"y{k}" if k else "y") for k, value in enumerate(several)]
    body: list[Statement] = [Store(y, places[FULL], value.expression)
                             for y, value in zip(ys, several, strict=True)]
    if plain:
        body, sizes = [Loop(column, columns, body, LoopKind.PARALLEL)], [columns]
    else:
        inner = Loop(column, columns, body, LoopKind.VECTORIZED)
        body, sizes = (
            [Loop(row, rows, [inner], LoopKind.PARALLEL)],
            [rows, columns, *steps.values()],
        )
    return Kernel("pointwise", [*buffers, *ys], body, sizes)
