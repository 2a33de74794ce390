"""ONNX conversions of operators that read or write elements at computed or listed places."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..fx.node import Node
from .conversion_table import converts
from .graph_builder import DTYPES, GraphBuilder, short

_REDUCTIONS = {"add": "add", "sum": "add", "multiply": "mul", "prod": "mul", "amax": "max",
               "amin": "min"}


def cast_to_index(b: GraphBuilder, index: Any) -> str:
    """Return an index as int64, which ONNX requires."""
    return b.op("Cast", b.value(index), to=DTYPES["int64"])


def gather_listed(b: GraphBuilder, x: Node, places: np.ndarray) -> str:
    """Return the elements of `x` at constant places, counted in row-major order."""
    flat = b.op("Reshape", b.value(x), b.constant([-1], "int64"))
    return str(b.op("Gather", flat, b.constant(places, "int64"), axis=0))


def _count_places(x: Any) -> np.ndarray:
    """Return each element's place in row-major order."""
    return np.arange(x.numel()).reshape(tuple(x.shape))


def _require_fixed(b: GraphBuilder, node: Node) -> None:
    if b.is_dynamic:
        raise NotImplementedError(f"{node.target} in a program with dynamic sizes")


# ------------------------------------------------------------------------------ views by place


@converts("as_strided")
def _as_strided(b: GraphBuilder, node: Node, x: Any, size: Any, stride: Any,
                storage_offset: Any = None) -> str:
    _require_fixed(b, node)
    value = b.tensor(x)
    if not value.is_contiguous():
        raise NotImplementedError("as_strided of a tensor that is not contiguous")
    places = np.full(tuple(size), (storage_offset or 0) - value.storage_offset())
    for axis, (length, step) in enumerate(zip(size, stride, strict=True)):
        steps = np.arange(length) * step
        places += steps.reshape([-1 if d == axis else 1 for d in range(len(size))])
    return gather_listed(b, x, places)


@converts("unfold")
def _unfold(b: GraphBuilder, node: Node, x: Any, dimension: int, size: int, step: int) -> str:
    _require_fixed(b, node)
    places = _count_places(b.tensor(x))
    if places.ndim == 0:
        places = places.reshape(1)[:size]
        return gather_listed(b, x, places)
    windows = np.lib.stride_tricks.sliding_window_view(places, size, dimension % places.ndim)
    chosen: list[Any] = [slice(None)] * windows.ndim
    chosen[dimension % places.ndim] = slice(None, None, step)
    return gather_listed(b, x, windows[tuple(chosen)])


@converts("diagonal")
def _diagonal(b: GraphBuilder, node: Node, x: Any, offset: int = 0, dim1: int = 0,
              dim2: int = 1) -> str:
    _require_fixed(b, node)
    return gather_listed(b, x, np.diagonal(_count_places(b.tensor(x)), offset, dim1, dim2))


# ------------------------------------------------------------------------------ reads


@converts("take")
def _take(b: GraphBuilder, node: Node, x: Any, index: Any) -> str:
    flat = b.op("Reshape", b.value(x), b.constant([-1], "int64"))
    return str(b.op("Gather", flat, cast_to_index(b, index), axis=0))


@converts("nonzero", "argwhere")
def _nonzero(b: GraphBuilder, node: Node, x: Any, *, as_tuple: bool = False) -> str:
    if b.rank(x) == 0 or as_tuple:
        raise NotImplementedError(f"{node.target} of a number, or as a tuple")
    return str(b.op("Transpose", b.op("NonZero", b.value(x)), perm=[1, 0]))


@converts("sort")
def _sort(b: GraphBuilder, node: Node, x: Any, dim: int = -1, descending: bool = False,
          stable: Any = None) -> Any:
    if b.rank(x) == 0:
        return b.op("Identity", b.value(x)), b.constant(0, "int64")
    at = b.axis(x, dim)
    count = b.op("Shape", b.value(x), start=at, end=at + 1)
    return b.op("TopK", b.value(x), count, outputs=2, axis=at, largest=int(descending), sorted=1)


# ------------------------------------------------------------------------------ writes


def _scatter_into(b: GraphBuilder, node: Node, x: Any, dim: int, index: Any, source: str,
                  reduction: str | None) -> str:
    value = b.value(x)
    if b.rank(x):
        return str(b.op("ScatterElements", value, cast_to_index(b, index), source,
                        axis=b.axis(x, dim), reduction=reduction))
    row = b.constant([-1], "int64")
    parts = [b.op("Reshape", part, row) for part in (value, cast_to_index(b, index), source)]
    result = b.op("ScatterElements", *parts, axis=0, reduction=reduction)
    return str(b.op("Reshape", result, b.constant([], "int64")))


@converts("scatter", "scatter_reduce", reduction=None)
@converts("scatter_add", reduction="add")
def _scatter(b: GraphBuilder, node: Node, x: Any, dim: int, index: Any, src: Any = None,
             reduce: Any = None, *, value: Any = None, include_self: bool = True,
             reduction: str | None) -> str:
    if reduce is not None:
        reduction = _REDUCTIONS.get(reduce)
        if reduction is None or not include_self:
            raise NotImplementedError(
                f"scatter with reduce={reduce!r}, include_self={include_self}")
    dtype = node.meta["val"].dtype
    source = src if value is None else value
    if not isinstance(source, Node):
        return _scatter_into(b, node, x, dim, index, b.op(
            "Expand", b.value(source, dtype), b.op("Shape", b.value(index))), reduction)
    part = b.cast(source, dtype)
    lengths = b.tensor(index).shape
    if tuple(lengths) != tuple(b.tensor(source).shape):
        ends = b.op("Shape", b.value(index))
        part = b.op("Slice", part, b.sizes([0] * len(lengths)), ends)
    return _scatter_into(b, node, x, dim, index, part, reduction)


