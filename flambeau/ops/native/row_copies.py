"""Copies of large arrays on all threads, if both sides consist of rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ...native.foundation.allocator import RETAINED_BYTES
from ...native.runtime import eager_kernels as kernels
from ...native.runtime.fast_call import call_on_threads
from ...native.target.eager_costs import (
    MIN_COPIED_ROW_BYTES, MIN_FILL_BYTES, MIN_SHARED_COPY_ROWS, MIN_STRIDED_COPY_BYTES,
    MIN_THREADED_COPY_BYTES,
)

Array = np.ndarray  # by this name it is not what symbols are when operators are lowered

_AXES = 5  # of a kernel: four of rows, as in native/kernels/transpose.py, and one along them
_BITS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}
_KNOWN = (1, 2, -1, 0)  # strides in elements with specialized kernels
_Axis = tuple[int, int, int]  # extent, and steps of target and source in bytes


def fill(target: Array, source: Array) -> None:
    """target[...] = source, of equal dtypes."""
    if target.nbytes >= MIN_STRIDED_COPY_BYTES and _fill_natively(target, source):
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
    """Copy a large array to contiguous memory, or return None."""
    if x.__class__ is not Array or x.nbytes < MIN_STRIDED_COPY_BYTES \
            or x.nbytes < MIN_THREADED_COPY_BYTES and x.flags.c_contiguous:
        return None
    y = np.empty(x.shape, x.dtype)
    return y if _copy_rows(y, x) else None


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
    contiguous = target.flags.c_contiguous
    is_number = contiguous and source.size == 1 and target.flags.writeable
    if contiguous and source.flags.c_contiguous \
            and target.nbytes < (MIN_FILL_BYTES if is_number else MIN_THREADED_COPY_BYTES):
        return False
    if source.dtype != target.dtype or np.may_share_memory(target, source):
        return False
    if is_number:
        return _repeat(target, source)
    if source.shape != target.shape:
        source = np.broadcast_to(source, target.shape)
    return _copy_rows(target, source)


def _copy_rows(target: Array, source: Array) -> bool:
    """Copy rows between arrays of one shape and dtype on all threads, if both consist of them."""
    plan = _plan_rows(target.shape, target.strides, source.strides, target.itemsize)
    if plan is None:
        return False
    settings, sizes = plan
    if len(settings) == 1 and target.nbytes < MIN_THREADED_COPY_BYTES:
        return False  # adjacent elements
    kernel = kernels.COPY_ROWS.address(*settings)
    if kernel is None:
        return False
    call_on_threads(kernel, source, target, *sizes)
    return True


@lru_cache(4096)
def _plan_rows(
    shape: tuple[int, ...], to: tuple[int, ...], of: tuple[int, ...], size: int
) -> tuple[tuple[Any, ...], tuple[int, ...]] | None:
    """The settings of the kernel that copies rows between two layouts, and its sizes; None where
    they do not consist of rows."""
    bits = _BITS.get(size)
    axes = None if bits is None else _describe_rows(shape, to, of, size)
    if axes is None:
        return None
    length, to_step, of_step = axes[-1]
    steps = of_step // size, to_step // size
    known = [step if step in _KNOWN else None for step in steps]
    sizes = [length, *[s for s in steps if s not in _KNOWN]]
    for extent, to_bytes, of_bytes in axes[:-1]:
        sizes += [extent, of_bytes // size, to_bytes // size]
    return (bits, *(() if steps == (1, 1) else known)), tuple(sizes)


def _repeat(target: Array, source: Array) -> bool:
    """Fill the target with a number on all threads."""
    bits = _BITS.get(target.itemsize)
    kernel = None if bits is None else kernels.COPY_NUMBER.address(bits)
    if kernel is None:
        return False
    call_on_threads(kernel, source, target, target.size)
    return True


def _describe_rows(
    shape: tuple[int, ...], to_strides: tuple[int, ...], of_strides: tuple[int, ...], size: int
) -> list[_Axis] | None:
    """The axes of rows, as many as kernels take, and that along the rows, of both arrays."""
    axes: list[_Axis] = []
    last = 1
    steps = zip(shape, to_strides, of_strides, strict=True)
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
    rows = prod(shape) // length
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
