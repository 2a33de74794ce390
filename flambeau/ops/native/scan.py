"""Scans of large arrays by compiled kernels. Functions return None if there is no kernel (yet)."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...native.runtime import eager_kernels as kernels
from ...native.runtime.eager_kernels import EagerKernel
from ...native.target.eager_costs import MAX_NUMPY_ROW_ELEMENTS, SCANNED_ROWS
from ...tensor.dtypes import FLOAT32, FLOAT64
from .pointwise import try_kernel
from .route import native_route
from .rows import run_row_kernel, are_large_rows, request_row_kernel
from .transpose import put_in_order

Array = np.ndarray

_FOLDS = {np.add: "SUM", np.multiply: "PRODUCT", np.maximum: "MAXIMUM", np.minimum: "MINIMUM"}
_INTEGERS = frozenset(np.dtype(n) for n in ("int32", "int64", "uint8"))


def _is_served(x: Array) -> bool:
    if x.dtype in _INTEGERS:
        return x.size > MAX_NUMPY_ROW_ELEMENTS and x.__class__ is np.ndarray \
            and x.flags.c_contiguous
    return are_large_rows(x)


@native_route
def scan_axis(ufunc: Any, x: Array, axis: int, positions: bool = False) -> tuple[Array, ...] | None:
    """Return (ufunc.accumulate(x, axis),), and if `positions` the last index of each extreme."""
    x = put_in_order(x)
    if not _is_served(x):
        return None
    result: tuple[Array, ...] = (np.empty(x.shape, x.dtype),)
    if positions:
        result = (*result, np.empty(x.shape, np.int64))
    done = (_scan_rows if axis in (-1, x.ndim - 1) else _scan_middle)(ufunc, x, axis, result)
    return result if done else None


def _request_kernel(builder: EagerKernel, x: Array, ufunc: Any, *settings: Any) -> int | None:
    from ...native.loop_ir.ir import ReduceOp

    return request_row_kernel(builder, x, ReduceOp[_FOLDS[ufunc]], *settings)


def _scan_rows(ufunc: Any, x: Array, axis: int, result: tuple[Array, ...]) -> bool:
    scan_block, scan_row = (
        _request_kernel(kernels.SCAN_ROWS, x, ufunc, len(result) > 1, n) for n in (SCANNED_ROWS, 1)
    )
    if scan_block is None or scan_row is None:
        return False
    n = x.shape[-1]
    arrays = [a.reshape(-1, n) for a in (x, *result)]
    rows = len(arrays[0])
    count = rows // SCANNED_ROWS
    full_rows = count * SCANNED_ROWS
    if count:
        windows = [a[k:] for a in arrays for k in range(SCANNED_ROWS)]
        run_row_kernel(scan_block, windows, count, n, SCANNED_ROWS * n)
    if full_rows < rows:
        run_row_kernel(scan_row, [a[full_rows:] for a in arrays], rows - full_rows, n, n)
    return True


def _scan_middle(ufunc: Any, x: Array, axis: int, new: tuple[Array, ...]) -> bool:
    result = _request_kernel(kernels.SCAN_MIDDLE, x, ufunc, len(new) > 1)
    if result is None:
        return False
    rows, columns = x.shape[axis], prod(x.shape[axis + 1 :])
    run_row_kernel(result, (x, *new), prod(x.shape[:axis]), rows, columns, rows * columns)
    return True


def logcumsumexp(x: Array, axis: int) -> Array | None:
    """Return log(cumsum(exp(x))) without overflow, as parallel passes and two scans.

    Sums are relative to exp(running maximum), and are rescaled when the maximum grows.
    """
    if x.__class__ is not np.ndarray or x.size <= MAX_NUMPY_ROW_ELEMENTS \
            or x.dtype not in (FLOAT32, FLOAT64):
        return None
    rows = np.ascontiguousarray(put_in_order(np.moveaxis(x, axis, -1)))
    result = scan_axis(np.maximum, rows, rows.ndim - 1)
    if result is None or (address := request_row_kernel(kernels.SCAN_SCALED, rows)) is None:
        return None
    (top,), n = result, rows.shape[-1]
    before = np.empty_like(top)
    before[..., 0], before[..., 1:] = 0, top[..., :-1]
    scale, sums = try_kernel(_compute_exp_difference, before, top), np.empty_like(top)
    part = try_kernel(_compute_exp_below, rows, top)
    if scale is None or part is None:
        return None
    run_row_kernel(address, (scale, part, sums), rows.size // n, n, n - 1)
    y = try_kernel(_log_above, sums, top)
    return None if y is None else np.ascontiguousarray(np.moveaxis(y, -1, axis))


def _compute_exp_difference(before: Array, top: Array) -> Array:
    """Return exp(before - top), or 1 where both are equal, infinities included."""
    return np.where(before == top, 1, np.exp(before - top))


def _compute_exp_below(x: Array, top: Array) -> Array:
    """Return exp(x - top), or 0 if top is -inf."""
    return np.where(top == -np.inf, 0, np.exp(x - top))


def _log_above(sums: Array, top: Array) -> Array:
    """Return log(sums) + top, or top if it is infinite."""
    return np.where(abs(top) == np.inf, top, np.log(sums) + top)


@native_route
def scan_paths(emitted: Array, skip: Array) -> Array | None:
    """Sum the paths of CTC. `emitted` (time, batch, positions): log probabilities; `skip` (batch,
    positions): whether paths reach a position from the one before the last."""
    times, batch, positions = emitted.shape
    if emitted.dtype != FLOAT64 or emitted.size <= MAX_NUMPY_ROW_ELEMENTS or times < 2:
        return None
    kernel = request_row_kernel(kernels.SCAN_PATHS, emitted)
    if kernel is None:
        return None
    padded = positions + 2
    y = np.empty((times, batch, padded))
    y[:, :, :2] = y[0] = -np.inf
    y[0, :, 2:4] = emitted[0, :, :2]
    run_row_kernel(kernel, (emitted[1:], np.where(skip, 0.0, -np.inf), y, y[1:]), batch, positions,
                   padded, times - 1, batch * positions, batch * padded)
    return y[:, :, 2:]
