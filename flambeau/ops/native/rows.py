"""Kernels for softmax, layer norm, their gradients, and reductions of large arrays.

Each function returns None until its kernel is compiled, and for arguments it does not support. Half
precision is computed in float32, as are the vectors of its rows and columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ...native.runtime import eager_kernels as kernels
from ...native.runtime.background_jit import CallCounts, KernelPolicy, request_kernel
from ...native.runtime.eager_kernels import EagerKernel
from ...native.runtime.fast_call import FastCalls, call_kernel
from ...native.target.eager_costs import (
    ELEMENTS_PER_PARTIAL_SUM, MAX_COUNTED_ROW_ELEMENTS, MAX_NUMPY_ROW_ELEMENTS,
    MAX_NUMPY_SUM_ELEMENTS, MAX_NUMPY_SUM_ROWS, MAX_ROW_KERNELS, MAX_SINGLE_THREAD_ELEMENTS,
    MIN_REDUCED_RATIO,
)
from ...tensor.dtypes import FLOAT32, FLOAT64, bfloat16, float16
from .pointwise import make_settings_key
from .route import native_route
from .transpose import put_in_order

Array = np.ndarray

_ndarray = np.ndarray
_INSIDE = {FLOAT32: FLOAT32, FLOAT64: FLOAT64, float16.numpy: FLOAT32, bfloat16.numpy: FLOAT32}

_ready: dict[tuple, int] = {}  # addresses by builder and settings
_calls = CallCounts(MAX_ROW_KERNELS)  # on medium-sized arrays


@native_route
def request_row_kernel(builder: EagerKernel, x: Array, *settings: Any) -> int | None:
    """Return the address of a kernel for rows of matrices, or None."""
    key = (builder, x.dtype, *settings)
    known = _ready.get(key)
    if known is not None:
        return known if KernelPolicy.allowed else None
    if x.size <= MAX_COUNTED_ROW_ELEMENTS and not _calls.should_request(key):
        return None

    def build() -> Any:
        from ...native.loop_ir.ir import ReduceOp

        options = [
            ReduceOp[_FOLDS[setting]] if setting in _FOLDS else setting for setting in settings
        ]
        return builder.build(x.dtype.name, *options)

    function = request_kernel(key, build)
    if function is None:
        return None
    result = _ready[key] = function.address
    return result


@native_route
def run_row_kernel(address: int, arrays: Sequence[Array], *sizes: int) -> None:
    """Run a kernel on the memory of arrays."""
    call_kernel(address, arrays[0].size, *arrays, *sizes)


@native_route
def are_large_rows(*arrays: Array) -> bool:
    """Return whether all arrays are large, contiguous, and of one float dtype and shape."""
    first = arrays[0]
    if first.size <= MAX_NUMPY_ROW_ELEMENTS or first.dtype not in _INSIDE:
        return False
    return all(
        a.__class__ is _ndarray and a.flags.c_contiguous and a.shape == first.shape
        and a.dtype == first.dtype for a in arrays
    )


@native_route
def run_over_rows(builder: EagerKernel, axis: int, *arrays: Array) -> Array | None:
    """Run a kernel along an axis of arrays of one shape; return another of that shape."""
    arrays = tuple(map(put_in_order, arrays))
    first = arrays[0]
    if not are_large_rows(*arrays):
        return None
    n, beside = first.shape[axis], prod(first.shape[axis:][1:])
    down = beside > 1
    result = request_row_kernel(builder, first, *([True] if down else []))
    if result is None:
        return None
    y = np.empty(first.shape, first.dtype)
    rows = first.size // n
    run_row_kernel(result, (*arrays, y), *((rows // beside, beside, n, n * beside) if down
                                           else (rows, n)))
    return y


@native_route
def is_row_vector(v: Array | None, n: int, kind: np.dtype) -> bool:
    """Return whether the array is None or n contiguous numbers of a dtype."""
    return v is None or (v.__class__ is _ndarray and v.size == n and v.dtype == kind
                         and v.flags.c_contiguous)


@native_route
def layer_norm(x: Array, weight: Array | None, bias: Array | None, mean: Array, rstd: Array,
               eps: float) -> Array | None:
    """Normalize rows; also fill mean and rstd."""
    rows, n = x.shape
    if not are_large_rows(x) or not all(is_row_vector(v, n, mean.dtype) for v in (weight, bias)):
        return None
    result = request_row_kernel(kernels.LAYER_NORM, x, weight is not None, bias is not None)
    if result is None:
        return None
    y, numbers = np.empty(x.shape, x.dtype), np.array((eps, 1 / n), mean.dtype)
    parts = [v for v in (weight, bias) if v is not None]
    run_row_kernel(result, (x, *parts, numbers, numbers[1:], mean, rstd, y), rows, n)
    return y


@native_route
def layer_norm_backward(
    g: Array, x: Array, weight: Array | None, mean: Array, rstd: Array
) -> tuple[Array, Array, Array] | None:
    """Return the cotangents of x, weight and bias."""
    rows, n = x.shape
    if not are_large_rows(x, g) or not is_row_vector(weight, n, mean.dtype):
        return None
    result, sums = (
        request_row_kernel(kernels.LAYER_NORM_BACKWARD, x, weight is not None),
        request_row_kernel(kernels.LAYER_NORM_SUMS, x),
    )
    if result is None or sums is None:
        return None
    gx, share = np.empty(x.shape, x.dtype), np.array((1 / n,), mean.dtype)
    of_weight, of_bias = np.empty(n, mean.dtype), np.empty(n, mean.dtype)
    part = () if weight is None else (weight,)
    run_row_kernel(result, (g, x, *part, mean, rstd, share, gx), rows, n)
    run_row_kernel(sums, (g, x, mean, rstd, of_weight, of_bias), rows, n)
    return gx, of_weight, of_bias


@native_route
def layer_norm_tangent(
    t: Array | None, x: Array, weight: Array | None, mean: Array, rstd: Array,
    weight_t: Array | None, bias_t: Array | None
) -> Array | None:
    """Return the tangent of normalized rows, given one or more of x's, weight's and bias's."""
    rows, n = x.shape
    columns = (weight if t is not None else None, weight_t, bias_t)
    if not (are_large_rows(x) if t is None else are_large_rows(x, t)) \
            or not all(is_row_vector(v, n, mean.dtype) for v in columns):
        return None
    result = request_row_kernel(kernels.LAYER_NORM_TANGENT, x, t is not None,
                                *(v is not None for v in columns))
    if result is None:
        return None
    y, share = np.empty(x.shape, x.dtype), np.array((1 / n,), mean.dtype)
    parts = [v for v in (t, *columns) if v is not None]
    run_row_kernel(result, (x, *parts, mean, rstd, share, y), rows, n)
    return y


