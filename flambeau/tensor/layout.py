"""Layouts and memory formats: how a tensor's elements lie in its storage, and strides for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class layout:
    """The kind of storage: `strided` is what flambeau's tensors have.

    >>> torch.zeros(2).layout
    torch.strided
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


strided = layout("strided")
sparse_coo = layout("sparse_coo")
sparse_csr = layout("sparse_csr")
sparse_csc = layout("sparse_csc")
sparse_bsr = layout("sparse_bsr")
sparse_bsc = layout("sparse_bsc")


class memory_format:
    """An order of the axes in memory, outermost first.

    >>> torch.zeros(1, 3, 2, 2).to(memory_format=torch.channels_last).stride()
    (12, 1, 6, 3)
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")

# Axes from the outermost to the innermost in memory.
_ORDER = {channels_last: (0, 2, 3, 1), channels_last_3d: (0, 2, 3, 4, 1)}


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a row-major tensor."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def format_strides(shape: Sequence[int], form: memory_format) -> tuple[int, ...]:
    """Strides in elements for a memory format; RuntimeError when the rank does not fit."""
    order = _ORDER.get(form)
    if order is None:
        return contiguous_strides(shape)
    if len(shape) != len(order):
        raise RuntimeError(
            f"required rank {len(order)} tensor to use {form.name} format, "
            f"got shape {tuple(shape)}"
        )
    inner = contiguous_strides([shape[i] for i in order])
    strides = [0] * len(shape)
    for axis, stride in zip(order, inner, strict=True):
        strides[axis] = stride
    return tuple(strides)


def is_contiguous(array: np.ndarray, form: memory_format = contiguous_format) -> bool:
    """Whether the elements of `array` lie in the order of the memory format."""
    order = _ORDER.get(form)
    if order is None:
        return array.flags.c_contiguous
    return array.ndim == len(order) and array.transpose(order).flags.c_contiguous


def empty_strided_array(
    shape: Sequence[int], strides: Sequence[int], dtype: np.dtype
) -> np.ndarray:
    """An uninitialised array with these strides, in elements."""
    if 0 in shape:
        return np.empty(shape, dtype)
    span = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    memory = np.empty(span, dtype)
    return np.lib.stride_tricks.as_strided(
        memory, shape, [s * dtype.itemsize for s in strides]
    )


def dense_order(array: np.ndarray) -> tuple[int, ...] | None:
    """The axes from outermost to innermost when the array is dense in some order, else None."""
    order = tuple(sorted(range(array.ndim), key=lambda i: -array.strides[i]))
    return order if array.transpose(order).flags.c_contiguous else None


def copy_in_format(array: np.ndarray, form: memory_format = preserve_format) -> np.ndarray:
    """A copy laid out as the memory format says; `preserve_format` keeps a dense order of axes."""
    if form is contiguous_format:
        return array.copy("C")
    if form is preserve_format:
        return array.copy("K") if dense_order(array) is not None else array.copy("C")
    made = empty_strided_array(array.shape, format_strides(array.shape, form), array.dtype)
    np.copyto(made, array)
    return made
