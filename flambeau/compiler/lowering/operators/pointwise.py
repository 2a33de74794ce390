"""Pointwise operators and norms whose bodies inspect values or draw random numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....native.loop_ir.ir import Scalar
from ....ops.core.promotion import compute_dtype
from ..numpy.reductions import normalize_axes
from ..numpy.symbolic_array import Symbol, apply_elementwise
from ..registry import lowering, refuse


@lowering("sign", "sgn")
def _sign(input: Symbol) -> Symbol:
    if input.dtype.kind == "b":
        return input
    if input.dtype.kind != "f":
        return np.sign(input)
    up, down = np.greater(input, 0), np.less(input, 0)
    return up.astype(input.dtype) - down.astype(input.dtype)


@lowering("erf")
def _erf(input: Symbol) -> Symbol:
    return apply_elementwise(Scalar.ERF, input)


@lowering("erfc")
def _erfc(input: Symbol) -> Symbol:
    return apply_elementwise(Scalar.ERFC, input)


@lowering("ndtr")
def _ndtr(input: Symbol) -> Symbol:
    """erfc(-x / sqrt 2) / 2, which stays precise in the lower tail."""
    return apply_elementwise(Scalar.ERFC, input * -math.sqrt(0.5)) * 0.5


@lowering("_vector_norm")
def _vector_norm(
    input: Symbol, ord: float = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Symbol:
    kind = input.dtype if dtype is None else dtype.numpy
    x = input.astype(kind, copy=False)
    x = x.astype(compute_dtype(x.dtype), copy=False)
    axes = normalize_axes(dim if dim not in ((), []) else None, x.ndim)
    options: dict[str, Any] = {"axis": axes, "keepdims": keepdim}
    if ord == 2:
        y = np.sqrt(np.sum(x * x, **options))
    elif ord == 0:
        y = np.sum(np.not_equal(x, 0).astype(x.dtype), **options)
    elif ord in (math.inf, -math.inf):
        y = (np.max if ord > 0 else np.min)(np.abs(x), **options)
    elif ord == 1:
        y = np.sum(np.abs(x), **options)
    else:
        y = np.power(np.sum(np.power(np.abs(x), ord), **options), x.dtype.type(1 / ord))
    return y.astype(kind)


@lowering("native_dropout")
def _native_dropout(input: Symbol, p: float, train: bool) -> tuple[Symbol, Symbol]:
    if train and p and input.size:
        refuse("draws random numbers")
    return input.copy(), np.ones_like(input, dtype=np.bool_)
