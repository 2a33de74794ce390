"""Copies of large transposed arrays in machine code, by kernels for any size."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...native.runtime.background_jit import request_kernel
from ...native.runtime.fast_call import call_on_threads
from ...native.target.eager_costs import (
    MAX_NUMPY_INNER_STRIDE, MAX_NUMPY_TRANSPOSE_ELEMENTS, MAX_TRANSPOSED_AXES,
    MIN_STRIDED_COPY_BYTES, MIN_TRANSPOSED_EXTENT,
)
from .route import native_route
from .row_copies import try_copy_kernel

Array = np.ndarray


@native_route
def put_in_order(x: Array) -> Array:
    """Return a large array if it is contiguous, else a contiguous copy."""
    if x.flags.c_contiguous or x.nbytes < MIN_STRIDED_COPY_BYTES:
        return x
    y = _copy_by_kernel(x)
    return x if y is None else y


@native_route
def copy_in_order(x: Array) -> Array | None:
    """Return a contiguous copy of an array whose innermost axis in memory is another."""
    if x.__class__ is not np.ndarray or x.itemsize not in (4, 8) \
            or x.size <= MAX_NUMPY_TRANSPOSE_ELEMENTS:
        return None
    merged = _merge_axes(x)
    if merged is None:
        return None
    shape, strides, inner = merged
    size = x.itemsize

    def build() -> Any:
        from ...native.kernels import transpose
        from ...native.loop_ir.ir import Type

        kind = Type.I32 if size == 4 else Type.I64
        return transpose.build_transpose(kind, len(shape), inner)

    function = request_kernel(("in order", size, len(shape), inner), build, exact=True)
    if function is None:
        return None
    y = np.empty(x.shape, x.dtype)
    sizes, step = list[int](), 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        sizes = [extent, stride, step, *sizes]
        step *= extent
    call_on_threads(function.address, x, y, *sizes)
    return y


def copy_to_rows(x: Array) -> Array:
    """Return a row-major copy, from a kernel where it is faster."""
    y = _copy_by_kernel(x)
    return x.copy("C") if y is None else y


def _copy_by_kernel(x: Array) -> Array | None:
    y = copy_in_order(x)
    return try_copy_kernel(x) if y is None else y


def _merge_axes(x: Array) -> tuple[tuple[int, ...], tuple[int, ...], int] | None:
    """Extents and strides (in elements) with adjacent axes merged, and the innermost axis in
    memory; None if that is the last axis, or there is none.
    """
    shape: list[int] = []
    strides: list[int] = []
    for extent, step in zip(x.shape, x.strides, strict=True):
        if extent == 1:
            continue
        if step <= 0 or step % x.itemsize:
            return None
        step //= x.itemsize
        if shape and strides[-1] == step * extent:
            shape[-1] *= extent
            strides[-1] = step
        else:
            shape.append(extent)
            strides.append(step)
    if 1 not in strides or strides[-1] <= MAX_NUMPY_INNER_STRIDE \
            or shape[-1] < MIN_TRANSPOSED_EXTENT or len(shape) > MAX_TRANSPOSED_AXES:
        return None
    inner = strides.index(1)
    return (tuple(shape), tuple(strides), inner) \
        if shape[inner] >= MIN_TRANSPOSED_EXTENT else None
