"""Sums of an array's slopes times its tangent: in one pass where BLAS or einsum has one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...native.runtime.eager_kernels import EagerKernel
from ...tensor.dtypes import FLOATS
from ..core.operator import Array
from ..native.route import native_route
from ..native.rows import are_large_rows, request_row_kernel, run_row_kernel

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


@native_route
def reduce_rows_with_tangents(
    kernel: EagerKernel, x: Array, tangent: Array | None, axes: tuple[int, ...] | None,
    keepdim: bool, *settings: Any
) -> tuple[Array, Array] | None:
    """Reduce the last axes, or all axes (None), of plain arrays to values and tangents in one pass.

    None for other axes and arrays, and until the kernel is compiled.
    """
    first = 0 if axes is None else x.ndim - len(axes)
    if tangent is None or not are_plain(x, tangent) \
            or axes is not None and sorted(axes) != list(range(first, x.ndim)):
        return None
    lead = x.shape[:first]
    n = math.prod(x.shape[first:])
    rows, rows_t = x.reshape(-1, n), tangent.reshape(-1, n)
    if not are_large_rows(rows, rows_t) \
            or (address := request_row_kernel(kernel, rows, *settings)) is None:
        return None
    shape = (*lead, *(1,) * (x.ndim - first)) if keepdim else lead
    y, y_t = np.empty(shape, x.dtype), np.empty(shape, x.dtype)
    run_row_kernel(address, (rows, rows_t, y, y_t), *rows.shape)
    return y, y_t
