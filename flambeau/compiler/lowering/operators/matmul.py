"""Matrix products; a linear layer is one product over all rows of its batch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..numpy.symbolic_array import Symbol
from ..registry import lowering


@lowering("linear")
def _linear(input: Symbol, weight: Symbol, bias: Any = None) -> Symbol:
    if weight.ndim == 1 or (bias is not None and bias.ndim > 1):
        y = np.matmul(input, weight.T)
        return y if bias is None else (y + bias).astype(y.dtype)
    rows = input.reshape((math.prod(input.shape[:-1]), input.shape[-1]))
    y = np.matmul(rows, weight.T)
    y = y if bias is None else (y + bias).astype(y.dtype)
    return y.reshape((*input.shape[:-1], weight.shape[0]))


@lowering("matmul")
def _matmul(input: Symbol, other: Symbol) -> Symbol:
    return np.matmul(input, other)


@lowering("_rows_product")
def _rows_product(input: Symbol, other: Symbol) -> Symbol:
    a, b = (x.reshape((math.prod(x.shape[:-1]), x.shape[-1])) for x in (input, other))
    return np.matmul(a.T, b)