def _index_rows(b: GraphBuilder, x: Any, dim: int, index: Any, source: str) -> str:
    """Return `index` along `dim`, repeated to the shape of `source`."""
    rank = b.rank(x)
    shape = [-1 if d == b.axis(x, dim) else 1 for d in range(rank)]
    column = b.op("Reshape", cast_to_index(b, index), b.constant(shape, "int64"))
    return str(b.op("Expand", column, b.op("Shape", source)))


@converts("index_copy", reduction=None)
@converts("index_add", reduction="add")
def _index_copy(b: GraphBuilder, node: Node, x: Any, dim: int, index: Any, source: Any, *,
                alpha: Any = 1, reduction: str | None) -> str:
    if not b.rank(x):
        raise NotImplementedError(f"{node.target} of a number")
    dtype = node.meta["val"].dtype
    part = b.cast(source, dtype)
    if alpha != 1:
        part = b.op("Mul", part, b.value(alpha, dtype))
    return str(b.op("ScatterElements", b.value(x), _index_rows(b, x, dim, index, part), part,
                    axis=b.axis(x, dim), reduction=reduction))


@converts("index_put")
def _index_put(b: GraphBuilder, node: Node, x: Any, indices: Any, values: Any,
               accumulate: bool = False, unsafe: bool = False) -> str:
    leading = [i for i, index in enumerate(indices) if index is not None]
    if leading != list(range(len(leading))):
        raise NotImplementedError("index_put behind a slice")
    kinds = {short(b.tensor(i).dtype) for i in indices if i is not None}
    value, dtype = b.value(x), b.tensor(x).dtype
    if kinds & {"bool", "uint8"}:
        if accumulate or len(leading) > 1 or b.tensor(values).numel() != 1:
            raise NotImplementedError("index_put at a mask with several values")
        mask, more = b.value(indices[0]), b.rank(x) - b.rank(indices[0])
        if more:
            axes = list(range(b.rank(indices[0]), b.rank(x)))
            mask = b.op("Unsqueeze", mask, b.constant(axes, "int64"))
        scalar = b.op("Reshape", b.cast(values, dtype), b.constant([], "int64"))
        return str(b.op("Where", mask, scalar, value))
    places = join_indices(b, [indices[i] for i in leading])
    rank = max(b.rank(indices[i]) for i in leading)
    shape = b.op("Concat", b.op("Shape", places, start=0, end=rank),
                 b.op("Shape", value, start=len(leading)), axis=0)
    return str(b.op("ScatterND", value, places, b.op("Expand", b.cast(values, dtype), shape),
                    reduction="add" if accumulate else None))


def join_indices(b: GraphBuilder, indices: list[Any]) -> str:
    """Return broadcast index tensors, one for each leading axis, as tuples along a last axis."""
    rank = max(b.rank(i) for i in indices)
    names = [cast_to_index(b, i) for i in indices]
    zero = b.op("Mul", names[0], b.constant(0, "int64"))
    for name in names[1:]:
        zero = b.op("Add", zero, b.op("Mul", name, b.constant(0, "int64")))
    last = b.constant([rank], "int64")
    return str(b.op("Concat", *(b.op("Unsqueeze", b.op("Add", name, zero), last)
                                for name in names), axis=rank))


def _scatter_places(b: GraphBuilder, node: Node, x: Any, source: Any, places: np.ndarray) -> str:
    """Write `source` to constant places of `x`."""
    _require_fixed(b, node)
    row = b.constant([-1], "int64")
    part = b.op("Expand", b.cast(source, b.tensor(x).dtype), b.constant(places.shape, "int64"))
    result = b.op("ScatterElements", b.op("Reshape", b.value(x), row),
                  b.constant(places.ravel(), "int64"), b.op("Reshape", part, row), axis=0)
    return str(b.op("Reshape", result, b.constant(b.tensor(x).shape, "int64")))


@converts("select_scatter")
def _select_scatter(b: GraphBuilder, node: Node, x: Any, src: Any, dim: int, index: int) -> str:
    places = np.take(_count_places(b.tensor(x)), index, dim)
    return _scatter_places(b, node, x, src, places)


@converts("slice_scatter")
def _slice_scatter(b: GraphBuilder, node: Node, x: Any, src: Any, dim: int = 0, start: Any = None,
                   end: Any = None, step: int = 1) -> str:
    chosen: list[Any] = [slice(None)] * b.rank(x)
    chosen[dim] = slice(start, end, step)
    return _scatter_places(b, node, x, src, _count_places(b.tensor(x))[tuple(chosen)])


@converts("diagonal_scatter")
def _diagonal_scatter(b: GraphBuilder, node: Node, x: Any, src: Any, offset: int = 0,
                      dim1: int = 0, dim2: int = 1) -> str:
    return _scatter_places(b, node, x, src,
                           np.diagonal(_count_places(b.tensor(x)), offset, dim1, dim2))


# ------------------------------------------------------------------------------ parts


@converts("split_with_sizes")
def _split_with_sizes(b: GraphBuilder, node: Node, x: Any, sizes: Any, dim: int = 0) -> Any:
    parts = b.op("Split", b.value(x), b.sizes(sizes), outputs=len(sizes), axis=b.axis(x, dim))
    return parts if len(sizes) > 1 else (parts,)
