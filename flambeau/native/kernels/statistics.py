"""Kernels over rows that gather numbers: moments, sums of products and formulas, running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..loops import (
    Accumulator, Affine, Begin, Buffer, Constant, Fold, Index, Kernel, Kind, Load, Loop, Size,
    Statement, Store, Type, Update,
)  # fmt: skip
from .rows import FORMULAS, Rows, _exp, _log
from .value import Value, where

ROWS_AT_ONCE = 4  # of running sums


def moments(type: Type) -> Kernel:
    """x, 1 / columns, mean, squares: each row's mean and sum of squared distances from it."""
    r = Rows(type)
    x, share = r.matrix("x"), r.number("share")
    mean, squares = r.buffer("mean"), r.buffer("squares")
    centre = r.fold(Fold.SUM, x) * share
    apart = x - centre
    r.keep(squares, r.fold(Fold.SUM, apart * apart))
    r.keep(mean, centre)
    return r.kernel("moments")


def centred_products(type: Type) -> Kernel:
    """g, x, mean, of_g, of_product: each row's sums of g, and of g times x less its mean."""
    r = Rows(type)
    g, x, mean = r.matrix("g"), r.matrix("x"), r.of_rows("mean")
    of_g, of_product = r.buffer("of_g"), r.buffer("of_product")
    total, product = r.sweep([(Fold.SUM, g), (Fold.SUM, g * (x - mean))])
    r.keep(of_g, total)
    r.keep(of_product, product)
    return r.kernel("centred_products")


def logsumexp(type: Type) -> Kernel:
    """x, y: the logarithm of each row's sum of exp(x)."""
    r = Rows(type)
    x, y = r.matrix("x"), r.buffer("y")
    top = r.fold(Fold.MAXIMUM, x)
    top = where(abs(top) < np.inf, top, Value(Constant(type, 0)))
    r.keep(y, _log(r.fold(Fold.SUM, _exp(x - top))) + top)
    return r.kernel("logsumexp")


def fold_rows(type: Type, count: int, formula: Callable[..., Any]) -> Kernel:
    """`count` matrices, y: each row's sum of a formula of their elements."""
    r = Rows(type)
    value = formula(*[r.matrix(f"x{k}") for k in range(count)])
    y = r.buffer("y")
    r.keep(y, r.fold(Fold.SUM, value))
    return r.kernel("fold_rows")


def reduce_middle(type: Type, fold: Fold, formula: str = "same") -> Kernel:
    """x, y: for each plane of rows and columns, each column's fold of a formula of its elements.

    Sizes: planes, rows, columns, elements of a plane.
    """
    x, y, one = Buffer(type, "x"), Buffer(type, "y"), Accumulator(fold, type)
    plane, row, column = Index("plane"), Index("row"), Index("column")
    planes, rows, columns, each = (Size(n) for n in ("planes", "rows", "columns", "each"))
    place = Affine(0, ((plane, each), (row, columns), (column, 1)))
    value = FORMULAS[formula](Value(Load(x, place)))
    body: list[Statement] = [
        Begin(one), Loop(row, rows, [Update(one, value.expression)]),
        Store(y, Affine(0, ((plane, columns), (column, 1))), one),
    ]  # fmt: skip
    inner = Loop(column, columns, body, Kind.PARALLEL)
    nest = Loop(plane, planes, [inner], Kind.PARALLEL)
    return Kernel("reduce_middle", [x, y], [nest], [planes, rows, columns, each])


def running_sum(type: Type) -> Kernel:
    """x, y: the sums of each row's elements so far."""
    r = Rows(type)
    x, y, total = r.matrix("x"), r.buffer("y"), Accumulator(Fold.SUM, type)
    step = [Update(total, x.expression), Store(y, r.whole, total)]
    r.body = [Begin(total), Loop(r.column, r.columns, [*step])]
    return r.kernel("running_sum")


def running_sums(type: Type) -> Kernel:
    """ROWS_AT_ONCE windows of x, as many of y, each a row further on: as `running_sum`.

    One row's additions wait for one another; those of several rows do not. Sizes: rows over
    ROWS_AT_ONCE, columns, elements of ROWS_AT_ONCE rows.
    """
    some, column = Index("some"), Index("column")
    sizes = [Size(name) for name in ("count", "columns", "apart")]
    place = Affine(0, ((some, sizes[2]), (column, 1)))
    xs, ys = ([Buffer(type, f"{name}{k}") for k in range(ROWS_AT_ONCE)] for name in "xy")
    totals = [Accumulator(Fold.SUM, type) for _ in xs]
    step: list[Statement] = []
    for x, y, total in zip(xs, ys, totals, strict=True):
        step += [Update(total, Load(x, place)), Store(y, place, total)]
    body: list[Statement] = [*map(Begin, totals), Loop(column, sizes[1], step)]
    nest = Loop(some, sizes[0], body, Kind.PARALLEL)
    return Kernel("running_sums", [*xs, *ys], [nest], sizes)
