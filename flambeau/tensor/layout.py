"""Layouts and memory formats: the order of a tensor's elements in its storage, and its strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..native.foundation.allocation import allocate
from ..native.foundation.user_frames import add_notes

Strides = tuple[int, ...]


class NamedConstant:
    """A constant of torch, which pickles keep by its name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class layout(NamedConstant):
    """The kind of storage, such as `strided` for dense tensors.

    >>> torch.zeros(2).layout
    torch.strided
    """

    __slots__ = ()


strided = layout("strided")
sparse_coo = layout("sparse_coo")
sparse_csr = layout("sparse_csr")
sparse_csc = layout("sparse_csc")
sparse_bsr = layout("sparse_bsr")
sparse_bsc = layout("sparse_bsc")
jagged = layout("jagged")
_mkldnn = layout("_mkldnn")  # tensors of oneDNN, which there are none of here


class memory_format(NamedConstant):
    """An order of the axes in memory, outermost first.

    >>> torch.zeros(1, 3, 2, 2).to(memory_format=torch.channels_last).stride()
    (12, 1, 6, 3)
    """

    __slots__ = ()


contiguous_format = memory_format("contiguous_format")
legacy_contiguous_format = contiguous_format  # its name of 2019, which models still ask for
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")

# Axes from the outermost to the innermost in memory.
_ORDER = {channels_last: (0, 2, 3, 1), channels_last_3d: (0, 2, 3, 4, 1)}


def compute_contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a row-major tensor, in elements."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def format_strides(shape: Sequence[int], form: memory_format) -> tuple[int, ...]:
    """Return the strides for a memory format, in elements; RuntimeError if the rank is wrong."""
    order = _ORDER.get(form)
    if order is None:
        return compute_contiguous_strides(shape)
    if len(shape) != len(order):
        raise add_notes(
            RuntimeError(f"required rank {len(order)} tensor to use {form.name} format"),
            f"The shape is {tuple(shape)}.")
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):  # unlike in row-major order, axes of length 0 count as such
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def is_contiguous(array: np.ndarray, form: memory_format = contiguous_format) -> bool:
    """Return whether the elements of `array` lie in the order of the memory format."""
    order = _ORDER.get(form)
    if order is None:
        return array.flags.c_contiguous
    if array.ndim != len(order):
        return False
    if array.size:
        return array.transpose(order).flags.c_contiguous
    return is_dense_in_order(array.shape, get_strides(array), order)


def is_dense_in_order(shape: Sequence[int], strides: Sequence[int], order: Sequence[int]) -> bool:
    """Return whether strides are dense for axes in `order`, outermost first."""
    step = 1
    for axis in reversed(order):
        if shape[axis] != 1:
            if strides[axis] != step:
                return False
            step *= shape[axis]
    return True


def get_strides(array: np.ndarray) -> tuple[int, ...]:
    """Return an array's strides in elements.

    NumPy drops the strides of empty arrays, and leaves those of new length-1 axes unset: row-major
    arrays that own their memory get row-major strides.
    """
    strides, item = array.strides, array.itemsize
    if array.size == 0:
        if not any(strides):
            return compute_contiguous_strides(array.shape)
    elif 1 in array.shape and array.base is None and array.flags.c_contiguous:
        return compute_contiguous_strides(array.shape)
    return tuple([s // item for s in strides])


def empty_strided_array(
    shape: Sequence[int], strides: Sequence[int], dtype: np.dtype
) -> np.ndarray:
    """Return an uninitialized array with these strides, in elements."""
    if len(shape) != len(strides):
        raise RuntimeError(
            f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides "
            f"({len(strides)})"
        )
    if min(strides, default=0) < 0:
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(shape)} and "
            f"strides={list(strides)}"
        )
    if 0 in shape:  # for empty arrays, NumPy keeps strides only on memory passed in
        memory, steps = np.empty(0, dtype), tuple([s * dtype.itemsize for s in strides])
        return np.ndarray(tuple(shape), dtype, memory, 0, steps)
    span = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    steps = tuple([s * dtype.itemsize for s in strides])
    return np.ndarray(tuple(shape), dtype, allocate(span, dtype), 0, steps)


