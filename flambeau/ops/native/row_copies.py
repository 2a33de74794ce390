"""Copies of large arrays on all threads, if both sides consist of rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ...native.foundation.allocator import RETAINED_BYTES
from ...native.runtime import eager_kernels as kernels
from ...native.runtime.fast_call import call_on_threads
from ...native.target.eager_costs import (
    MIN_COPIED_ROW_BYTES, MIN_SHARED_COPY_ROWS, MIN_THREADED_COPY_BYTES,
)

if TYPE_CHECKING:
    pass

Array = np.ndarray  # by this name it is not what symbols are when operators are lowered

_AXES = 5  # of a kernel: four of rows, as in native/kernels/transpose.py, and one along them
_BITS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}
_KNOWN = (1, 2, -1, 0)  # strides in elements with specialized kernels
_Axis = tuple[int, int, int]  # extent, and steps of target and source in bytes


def fill(target: Array, source: Array) -> None:
    """target[...] = source, of equal dtypes."""
    if target.nbytes >= MIN_THREADED_COPY_BYTES and _fill_natively(target, source):
        return
    if target.__class__ is Array is source.__class__:
        target[...] = source  # a third of np.copyto's overhead
    else:
        np.copyto(target, source)


def allocate_zeros(shape: tuple[int, ...], dtype: np.dtype) -> Array:
    """np.zeros for memory that is used at once: cleared on all threads if large.

    Arrays larger than the retained memory come zeroed from the system.
    """
    size = prod(shape) * dtype.itemsize
    if size < MIN_THREADED_COPY_BYTES or size >= RETAINED_BYTES or dtype.itemsize not in _BITS:
        return np.zeros(shape, dtype)
    y = np.empty(shape, dtype)
    fill(y, np.zeros((), dtype))
    return y


def try_copy_kernel(x: Array) -> Array | None:
    """Copy a large contiguous array, or return None."""
    if x.__class__ is not Array or x.nbytes < MIN_THREADED_COPY_BYTES:
        return None
    y = np.empty(x.shape, x.dtype)
    return y if _fill_natively(y, x) else None


def join_rows(parts: Sequence[Array], axis: int, new: bool = False) -> Array | None:
    """Concatenate large arrays of one dtype along an axis (a `new` one), or return None."""
    first = parts[0]
    if any(a.__class__ is not Array or a.dtype != first.dtype for a in parts):
        return None
    if sum(a.nbytes for a in parts) < MIN_THREADED_COPY_BYTES:
        return None
    if new:
        parts = [np.expand_dims(a, axis) for a in parts]
    shape = list(parts[0].shape)
    shape[axis] = sum(a.shape[axis] for a in parts)
    y, start = np.empty(shape, first.dtype), 0
    for a in parts:
        end = start + a.shape[axis]
        fill(y[(*[slice(None)] * axis, slice(start, end))], a)
        start = end
    return y


def _fill_natively(target: Array, source: Array) -> bool:
    """Copy on all threads if both arrays consist of rows of one dtype and do not overlap."""
    if target.__class__ is not Array or source.__class__ is not Array:
        return False
    bits = _BITS.get(target.itemsize)
    if bits is None or source.dtype != target.dtype or np.may_share_memory(target, source):
        return False
    if source.size == 1 and target.flags.c_contiguous and target.flags.writeable:
        return _repeat(target, source, bits)
    if source.shape != target.shape:
        source = np.broadcast_to(source, target.shape)
    axes = _describe_rows(target, source)
    if axes is None:
        return False
    size, (length, to, of) = target.itemsize, axes[-1]
    steps = of // size, to // size
    known = [step if step in _KNOWN else None for step in steps]
    kernel = kernels.COPY_ROWS.address(bits, *(() if steps == (1, 1) else known))
    if kernel is None:
        return False
    sizes = [s for s in steps if s not in _KNOWN]
    for extent, to, of in axes[:-1]:
        sizes += [extent, of // size, to // size]
    call_on_threads(kernel, source, target, length, *sizes)
    return True


def _repeat(target: Array, source: Array, bits: str) -> bool:
    """Fill the target with a number on all threads."""
    kernel = kernels.COPY_NUMBER.address(bits)
    if kernel is None:
        return False
    call_on_threads(kernel, source, target, target.size)
    return True


def _describe_rows(target: Array, source: Array) -> list[_Axis] | None:
    """The axes of rows, as many as kernels take, and that along the rows, of both arrays."""
    size = target.itemsize
    axes: list[_Axis] = []
    last = 1
    steps = zip(target.shape, target.strides, source.strides, strict=True)
    for extent, to, of in sorted(steps, key=_measure_stride, reverse=True):
        if to % size or of % size:
            return None
        if extent == 1:
            continue
        last = extent
        if axes and axes[-1][1:] == (to * extent, of * extent):
            axes[-1] = (axes[-1][0] * extent, to, of)
        else:
            axes.append((extent, to, of))
    if not axes or axes[-1][0] * size < MIN_COPIED_ROW_BYTES or len(axes) > _AXES \
            or not _is_nearest(axes, size):
        return None
    length, to, of = axes[-1]
    rows = target.nbytes // (length * size)
    if rows < MIN_SHARED_COPY_ROWS:
        piece = 4096
        while length % piece:
            piece //= 2
        if piece < last and rows * length // last >= MIN_SHARED_COPY_ROWS:
            piece = last
        if piece * size < MIN_COPIED_ROW_BYTES or len(axes) == _AXES:
            return None
        axes[-1:] = [(length // piece, piece * to, piece * of), (piece, to, of)]
    return [(1, 0, 0)] * (_AXES - len(axes)) + axes


def _measure_stride(axis: _Axis) -> int:
    """Return the distance of the target's elements along an axis, in bytes."""
    return abs(axis[1])


def _is_nearest(axes: Sequence[_Axis], size: int) -> bool:
    """Whether in both arrays a row's elements are closer than those of any other axis, and in one
    of them at a distance that kernels support."""
    if axes[-1][1:] == (size, size):
        return True
    for field in (1, 2):
        step = abs(axes[-1][field])
        if any(0 < abs(axis[field]) < step for axis in axes[:-1]):
            return False
    return axes[-1][1] // size in _KNOWN and axes[-1][1] != 0 and (
        axes[-1][2] // size in _KNOWN or size < 8)
