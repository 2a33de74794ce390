"""Sums of an array's slopes times its tangent: in one pass where BLAS or einsum has one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tensor.dtypes import FLOATS
from ..core.operator import Array

_dot_rows: Any = np.vecdot  # NumPy's stubs lack `axis`


def are_plain(x: Array, tangent: Array | None) -> bool:
    """Whether both are contiguous floats with elements: where the rules of values and tangents in
    NumPy apply."""
    return tangent is not None and x.dtype in FLOATS and tangent.dtype is x.dtype \
        and x.size > 0 and x.flags.c_contiguous and tangent.flags.c_contiguous


def sum_products(
    a: Array, b: Array, axes: tuple[int, ...] | None, keepdim: bool
) -> Array:
    """Return the sums of a * b over the axes, None for all."""
    if axes is None:
        total = np.asarray(np.vdot(a.reshape(-1), b.reshape(-1)))
        return total.reshape((1,) * a.ndim) if keepdim else total
    if axes == (a.ndim - 1,):
        total = _dot_rows(a, b)
    elif axes == (0,) and a.ndim == 2:
        total = np.einsum("ij,ij->j", a, b)
    else:
        return np.asarray(np.sum(a * b, axes, keepdims=keepdim))
    total = np.asarray(total)
    return np.expand_dims(total, axes[0]) if keepdim else total
