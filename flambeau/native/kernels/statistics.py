"""Kernels over rows that gather numbers: moments, sums of products and formulas, running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..loops import (
    Accumulator, Begin, Constant, Fold, Kernel, Loop, Store, Type, Update,
)  # fmt: skip
from .rows import Rows, _exp, _log
from .value import Value, where


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


def running_sum(type: Type) -> Kernel:
    """x, y: the sums of each row's elements so far."""
    r = Rows(type)
    x, y, total = r.matrix("x"), r.buffer("y"), Accumulator(Fold.SUM, type)
    step = [Update(total, x.expression), Store(y, r.whole, total)]
    r.body = [Begin(total), Loop(r.column, r.columns, [*step])]
    return r.kernel("running_sum")
