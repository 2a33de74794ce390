"""Row reductions: moments, sums of products, log-sum-exp, sums of formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..loop_ir.expression_builder import Value, compute_type, where
from ..loop_ir.index_notation import create_indices, load, nest, repeat, store, update
from ..loop_ir.ir import Accumulator, Begin, Buffer, Constant, Kernel, ReduceOp, Size, Type
from .softmax_and_layer_norm import (
    FORMULAS, RowKernelBuilder, apply_exp, apply_log, accumulator_type,
)


def moments(type: Type, *tangents: str) -> Kernel:
    """x, 1 / columns, mean, squares: each row's mean and sum of squared distances from it.

    `tangents`: the buffers that a buffer of their tangent follows.
    """
    r = RowKernelBuilder(type, tangents=tangents)
    x, share = r.matrix("x"), r.number("share")
    mean, squares = r.vector("mean"), r.vector("squares")
    center = r.fold(ReduceOp.SUM, x) * share
    centered = x - center
    r.keep(squares, r.fold(ReduceOp.SUM, centered * centered))
    r.keep(mean, center)
    return r.kernel("moments")


def affine_rows(type: Type, *tangents: str) -> Kernel:
    """x, scale, shift, y: x * scale + shift, with a scale and a shift for each row.

    `tangents`: the buffers that a buffer of their tangent follows.
    """
    r = RowKernelBuilder(type, tangents=tangents)
    x, scale, shift = r.matrix("x"), r.of_rows("scale"), r.of_rows("shift")
    r.sweep(stores=[(r.buffer("y"), x * scale + shift)])
    return r.kernel("affine_rows")


def centered_products(type: Type) -> Kernel:
    """g, x, mean, of_g, of_product: each row's sums of g, and of g times x less its mean."""
    r = RowKernelBuilder(type)
    g, x, mean = r.matrix("g"), r.matrix("x"), r.of_rows("mean")
    of_g, of_product = r.vector("of_g"), r.vector("of_product")
    total, product = r.sweep([(ReduceOp.SUM, g), (ReduceOp.SUM, g * (x - mean))])
    r.keep(of_g, total)
    r.keep(of_product, product)
    return r.kernel("centered_products")


def logsumexp(type: Type) -> Kernel:
    """x, y: the logarithm of each row's sum of exp(x)."""
    r = RowKernelBuilder(type)
    x, y = r.matrix("x"), r.vector("y")
    top = r.fold(ReduceOp.MAXIMUM, x)
    top = where(abs(top) < np.inf, top, Value(Constant(top.type, 0)))
    r.keep(y, apply_log(r.fold(ReduceOp.SUM, apply_exp(x - top))) + top)
    return r.kernel("logsumexp")


def logsumexp_with_tangent(type: Type) -> Kernel:
    """x, its tangent, y, its tangent: the logarithm of each row's sum of exp(x)."""
    r = RowKernelBuilder(type)
    x, t, y, y_t = r.matrix("x"), r.matrix("t"), r.vector("y"), r.vector("y_t")
    top = r.fold(ReduceOp.MAXIMUM, x)
    top = where(abs(top) < np.inf, top, Value(Constant(top.type, 0)))
    power = apply_exp(x - top)
    total, total_t = r.sweep([(ReduceOp.SUM, power), (ReduceOp.SUM, power * t)])
    r.keep(y, apply_log(total) + top)
    r.keep(y_t, total_t / total)
    return r.kernel("logsumexp_with_tangent")


def extremes_with_tangents(type: Type, fold: ReduceOp) -> Kernel:
    """x, its tangent, y, its tangent: each row's extreme. Ties share, NaN equals nothing."""
    r = RowKernelBuilder(type)
    x, t, y, y_t = r.matrix("x"), r.matrix("t"), r.vector("y"), r.vector("y_t")
    extreme = r.fold(fold, x)
    zero, unit = (Value(Constant(x.type, number)) for number in (0, 1))
    count, total = r.sweep([(ReduceOp.SUM, where(x == extreme, unit, zero)),
                            (ReduceOp.SUM, where(x == extreme, t, zero))])
    r.keep(y, extreme)
    r.keep(y_t, total / count)
    return r.kernel("extremes_with_tangents")


def fold_rows(type: Type, count: int, formula: Callable[..., Any]) -> Kernel:
    """`count` matrices, y: each row's sum of a formula of their elements."""
    r = RowKernelBuilder(type)
    value = formula(*[r.matrix(f"x{k}") for k in range(count)])
    y = r.vector("y")
    r.keep(y, r.fold(ReduceOp.SUM, value))
    return r.kernel("fold_rows")


def reduce_middle(type: Type, fold: ReduceOp, formula: str = "same") -> Kernel:
    """x, y: for each plane of rows and columns, each column's fold of a formula of its elements.

    Sizes: planes, rows, columns, elements of a plane.
    """
    inside = accumulator_type(type, fold) or compute_type(type)
    x, y, accumulator = Buffer(type, "x"), Buffer(inside, "y"), Accumulator(fold, inside)
    plane, row, column = create_indices("plane row column")
    planes, rows, columns, each = sizes = [Size(n) for n in ("planes", "rows", "columns", "each")]
    element = load(x, plane * each + row * columns + column).cast(inside)
    body = nest([
        Begin(accumulator), repeat(row, rows, update(accumulator, FORMULAS[formula](element))),
        store(y, plane * columns + column, Value(accumulator)),
    ], (plane, planes), (column, columns))
    return Kernel("reduce_middle", [x, y], [body], sizes)