@native_route
def moments(x: Array) -> tuple[Array, Array] | None:
    """Return the mean of each row and the sum of squared distances from it."""
    rows, n = x.shape
    if not are_large_rows(x) or (result := request_row_kernel(kernels.MOMENTS, x)) is None:
        return None
    inside = _INSIDE[x.dtype]
    mean, squares = np.empty(rows, inside), np.empty(rows, inside)
    run_row_kernel(result, (x, np.array(1 / n, inside), mean, squares), rows, n)
    return mean, squares


@native_route
def centered_products(g: Array, x: Array, mean: Array) -> tuple[Array, Array] | None:
    """Return each row's sums of g, and of g times (x - row mean)."""
    return _run_on_two(kernels.CENTERED_PRODUCTS, g, x, mean, x.shape[0])


def _run_on_two(
    builder: EagerKernel, g: Array, x: Array, mean: Array, count: int
) -> tuple[Array, Array] | None:
    """Run a kernel on two matrices and `count` means; return two numbers per mean."""
    if not are_large_rows(x, g) or not is_row_vector(mean, count, _INSIDE[x.dtype]):
        return None
    result = request_row_kernel(builder, x)
    if result is None:
        return None
    of_g, of_product = np.empty(count, mean.dtype), np.empty(count, mean.dtype)
    run_row_kernel(result, (g, x, mean, of_g, of_product), *x.shape)
    return of_g, of_product


@native_route
def column_squares(x: Array, mean: Array) -> Array | None:
    """Return each column's sum of squared distances from its own center."""
    return _run_with_vector(kernels.COLUMN_SQUARES, x, mean, x.shape[1], x.shape[1])


@native_route
def column_products(g: Array, x: Array, mean: Array) -> tuple[Array, Array] | None:
    """Return each column's sums of g, and of g times (x - column mean)."""
    return _run_on_two(kernels.COLUMN_PRODUCTS, g, x, mean, x.shape[1])


