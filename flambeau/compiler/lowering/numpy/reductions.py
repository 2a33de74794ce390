"""NumPy's reductions, scans, argmax and argmin on symbols."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....native.loop_ir.ir import ReduceOp, Type
from ...ir.graph import Node, Op
from ..registry import refuse
from .node_builders import cast, compute_type, reduce_axes, reshape_node, type_of
from .symbolic_array import (
    UFUNC_METHODS, Symbol, call_ufunc, convert_to_node, implements, wrap_node,
)
from .ufuncs import BOOL_REDUCTIONS, REDUCTIONS


def normalize_axes(axis: Any, rank: int) -> tuple[int, ...]:
    """Normalize NumPy's `axis` to a sorted tuple."""
    if axis is None:
        return tuple(range(rank))
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    return tuple(sorted({int(a) % rank for a in axes})) if rank else ()


def reduce_symbol(fold: ReduceOp, x: Any, axis: Any, keepdims: bool = False, dtype: Any = None,
                  out: Any = None) -> Symbol:
    """Reduce over axes, computing half precision in F32."""
    node = convert_to_node(x)
    type = node.type if dtype is None else type_of(dtype)
    node = cast(node, type)
    inside = compute_type(type)
    if type is Type.BOOL:
        fold = BOOL_REDUCTIONS.get(fold, fold)
    axes = normalize_axes(axis, len(node.shape))
    empty = any(node.shape[i] == 0 for i in axes)
    if empty and fold in (ReduceOp.MAXIMUM, ReduceOp.MINIMUM):
        refuse("min or max of an empty array")
    result = wrap_node(cast(reduce_axes(cast(node, inside), fold, axes, keepdims), type))
    if out is None or out is Ellipsis:
        return result
    out = out[0] if isinstance(out, tuple) else out
    out.assign(result.node)
    return out


def reduce_array(
    ufunc: np.ufunc, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None,
    keepdims: bool = False, initial: Any = None, where: Any = True,
) -> Symbol:
    fold = REDUCTIONS.get(ufunc.__name__)
    if fold is None or where is not True:
        return refuse(f"{ufunc.__name__}.reduce")
    if initial is not None and initial is not np._NoValue:
        if 0 in np.shape(array):
            refuse("a reduction of an empty array with an initial value")
        result = reduce_array(ufunc, array, axis, dtype, None, keepdims)
        return call_ufunc(ufunc, (result, initial), out=out)
    if fold in (ReduceOp.ANY, ReduceOp.ALL) and convert_to_node(array).type is not Type.BOOL:
        if ufunc.__name__.startswith("bitwise"):
            refuse("bitwise reductions")
        array = call_ufunc(np.not_equal, (array, 0))
    if fold in (ReduceOp.SUM, ReduceOp.PRODUCT) and dtype is None:
        dtype = sum_dtype(array.dtype)
    return reduce_symbol(fold, array, axis, keepdims, dtype, out)


def sum_dtype(kind: np.dtype) -> np.dtype:
    """The dtype NumPy sums in: 64 bits for integers."""
    if kind.kind in "bi":
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if kind.kind == "u" else kind


UFUNC_METHODS["reduce"] = reduce_array


def _create_reduction(ufunc: np.ufunc) -> Callable[..., Symbol]:
    def reduction(a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
                  keepdims: Any = False, **options: Any) -> Symbol:
        if any(v is not np._NoValue and v is not None for v in options.values()):
            refuse(f"{ufunc.__name__} with {', '.join(options)}")
        keep = keepdims is not np._NoValue and bool(keepdims)
        return reduce_array(ufunc, a, axis, dtype, out, keep)

    return reduction


for _ufunc, _names in ((np.add, (np.sum,)), (np.multiply, (np.prod,)),
                       (np.maximum, (np.max, np.amax)), (np.minimum, (np.min, np.amin)),
                       (np.logical_or, (np.any,)), (np.logical_and, (np.all,))):
    implements(*_names)(_create_reduction(_ufunc))


