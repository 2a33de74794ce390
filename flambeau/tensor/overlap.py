"""Overlap: detects writes that would change an element twice, or an operand while it is read.

A write checks its target before changing anything. The rules are PyTorch's, so layouts that are
hard to compare (windows with gaps) pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import Any

import numpy as np

from ..native.foundation.user_frames import warn
from .layout import find_dense_order, loop_order


class Overlap(Enum):
    """Which operands may share memory with the tensor that an operator writes to."""

    ANY = auto()  # PyTorch does not check
    SAME = auto()  # only the target itself, element for element
    NONE = auto()  # the operator reads elements out of order


def has_internal_overlap(array: np.ndarray) -> bool:
    """Return whether several elements share an address because an axis was expanded."""
    if 0 not in array.strides or array.__class__ is not np.ndarray or not array.size:
        return False
    return any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True))


_TOLERATED = {
    "index_fill_": "scalar", "masked_fill_": "scalar", "index_put_": "tensor",
}


def check_no_internal_overlap(array: np.ndarray, name: str = "") -> None:
    """Raise RuntimeError if several elements of a target share an address.

    For the operators in which PyTorch tolerates this, only warn that it is deprecated. Threshold
    may be applied twice to an element.
    """
    if 0 in array.strides and not name.endswith("threshold_") and has_internal_overlap(array):
        if name in _TOLERATED:
            value = _TOLERATED[name]
            index = "indices" if value == "tensor" else "mask"
            warn(
                f"Use of {name} on expanded tensors is deprecated. Please clone() the tensor "
                "before performing this operation. This also applies to advanced indexing e.g. "
                f"tensor[{index}] = {value}",
                UserWarning,
            )
            return
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation."
        )


def check_no_overlap(target: np.ndarray, operand: np.ndarray, partial: bool = True) -> None:
    """Raise RuntimeError if a dense operand shares memory with a dense target.

    With `partial`, the operand may be the target itself, element for element, as for pointwise
    operators. Pass False for operators that read elements out of order.
    """
    owner = target if target.base is None else target.base
    if owner is not (operand if operand.base is None else operand.base) \
            or partial and operand is target:
        return
    if operand.__class__ is not np.ndarray:
        return
    if operand is not target and not np.may_share_memory(target, operand):
        return
    same = target.ctypes.data == operand.ctypes.data and target.strides == operand.strides \
        and target.shape == operand.shape
    if same and partial:
        return
    if find_dense_order(target) is not None and find_dense_order(operand) is not None:
        raise RuntimeError(
            "unsupported operation: some elements of the input tensor and the written-to tensor "
            "refer to a single memory location. Please clone() the tensor before performing the "
            "operation."
        )


class OverlappingCopies:
    """A callback: `used` before a copy between overlapping windows, which no program records."""

    used: Any = None


def overlaps_other_window(target: np.ndarray, source: np.ndarray) -> bool:
    """Whether two windows of one storage share memory without being the same window."""
    owner = target if target.base is None else target.base
    if owner is not (source if source.base is None else source.base) or source is target:
        return False
    if source.__class__ is not np.ndarray or not np.may_share_memory(target, source):
        return False
    return not (target.ctypes.data == source.ctypes.data and target.strides == source.strides
                and target.shape == source.shape)


def read_while_writing(target: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Return what a loop reads that copies `source` to `target`, which overlap, in PyTorch's order.

    It reads what it has written before. Windows that this cannot be said of are read at once:
    those with elements of different sizes or between each other's, and targets that repeat some.
    """
    size = target.itemsize
    source = np.broadcast_to(source, target.shape)
    strides = target.strides, source.strides
    shift = source.ctypes.data - target.ctypes.data
    if source.itemsize != size or shift % size or any(s % size for s in (*strides[0], *strides[1])):
        return source.copy()
    order = loop_order(target.shape, strides)
    shape = [target.shape[axis] for axis in reversed(order)]
    writes, reads = (
        _positions(shape, [step[axis] // size for axis in reversed(order)]) for step in strides)
    reads += shift // size
    # PyTorch copies adjacent elements in vectors of AVX2, reading two before it writes them.
    bytes_at_once = 64
    times = _group_steps(shape, [[step[axis] // size for axis in reversed(order)]
                                 for step in strides], bytes_at_once // size)
    values = source.transpose(order[::-1]).reshape(-1)[_find_origins(writes, reads, times)]
    return values.reshape(shape).transpose(np.argsort(order[::-1]))


def _positions(shape: list[int], steps: list[int]) -> np.ndarray:
    """The position of each element, in the order of the axes."""
    result = np.zeros((), np.int64)
    for length, step in zip(shape, steps, strict=True):
        result = np.add.outer(result, np.arange(length) * step)
    return result.reshape(-1)


def _group_steps(shape: list[int], steps: list[list[int]], width: int) -> np.ndarray:
    """When each element is read; elements that are read before any is written share a time.

    The innermost axes along which all operands are evenly spaced are walked as one line.
    """
    length, inner = 1, [1, 1]
    for axis in reversed(range(len(shape))):
        if shape[axis] != 1:
            here = [operand[axis] for operand in steps]
            if length == 1:
                inner = here
            elif here != [step * length for step in inner]:
                break
        length *= shape[axis]
    count = int(np.prod(shape))
    times = np.arange(count)
    if inner == [1, 1] and length >= width:
        place = times % length
        times -= np.where(place < length // width * width, place % width, 0)
    return times


def _find_origins(writes: np.ndarray, reads: np.ndarray, times: np.ndarray) -> np.ndarray:
    """For each step of a copy the step that read the value from where nothing had been written."""
    low = min(writes.min(), reads.min())
    writer = np.full(max(writes.max(), reads.max()) - low + 1, -1)
    writer[writes - low] = np.arange(len(writes))
    origin = writer[reads - low]
    every = np.arange(len(reads))
    origin = np.where((origin >= 0) & (times[origin] < times), origin, every)
    while True:
        further = origin[origin]
        if np.array_equal(further, origin):
            return origin
        origin = further


def check_operands(target: np.ndarray, operands: Iterable[Any], partial: bool = True) -> None:
    """Apply `check_no_overlap` to each tensor among an operator's arguments, including lists."""
    for operand in operands:
        array = getattr(operand, "_array", None)
        if array is not None:
            check_no_overlap(target, array, partial)
        elif operand.__class__ is list or operand.__class__ is tuple:
            check_operands(target, operand, partial)


def check_put(target: np.ndarray, source: np.ndarray, where: tuple) -> None:
    """RuntimeError where values or positions of an indexed write share memory with its target."""
    check_no_internal_overlap(target, "index_put_")
    for operand in (source, *where):
        if operand.__class__ is np.ndarray:
            check_no_overlap(target, operand, partial=False)
