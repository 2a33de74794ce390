"""Pointwise kernels for any number of elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..loop_ir.expression_builder import HALVES, Value, compute_type
from ..loop_ir.ir import (
    Affine, Buffer, Index, Kernel, Load, Loop, LoopKind, Size, Statement, Store, Type,
)

# An operand's layout relative to the contiguous result.
FULL, NUMBER, ROW, COLUMN = "full", "number", "row", "column"
GRID_STEPS = {"repeated": 0, "spread": 1, "second": 2}  # on a grid: strides along a row


def pointwise(formula: Callable[..., Any], operands: Sequence[tuple[Type, str]],
              result: Type | None = None) -> Kernel:
    """Return a kernel that applies a formula: buffers are the operands, then the result (or all
    results of a formula that returns a tuple).

    Sizes: n; or rows, columns if an operand needs them. `result`: the result's type, if not the
    formula's. ROW: one row for all; COLUMN: one element per row; NUMBER: one element. If operands
    lie on a grid, the sizes are its three extents, then the strides along the first two: of the
    results and of each operand on the grid.
    """
    walk = _Walk([layout for _, layout in operands])
    buffers = [Buffer(type, f"x{k}") for k, (type, _) in enumerate(operands)]
    values = [Value(Load(b, place)).cast(compute_type(b.type))
              for b, place in zip(buffers, walk.places, strict=True)]
    computed = formula(*values)
    several = computed if isinstance(computed, tuple) else (computed,)
    if any(not isinstance(value, Value) for value in several):
        raise NotImplementedError(f"{formula} gave {computed.__class__.__name__}")
    if result is None and operands[0][0] in HALVES and several[0].type is Type.F32:
        result = operands[0][0]
    if result is not None:
        several = tuple(value.cast(result) for value in several)
    ys = [Buffer(value.type, f"y{k}" if k else "y") for k, value in enumerate(several)]
    body: list[Statement] = [Store(y, walk.result, value.expression)
                             for y, value in zip(ys, several, strict=True)]
    return Kernel("pointwise", [*buffers, *ys], walk.nest(body), walk.sizes)


class _Walk:
    """The loops over all elements, and where results and operands lie on them."""

    def __init__(self, layouts: Sequence[str]) -> None:
        column, columns = Index("column"), Size("columns")
        rows = [(Index("row"), Size("rows"))]
        is_grid = any(layout in GRID_STEPS for layout in layouts)
        if all(layout in (FULL, NUMBER) for layout in layouts):
            rows, columns = [], Size("n")
        elif is_grid:
            rows = [(Index("outer"), Size("outer")), *rows]
        self.loops = [*rows, (column, columns)]
        self.sizes = [extent for _, extent in self.loops]
        self.result = self._lie_on_grid("y", 1) if is_grid else \
            Affine(0, (*[(row, columns) for row, _ in rows], (column, 1)))
        places = {FULL: self.result, NUMBER: Affine(), ROW: Affine(0, ((column, 1),)),
                  COLUMN: Affine(0, tuple([(row, 1) for row, _ in rows]))}
        self.places = [
            self._lie_on_grid(f"x{k}", GRID_STEPS[layout]) if layout in GRID_STEPS
            else places[layout] for k, layout in enumerate(layouts)
        ]

    def _lie_on_grid(self, name: str, step: int) -> Affine:
        """Take two strides as sizes."""
        *rows, (column, _) = self.loops
        steps = [Size(f"{name}_{extent.name}") for _, extent in rows]
        self.sizes += steps
        terms = [(row, apart) for (row, _), apart in zip(rows, steps, strict=True)]
        return Affine(0, (*terms, (column, step)))

    def nest(self, body: list[Statement]) -> list[Statement]:
        """Put the body into the loops."""
        kinds = [LoopKind.PARALLEL] * len(self.loops)
        if len(self.loops) > 1:
            kinds[-1] = LoopKind.VECTORIZED
        for (index, extent), kind in zip(reversed(self.loops), reversed(kinds), strict=True):
            body = [Loop(index, extent, body, kind)]
        return body
