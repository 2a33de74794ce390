"""Copies between overlapping windows of one storage, which read what they have just written."""

from __future__ import annotations

from ...tensor.overlap import OverlappingCopies, check_no_overlap, read_while_writing
from ...tensor.tensor import Tensor


def copy_as_read(target: Tensor, src: Tensor) -> Tensor:
    """Copy `src` with the values that a loop reads which writes them to `target`, an overlapping
    window of the same storage. RuntimeError if both windows are dense."""
    if OverlappingCopies.used is not None:
        OverlappingCopies.used()
    check_no_overlap(target._array, src._array)
    values = read_while_writing(target._array, src._array)
    result: Tensor = src.expand(target.shape).clone()
    result._array[...] = values
    return result
