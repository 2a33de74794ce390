"""Sparse tensors on the meta device: shape, dtype, layout and places, without elements.

PyTorch has few operators there. `RULES` lists those that it has, by the operator's name; the others
raise its error. Most of them forget the places that their operands store.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ...tensor.layout import layout, sparse_coo
from ...tensor.meta import MetaArray, meta_array
from ...tensor.sparse import COMPRESSED, TRANSPOSED, CompressedArray, CooArray, SparseArray
from ...tensor.tensor import Tensor
from ...tensor.windows.opaque_window import describe_missing_implementation
from ..creation.creation import is_on_meta

NO_DATA = "Cannot copy out of meta tensor; no data!"


def find_target(x: Tensor, device: Any) -> bool:
    """Return whether a tensor like `x` lies on the meta device. None: the device of `x`."""
    return x.is_meta if device is None else is_on_meta(device)


def move_to_meta(a: Any, dtype: np.dtype | None = None) -> Any:
    """Return a sparse array of the same shape and places without elements."""
    kind = a.dtype if dtype is None else dtype
    values = meta_array(a.values.shape, kind)
    if isinstance(a, CooArray):
        indices = meta_array(a.indices.shape, a.indices.dtype)
        return CooArray(indices, values, a.shape, a.coalesced)
    return CompressedArray(
        a.layout, meta_array(a.compressed.shape, a.compressed.dtype),
        meta_array(a.plain.shape, a.plain.dtype), values, a.shape)


def forget_places(a: Any, dtype: np.dtype | None = None) -> Any:
    """Return a meta array of the same shape and layout that stores nothing."""
    kind = a.dtype if dtype is None else dtype
    if isinstance(a, CooArray):
        return CooArray(meta_array((a.sparse_dim, 0), a.indices.dtype),
                        meta_array((0, *a.values.shape[1:]), kind), a.shape, True)
    batch, at = a.shape[: a.batch_dim], a.batch_dim
    return CompressedArray(
        a.layout, meta_array(a.compressed.shape, a.compressed.dtype),
        meta_array((*batch, 0), a.plain.dtype),
        meta_array((*batch, 0, *a.values.shape[at + 1 :]), kind), a.shape)


def resize_on_meta(a: CompressedArray, shape: tuple[int, ...]) -> CompressedArray:
    """Return a compressed meta array without blocks of another shape that stores nothing."""
    lines = shape[-2] if a.by_row else shape[-1]
    batch = shape[: a.batch_dim]
    return CompressedArray(
        a.layout, meta_array((*batch, lines + 1), a.compressed.dtype),
        meta_array((*batch, 0), a.plain.dtype), meta_array((*batch, 0), a.dtype), shape)


# ------------------------------------------------------------------------------- constructors


def check_common_device(indices: np.ndarray, values: np.ndarray) -> None:
    """Raise RuntimeError if one part of a COO tensor is on the meta device and the other is not."""
    places = ["Meta" if part.__class__ is MetaArray else "CPU" for part in (indices, values)]
    if places[0] != places[1]:
        raise RuntimeError(f"backend of indices ({places[0]}) must match backend of values "
                           f"({places[1]})")


def check_common_compressed_device(
    compressed: np.ndarray, plain: np.ndarray, values: np.ndarray, names: tuple[str, str]
) -> None:
    """Raise RuntimeError if only some parts of a compressed tensor are on the meta device."""
    for part, name in zip((compressed, plain), names, strict=True):
        if (part.__class__ is MetaArray) is not (values.__class__ is MetaArray):
            raise RuntimeError(f"Values and {name} need to be on the same device.")


def refuse_reading(indices: np.ndarray) -> None:
    """Raise NotImplementedError for indices without elements."""
    if indices.__class__ is MetaArray and indices.size:
        raise NotImplementedError(NO_DATA)


# --------------------------------------------------------------------------------- operators


def find_meta(arrays: list[Any]) -> Any:
    """Return the first sparse meta array among the operands of an operator, or None."""
    for a in arrays:
        for part in a if a.__class__ is list else (a,):
            if isinstance(part, SparseArray) and part.on_meta:
                return part
    return None


def compute_on_meta(name: str, body: Callable, first: Any, arrays: list[Any], named: Any) -> Any:
    """Return the result of an operator on sparse meta arrays; `first` is the first of them."""
    rule = RULES.get(name)
    if rule is None and isinstance(first, CompressedArray) and name in _ON_VALUES:
        return body(*arrays, **named)
    result = None if rule is None else rule(*arrays, **named)
    if result is None:
        refuse_on_meta(_ATEN_NAMES.get(name, name.lstrip("_")), first)
    return result


def refuse_on_meta(name: str, a: SparseArray) -> NoReturn:
    """Raise NotImplementedError: the operator, by its name in aten, has no meta kernel."""
    raise NotImplementedError(describe_missing_implementation(name, a.backend))


def _restrict_to_compressed(rule: Callable) -> Callable:
    """Return a rule for compressed arrays only: COO arrays are refused."""
    return lambda a, *rest: rule(a, *rest) if isinstance(a, CompressedArray) else None


def _cast(a: Any, dtype: Any, *_: Any) -> Any:
    return forget_places(a, dtype)


def _clone(a: Any, **_: Any) -> Any:
    return forget_places(a) if isinstance(a, CooArray) else move_to_meta(a)


def _add(a: Any, b: Any, alpha: Any) -> Any:
    if not isinstance(a, SparseArray):
        return meta_array(a.shape, np.result_type(a.dtype, b.dtype))
    if a.shape != b.shape:
        raise RuntimeError(f"add: expected sizes of 'self' and 'other' to match, but "
                           f"{list(a.shape)} != {list(b.shape)}")
    if not b.on_meta or not a.on_meta:
        raise RuntimeError("Attempting to copy from device cpu to device meta, but cross-device "
                           "copies are not allowed!")
    return _clone(a)


def _swap_axes(a: Any, dim0: int = 0, dim1: int = 1) -> Any:
    if a.ndim < 2:
        return a
    shape = list(a.shape)
    shape[dim0], shape[dim1] = shape[dim1], shape[dim0]
    if isinstance(a, CooArray):
        values = np.broadcast_to(np.zeros((), a.dtype), a.shape[a.sparse_dim :])
        if dim0 >= a.sparse_dim:
            values = values.swapaxes(dim0 - a.sparse_dim, dim1 - a.sparse_dim)
        return CooArray(meta_array((a.sparse_dim, 0), a.indices.dtype),
                        meta_array((0, *values.shape), a.dtype), tuple(shape), True)
    stored = list(a.values.shape)
    if a.blocked:
        stored[-2:] = stored[:-3:-1]
    return CompressedArray(
        TRANSPOSED[a.layout], a.compressed, a.plain, meta_array(stored, a.dtype), tuple(shape))


def _sum(a: Any) -> Any:
    kind = np.dtype(np.int64) if a.dtype.kind in "biu" else a.dtype
    return meta_array((), kind)


def _multiply(a: Any, b: Any) -> Any:
    if not isinstance(a, SparseArray):
        a, b = b, a
    scalar = not isinstance(b, SparseArray) and np.ndim(b) == 0
    return move_to_meta(a) if isinstance(a, CompressedArray) and scalar else None


def _to_dense(a: Any, dtype: Any, _: Any) -> Any:
    return meta_array(a.shape, a.dtype if dtype is None else dtype)


def convert_on_meta(a: Any, form: layout) -> Any:
    """Return a compressed meta array in another layout, or None where PyTorch cannot."""
    if not isinstance(a, CompressedArray) or form not in (sparse_coo, *COMPRESSED):
        return None
    batch, at = a.shape[: a.batch_dim], a.batch_dim
    if form is sparse_coo:
        count = a.nnz * math.prod((*batch, *a.block))
        return CooArray(meta_array((at + 2, count), np.dtype(np.int64)),
                        meta_array((count, *a.shape[at + 2 :]), a.dtype), a.shape,
                        a.by_row and not a.blocked)
    by_row, blocked = COMPRESSED[form]
    if blocked or a.blocked:
        return None
    lines = a.shape[at] if by_row else a.shape[at + 1]
    return CompressedArray(form, meta_array((*batch, lines + 1), a.compressed.dtype), a.plain,
                           a.values, a.shape)


# A rule returns the result, or None where PyTorch has no kernel.
RULES: dict[str, Callable] = {
    "_add": _add, "_t": _swap_axes, "_transpose": _swap_axes, "_sum_all": _sum, "_mul": _multiply,
    "clone": _clone, "_to_copy": _cast, "get_values": lambda a: a.values,
    "_to_dense": _restrict_to_compressed(_to_dense),
    "mask_by_pattern": lambda a, pattern: _restrict_to_compressed(move_to_meta)(pattern),
    "conj": _clone, "_conj": _clone,
}
# Functions of the stored values of a compressed array, which hold for meta arrays too.
_ON_VALUES = frozenset((
    "abs asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac log1p rad2deg sgn sign "
    "sin sinh sqrt tan tanh trunc isinf isnan isneginf isposinf signbit neg relu round"
).split())
# Operators whose name in aten is another one than their own.
_ATEN_NAMES = {
    "_sub": "sub.Tensor", "_mul": "mul.Tensor", "_div": "div.Tensor", "_pow": "pow.Tensor_Scalar",
    "sum_over": "sum.dim_IntList", "_narrow": "narrow_copy", "mask_by_pattern": "sparse_mask",
    "abs": "abs.out", "_coalesce": "_coalesce", "_to_dense": "_to_dense",
    "_unsqueeze": "as_strided", "_permute": "as_strided", "_mv": "addmv_",
    "_addmm_dense": "addmm", "_sparse_addmm": "addmm", "_sampled": "sparse_sampled_addmm",
}