def ensure_strides(array: np.ndarray, strides: tuple[int, ...]) -> np.ndarray:
    """Return `array` if it has these strides, in bytes, else an uninitialized one that has."""
    if array.strides == strides:
        return array
    model = np.lib.stride_tricks.as_strided(np.zeros(1, array.dtype), array.shape, strides)
    result = np.empty_like(model, order="K", subok=False)
    if result.strides == strides or not result.size or any(
            a != b for a, b, n in zip(result.strides, strides, result.shape, strict=True) if n > 1):
        return result
    return np.ndarray(result.shape, result.dtype, result, 0, strides)  # NumPy sets those of ones


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether the elements fill memory without gaps or overlaps, in some order of axes."""
    step = 1
    for stride, length in sorted(
        (s, n) for s, n in zip(strides, shape, strict=True) if n > 1
    ):
        if stride != step:
            return False
        step *= length
    return True


def loop_order(shape: Sequence[int], operands: Sequence[Sequence[int]]) -> list[int]:
    """Return the axes from innermost to outermost loop over operands with these strides.

    Uses PyTorch's insertion sort, because the comparison is not transitive: the first operand with
    nonzero strides along both axes decides; for equal strides the shorter axis goes inside.
    """
    axes = list(range(len(shape)))[::-1]
    for i in range(1, len(axes)):
        outer = i
        for inner in range(i - 1, -1, -1):
            sign = _compare_axes(shape, operands, axes[inner], axes[outer])
            if sign > 0:
                axes[inner], axes[outer] = axes[outer], axes[inner]
                outer = inner
            elif sign < 0:
                break
    return axes


def _compare_axes(shape: Sequence[int], operands: Sequence[Sequence[int]], a: int, b: int) -> int:
    for strides in operands:
        s, t = strides[a], strides[b]
        if s == 0 or t == 0:
            continue
        if s != t:
            return -1 if s < t else 1
        if shape[a] > shape[b]:
            return 1
    return 0


def compute_ordered_strides(shape: Sequence[int], axes: Sequence[int],
                            min_length: int = 0) -> Strides:
    """Return dense strides for the axes ordered from innermost to outermost."""
    strides, step = [0] * len(shape), 1
    for axis in axes:
        strides[axis] = step
        step *= max(shape[axis], min_length)
    return tuple(strides)


def get_channels_last_format(rank: int) -> memory_format | None:
    """Return the channels-last format for a rank, or None."""
    return channels_last if rank == 4 else channels_last_3d if rank == 5 else None


def is_channels_last(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether PyTorch suggests a channels-last result for an operand with these strides."""
    if len(shape) not in (4, 5) or strides[1] == 0:
        return False
    min_stride = 0
    for axis in (1, *range(len(shape) - 1, 1, -1), 0):
        n, stride = shape[axis], strides[axis]
        if n == 0 or stride < min_stride or (axis == 0 and min_stride == strides[1]):
            return False
        min_stride = stride * max(n, 1)
    return True


def suggest_format(array: Any) -> memory_format:
    """Return the format of results, and of the gradient, that PyTorch suggests for an operand."""
    if array.__class__ is not np.ndarray or array.ndim < 4 or array.flags.c_contiguous \
            or not is_channels_last(array.shape, array.strides):
        return contiguous_format
    return get_channels_last_format(array.ndim) or contiguous_format


def is_in_format(array: np.ndarray, form: memory_format) -> bool:
    """Return whether conversion to the memory format is a no-op. For channels-last formats the
    strides alone decide, including those of length-1 axes."""
    if form is contiguous_format:
        return is_contiguous(array)
    return get_channels_last_format(array.ndim) is form \
        and is_channels_last(array.shape, get_strides(array))


def compute_copy_strides(shape: tuple[int, ...], strides: Strides) -> Strides:
    """Return the strides of a copy of a tensor: the same if it is dense, else dense ones."""
    if is_dense(shape, strides):
        return strides
    return compute_ordered_strides(shape, loop_order(shape, [strides]), 1)


def find_dense_order(array: np.ndarray) -> tuple[int, ...] | None:
    """Return the axes from outermost to innermost if dense in some order, else None."""
    order = tuple(sorted(range(array.ndim), key=lambda i: -array.strides[i]))
    return order if array.transpose(order).flags.c_contiguous else None


def is_plain(array: np.ndarray) -> bool:
    """Return whether a new row-major array has the strides of `array`, also on length-1 axes."""
    if not array.flags.c_contiguous:
        return False
    if not array.size and array.__class__ is np.ndarray:  # NumPy calls all empty arrays contiguous
        return get_strides(array) == compute_contiguous_strides(array.shape)
    return 1 not in array.shape or array.__class__ is not np.ndarray or array.base is None


def allocate_copy(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return an uninitialized array of `dtype` with the strides of a copy of `array`."""
    return empty_strided_array(
        array.shape, compute_copy_strides(array.shape, get_strides(array)), dtype
    )


def copy_in_format(array: np.ndarray, form: memory_format = preserve_format) -> np.ndarray:
    """Return a copy in a memory format; `preserve_format` keeps a dense order of axes."""
    if form is contiguous_format:
        return array.copy("C")
    if form is preserve_format:
        if is_plain(array):
            return array.copy("C")
        result = allocate_copy(array, array.dtype)
    else:
        result = empty_strided_array(array.shape, format_strides(array.shape, form), array.dtype)
    np.copyto(result, array)
    return result


def find_owner(array: np.ndarray) -> np.ndarray:
    """Return the array that owns the memory of `array`, as far as NumPy knows."""
    while True:
        base: Any = array.base
        if base.__class__ is not np.ndarray and hasattr(base, "base"):
            base = base.base  # skip the proxy that np.lib.stride_tricks inserts
        if not isinstance(base, np.ndarray):
            return array
        array = base


def as_bytes(array: np.ndarray) -> np.ndarray:
    """Return all memory that `array` spans, as an array of bytes."""
    if array.flags.c_contiguous:
        return array.reshape(-1).view(np.uint8)
    if array.flags.f_contiguous:
        return array.T.reshape(-1).view(np.uint8)
    span = sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True))
    first = array[tuple(slice(0, 1) for _ in array.shape)].reshape(1).view(np.uint8)
    return np.lib.stride_tricks.as_strided(first, (span + array.itemsize,), (1,))
