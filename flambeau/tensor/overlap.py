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
from .layout import find_dense_order


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
    if operand.__class__ is not np.ndarray or not np.may_share_memory(target, operand):
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