@implements(np.mean)
def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
         **_: Any) -> Symbol:
    """The sum divided by the count."""
    kind = np.dtype(dtype) if dtype is not None else a.dtype if a.dtype.kind in "fV" \
        else np.dtype(np.float64)
    keep = keepdims is not np._NoValue and bool(keepdims)
    count = math.prod(a.shape[i] for i in normalize_axes(axis, a.ndim))
    return call_ufunc(
        np.divide, (reduce_symbol(ReduceOp.SUM, a, axis, keep, kind), kind.type(count)), out=out
    )


@implements(np.var)
def var(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0,
        keepdims: Any = False, **_: Any) -> Symbol:
    """The mean squared distance from the mean."""
    d = a - mean(a, axis, dtype, keepdims=True)
    count = math.prod(a.shape[i] for i in normalize_axes(axis, a.ndim))
    keep = keepdims is not np._NoValue and bool(keepdims)
    return reduce_symbol(ReduceOp.SUM, d * d, axis, keep) / d.dtype.type(max(count - ddof, 0))


@implements(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Symbol:
    """Count the nonzero elements."""
    return reduce_symbol(ReduceOp.SUM, call_ufunc(np.not_equal, (a, 0)), axis, keepdims, np.int64)


def _create_arg_reduction(fold: ReduceOp) -> Callable[..., Symbol]:
    def arg_reduction(
        a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False
    ) -> Symbol:
        node = convert_to_node(a)
        keep = keepdims is not np._NoValue and bool(keepdims)
        if not len(node.shape):
            node = reshape_node(node, (1,))
        flat = node if axis is not None else reshape_node(node, (-1,))
        at = int(axis or 0) % len(flat.shape)
        if not flat.shape[at]:
            refuse("argmin or argmax of an empty array")
        flat = cast(flat, Type.U8 if flat.type is Type.BOOL else compute_type(flat.type))
        positions = reduce_axes(flat, fold, (at,), keep and axis is not None)
        return wrap_node(positions)

    return arg_reduction


implements(np.argmax)(_create_arg_reduction(ReduceOp.ARGMAX))
implements(np.argmin)(_create_arg_reduction(ReduceOp.ARGMIN))


def scan_symbol(fold: ReduceOp, x: Any, axis: Any, dtype: Any = None, out: Any = None) -> Symbol:
    """Scan (running sum, product, ...) along an axis."""
    node = convert_to_node(x)
    node = node if axis is not None else reshape_node(node, (-1,))
    if not node.shape:
        return wrap_node(node)
    type = node.type if dtype is None else type_of(dtype)
    inside = compute_type(type)
    node = cast(cast(node, type), inside)
    scan = Node(Op.SCAN, (node,), node.shape, inside,
                {"fold": fold, "axis": int(axis or 0) % len(node.shape)})
    scan = cast(scan, type)
    if out is None:
        return wrap_node(scan)
    out.assign(scan)
    return out


def _accumulate(ufunc: np.ufunc, array: Any, axis: int = 0, dtype: Any = None,
                out: Any = None) -> Symbol:
    fold = REDUCTIONS.get(ufunc.__name__)
    if fold is None or fold in (ReduceOp.ANY, ReduceOp.ALL):
        return refuse(f"{ufunc.__name__}.accumulate")
    if fold in (ReduceOp.SUM, ReduceOp.PRODUCT) and dtype is None:
        dtype = sum_dtype(array.dtype)
    return scan_symbol(fold, array, axis, dtype, out)


UFUNC_METHODS["accumulate"] = _accumulate


@implements(np.cumsum)
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Symbol:
    """Running sums."""
    return scan_symbol(ReduceOp.SUM, a, axis, sum_dtype(a.dtype) if dtype is None else dtype, out)


@implements(np.cumprod)
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Symbol:
    """Running products."""
    return scan_symbol(
        ReduceOp.PRODUCT, a, axis, sum_dtype(a.dtype) if dtype is None else dtype, out
    )


def _outer(ufunc: np.ufunc, a: Any, b: Any, **options: Any) -> Symbol:
    left = wrap_node(convert_to_node(a))
    return call_ufunc(ufunc, (left.reshape((*left.shape, *(1,) * np.ndim(b))), b), **options)


UFUNC_METHODS["outer"] = _outer
