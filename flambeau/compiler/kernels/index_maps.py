"""Loop nests, the coordinates of their points, and of the elements that a point reads.

A point has a coordinate for each axis of the domain. Movements that strides cannot express turn
coordinates into integer expressions.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...native.loop_ir.ir import (
    Affine, Apply, Constant, Expression, Index, IndexValue, Loop, LoopKind, Scalar, Statement, Type,
)
from ..fusion.fusion_group import Chain
from ..ir.axis_order import invert_permutation
from ..ir.graph import Op
from ..ir.strided_view import compute_row_major_strides

# A position along an axis, base + sum(index * step): (base, ((index, step), ...)).
Coordinate = tuple[int, tuple[tuple[Index, int], ...]]

FIXED: Coordinate = (0, ())  # an axis of extent 1


def map_index(index: Index, step: int = 1, base: int = 0) -> Coordinate:
    """The position along an axis that one index iterates over."""
    return base, ((index, step),)


def split(outer: Index, step: int, inner: Index) -> Coordinate:
    """The position along an axis cut into blocks of `step`: the block and the place in it."""
    return 0, ((outer, step), (inner, 1))


def wrap_in_loops(
    body: list[Statement], loops: Sequence[tuple[Index, int]], kind: LoopKind = LoopKind.SERIAL
) -> list[Statement]:
    """Wrap statements in loops, (index, extent) each; the last one is the innermost."""
    for index, extent in reversed(loops):
        body = [Loop(index, extent, body, kind)]
    return body


def map_to_source(
    point: Sequence[Coordinate], chain: Chain
) -> tuple[list[Expression], Expression | None]:
    """Return the I64 position along each axis of the value a chain starts from, and a condition
    that it lies inside the value, not in a PAD (None if always).
    """
    result: list[Expression] = [IndexValue(Affine(base, tuple(steps))) for base, steps in point]
    mask: Expression | None = None
    for node in reversed(chain):
        inner = node.inputs[0].shape
        if node.op is Op.RESHAPE:
            result = _unravel(_ravel(result, node.shape), inner)
        elif node.op is Op.PERMUTE:
            result = [result[i] for i in invert_permutation(node.axes)]
        elif node.op is Op.EXPAND:
            result = [
                _create_integer(0) if n == 1 else x for x, n in zip(result, inner, strict=True)
            ]
        elif node.op is Op.SLICE:
            moves = zip(result, node.starts, node.steps, strict=True)
            result = [_add_integer(_multiply_integer(x, step), start) for x, start, step in moves]
        else:
            result = [_add_integer(x, -low) for x, low in zip(result, node.low, strict=True)]
            for x, n, low, high in zip(result, inner, node.low, node.high, strict=True):
                mask = _and_compare(mask, x, Scalar.GE, 0) if low else mask
                mask = _and_compare(mask, x, Scalar.LT, n) if high else mask
    return result, mask


def _create_integer(value: int) -> Expression:
    return Constant(Type.I64, value)


def _add_integer(x: Expression, value: int) -> Expression:
    return Apply(Scalar.ADD, (x, _create_integer(value)), Type.I64) if value else x


def _multiply_integer(x: Expression, value: int) -> Expression:
    return Apply(Scalar.MUL, (x, _create_integer(value)), Type.I64) if value != 1 else x


def _ravel(result: Sequence[Expression], shape: Sequence[int]) -> Expression:
    """The row-major number of an element, given its coordinates."""
    total: Expression | None = None
    for x, step, n in zip(result, compute_row_major_strides(tuple(shape)), shape, strict=True):
        if n != 1:
            term = _multiply_integer(x, step)
            total = term if total is None else Apply(Scalar.ADD, (total, term), Type.I64)
    return _create_integer(0) if total is None else total


def _unravel(number: Expression, shape: Sequence[int]) -> list[Expression]:
    """The coordinates of an element, given its row-major number."""
    result, first = [], True
    for step, n in zip(compute_row_major_strides(tuple(shape)), shape, strict=True):
        if n == 1:
            result.append(_create_integer(0))
            continue
        x = number if step == 1 else Apply(Scalar.DIV, (number, _create_integer(step)), Type.I64)
        result.append(x if first else Apply(Scalar.REM, (x, _create_integer(n)), Type.I64))
        first = False
    return result


def _and_compare(mask: Expression | None, x: Expression, test: Scalar, limit: int) -> Expression:
    result = Apply(test, (x, _create_integer(limit)), Type.BOOL)
    return result if mask is None else Apply(Scalar.AND, (mask, result), Type.BOOL)