@native_route
def multiply_by_vector(x: Array, v: Array) -> Array | None:
    """Return x @ v for a large matrix with contiguous rows or columns, and a vector."""
    if x.dtype not in (FLOAT32, FLOAT64) or x.__class__ is not _ndarray:
        return None
    if x.flags.c_contiguous:
        return _run_with_vector(kernels.ROW_DOTS, x, v, x.shape[1], x.shape[0])
    return _run_with_vector(kernels.COLUMN_DOTS, x.T, v, x.shape[1], x.shape[0])


def _run_with_vector(builder: EagerKernel, x: Array, v: Array, size: int, new: int) -> Array | None:
    """Run a kernel on a matrix and a vector; return its `new` results."""
    if not are_large_rows(x) or v.__class__ is not _ndarray \
            or not is_row_vector(v, size, _INSIDE[x.dtype]):
        return None
    result = request_row_kernel(builder, x)
    if result is None:
        return None
    y = np.empty(new, v.dtype)
    run_row_kernel(result, (x, v, y), *x.shape)
    return y


@native_route
def logsumexp(x: Array, keepdims: bool) -> Array | None:
    """Return logsumexp over the last axis."""
    x = put_in_order(x)
    if not are_large_rows(x) or (result := request_row_kernel(kernels.LOGSUMEXP, x)) is None:
        return None
    n = x.shape[-1]
    y = np.empty((*x.shape[:-1], 1) if keepdims else x.shape[:-1], _INSIDE[x.dtype])
    run_row_kernel(result, (x, y), x.size // n, n)
    return y


# ------------------------------------------------------------------------------- reductions

_FOLDS = {np.add: "SUM", np.multiply: "PRODUCT", np.maximum: "MAXIMUM", np.minimum: "MINIMUM",
          np.argmax: "ARGMAX", np.argmin: "ARGMIN"}


_INT64 = np.dtype(np.int64)
_WHOLE = frozenset(np.dtype(n) for n in ("bool", "uint8", "int8", "int16", "int32", "int64"))
_ORDERED = frozenset(np.dtype(n) for n in ("uint8", "int32", "int64"))


def is_worth_reducing(x: Array) -> bool:
    """Whether NumPy takes longer to reduce axes of an array than a kernel's call: it is large, or
    has many rows, which cost NumPy 14 ns each."""
    return x.size > MAX_NUMPY_SUM_ELEMENTS or (
        x.ndim > 1 and x.size > MAX_NUMPY_SUM_ROWS * x.shape[-1])


def _choose_accumulator_dtype(ufunc: Any, x: Array) -> np.dtype | None:
    """Return the dtype in which large arrays are folded, int64 for sums and products of integers;
    None if no kernel applies."""
    if x.__class__ is not _ndarray or not is_worth_reducing(x):
        return None
    kind = x.dtype
    if kind in _WHOLE and ufunc in (np.add, np.multiply):
        return _INT64
    return kind if kind in _ORDERED and ufunc in (np.maximum, np.minimum) else _INSIDE.get(kind)


@native_route
def reduce_axes(ufunc: Any, x: Array, axes: tuple[int, ...] | None, keepdims: bool,
                formula: str = "same") -> Array | None:
    """Return ufunc.reduce of a formula on a large array over some axes, in float32 for half
    precision and int64 for sums of integers."""
    if x.__class__ is _ndarray and not x.flags.c_contiguous:
        if (y := _reduce_strided_rows(ufunc, x, axes, keepdims, formula)) is not None:
            return y
        return _reduce_in_order(ufunc, x, axes, keepdims, formula)
    rank, inside = x.ndim, _choose_accumulator_dtype(ufunc, x)
    if inside is None:
        return None
    if axes is None or len(axes) == rank:
        return _reduce_all(ufunc, x.reshape(-1), (1,) * rank if keepdims else (), formula)
    low, high = min(axes), max(axes)
    if high - low + 1 != len(axes):
        return _reduce_in_two_steps(ufunc, x, axes, keepdims, formula)
    middle = low > 0 and high < rank - 1
    builder = kernels.REDUCE_COLUMNS if low == 0 else kernels.REDUCE_ROWS
    if middle:
        builder = kernels.REDUCE_MIDDLE
    result = request_row_kernel(builder, x, ufunc, formula)
    if result is None:
        return None
    shape = [n if i not in axes else 1 for i, n in enumerate(x.shape)]
    result_shape = shape if keepdims else [n for i, n in enumerate(x.shape) if i not in axes]
    y = np.empty(result_shape, inside)
    if middle:
        columns = prod(x.shape[high + 1 :])
        rows = x.size // max(y.size, 1)
        run_row_kernel(result, (x, y), y.size // columns, rows, columns, rows * columns)
        return y
    rows = x.size // max(y.size, 1) if low == 0 else y.size
    run_row_kernel(result, (x, y), rows, x.size // rows)
    return y


def _reduce_strided_rows(
    ufunc: Any, x: Array, axes: tuple[int, ...] | None, keepdims: bool, formula: str
) -> Array | None:
    """Reduce rows with gaps between them, over all axes, rows or columns."""
    inside = _choose_accumulator_dtype(ufunc, x)
    if inside is None:
        return None
    second, result = False, _find_row_spacing(x)
    if result is None:
        second, result = True, _find_spacing_of_seconds(x)
    if result is None:
        return None
    outer, step = result
    rows, rank = prod(x.shape[:outer]), x.ndim
    columns = x.size // rows
    reduces_all = axes is None or len(axes) == rank
    if columns < MIN_REDUCED_RATIO or not (
            reduces_all or axes in (tuple(range(outer)), tuple(range(outer, rank)))):
        return None
    down = not reduces_all and axes is not None and 0 in axes
    builder = kernels.REDUCE_COLUMNS if down else kernels.REDUCE_ROWS
    address = request_row_kernel(builder, x, ufunc, formula, 2 if second else 1)
    if address is None:
        return None
    y = np.empty(columns if down else rows, inside)
    run_row_kernel(address, (x, y), rows, columns, step)
    if reduces_all:
        return np.full((1,) * rank if keepdims else (), ufunc.reduce(y), y.dtype)
    rest = x.shape[outer:] if down else x.shape[:outer]
    padding = (1,) * (rank - len(rest)) if keepdims else ()
    return y.reshape(padding + rest if down else rest + padding)


@native_route
def _find_row_spacing(x: Array) -> tuple[int, int] | None:
    """Return the number of axes that index equally spaced rows, and the spacing in elements."""
    outer, inside = x.ndim, x.itemsize
    while outer and x.strides[outer - 1] == inside:
        outer -= 1
        inside *= x.shape[outer]
    step = x.strides[outer - 1]
    if not 0 < outer < x.ndim or step < inside or step % x.itemsize:
        return None
    for axis in range(outer - 1):
        if x.strides[axis] != x.strides[axis + 1] * x.shape[axis + 1]:
            return None
    return outer, step // x.itemsize


@native_route
def _find_spacing_of_seconds(x: Array) -> tuple[int, int] | None:
    """`_find_row_spacing` for an array that uses every second element of its rows."""
    outer = x.ndim - 1
    if outer < 1 or x.strides[-1] != 2 * x.itemsize or x.strides[outer - 1] <= 0:
        return None
    if x.strides[outer - 1] % x.itemsize:
        return None
    for axis in range(outer - 1):
        if x.strides[axis] != x.strides[axis + 1] * x.shape[axis + 1]:
            return None
    return outer, x.strides[outer - 1] // x.itemsize


def _reduce_in_order(
    ufunc: Any, x: Array, axes: tuple[int, ...] | None, keepdims: bool, formula: str
) -> Array | None:
    """Copy an array with permuted axes or gaps into order, then reduce it."""
    if _choose_accumulator_dtype(ufunc, x) is None or 0 in x.strides:
        return None
    order = sorted(range(x.ndim), key=lambda i: -abs(x.strides[i]))
    turned = np.ascontiguousarray(put_in_order(x.transpose(order)))
    if axes is None:
        return reduce_axes(ufunc, turned, None, keepdims, formula)
    y = reduce_axes(ufunc, turned, tuple(sorted(order.index(a) for a in axes)), True, formula)
    if y is None:
        return None
    y = y.transpose(np.argsort(order))
    return y if keepdims else y.squeeze(axes)


def _reduce_in_two_steps(ufunc: Any, x: Array, axes: tuple[int, ...], keepdims: bool, formula: str
                        ) -> Array | None:
    """Reduce over non-adjacent axes: the innermost with a kernel, the rest with NumPy.

    Return None if much is left after the first reduction.
    """
    last = max(axes)
    first = last
    while first - 1 in axes:
        first -= 1
    inner = tuple(range(first, last + 1))
    if prod(x.shape[first : last + 1]) < MIN_REDUCED_RATIO:
        return None
    y = reduce_axes(ufunc, x, inner, True, formula)
    if y is None:
        return None
    return ufunc.reduce(y, tuple(sorted(axes)) if not keepdims else
                        tuple(a for a in axes if a not in inner), keepdims=keepdims)


def _reduce_all(ufunc: Any, flat: Array, shape: tuple[int, ...], formula: str) -> Array | None:
    """Reduce all elements to an array of one, of large arrays piecewise on all threads; None for
    small ones, whose rows do not count here."""
    inside = _choose_accumulator_dtype(ufunc, flat)
    if inside is None:
        return None
    if flat.size <= MAX_SINGLE_THREAD_ELEMENTS:
        return _reduce_on_one_thread(ufunc, flat, np.empty(shape, inside), formula)
    result = request_row_kernel(kernels.REDUCE_ROWS, flat, ufunc, formula)
    if result is None:
        return None
    rows, rest = divmod(flat.size, ELEMENTS_PER_PARTIAL_SUM)
    parts = np.empty(rows + bool(rest), inside)
    run_row_kernel(result, (flat, parts), rows, ELEMENTS_PER_PARTIAL_SUM)
    if rest:
        run_row_kernel(result, (flat[flat.size - rest :], parts[rows:]), 1, rest)
    y = _reduce_on_one_thread(ufunc, parts, np.empty(shape, inside), "same")
    return np.asarray(ufunc.reduce(parts)).reshape(shape) if y is None else y


def _reduce_on_one_thread(ufunc: Any, flat: Array, y: Array, formula: str) -> Array | None:
    """Reduce all elements on this thread, into `y`."""
    result = request_row_kernel(kernels.REDUCE_ALL, flat, ufunc, formula)
    if result is None:
        return None
    pieces, rest = divmod(flat.size, ELEMENTS_PER_PARTIAL_SUM)
    FastCalls.call(result, flat, flat[flat.size - rest :], y, pieces, rest)
    return y


@native_route
def find_extreme(ufunc: Any, x: Array, axis: int) -> Array | None:
    """Return np.argmax or np.argmin along the last axis or the first."""
    x = put_in_order(x)
    axis %= x.ndim
    if not x.shape[axis] or axis not in (0, x.ndim - 1) or not (are_large_rows(x) or _is_whole(x)):
        return None
    last = axis == x.ndim - 1
    builder = kernels.REDUCE_ROWS if last else kernels.REDUCE_COLUMNS
    result = request_row_kernel(builder, x, ufunc, "same")
    if result is None:
        return None
    y = np.empty(x.shape[:-1] if last else x.shape[1:], np.int64)
    rows = y.size if last else x.shape[0]
    run_row_kernel(result, (x, y), rows, x.size // rows)
    return y


def _is_whole(x: Array) -> bool:
    """Whether an array is large, contiguous, and of an integer dtype that kernels can compare."""
    return x.__class__ is _ndarray and x.size > MAX_COUNTED_ROW_ELEMENTS and x.dtype in _ORDERED \
        and x.flags.c_contiguous


@native_route
def sum_of(formula: Callable, *arrays: Array) -> Any:
    """Return the sum of a formula over all elements of large arrays, or None.

    The formula is identified by its code and closure.
    """
    first = arrays[0]
    if first.__class__ is _ndarray and not all(a.flags.c_contiguous for a in arrays):
        order = sorted(range(first.ndim), key=first.strides.__getitem__, reverse=True)
        if any(a.__class__ is not _ndarray or a.ndim != first.ndim for a in arrays):
            return None
        arrays = tuple([put_in_order(a.transpose(order)) for a in arrays])
    if not are_large_rows(*arrays) or len(_ready) >= MAX_ROW_KERNELS:
        return None
    first = arrays[0]
    key = (kernels.FOLD_ROWS, first.dtype, make_settings_key(formula), len(arrays))
    known = _ready.get(key)
    if known is None:
        function = request_kernel(
            key, lambda: kernels.FOLD_ROWS.build(first.dtype.name, len(arrays), formula)
        )
        if function is None:
            return None
        known = _ready[key] = function.address
    flat = [a.reshape(-1) for a in arrays]
    rows, rest = divmod(first.size, ELEMENTS_PER_PARTIAL_SUM)
    parts = np.empty(rows + bool(rest), _INSIDE[first.dtype])
    call_kernel(known, first.size, *flat, parts, rows, ELEMENTS_PER_PARTIAL_SUM)
    if rest:
        call_kernel(known, 1, *[f[first.size - rest :] for f in flat], parts[rows:], 1, rest)
    return np.add.reduce(parts)
