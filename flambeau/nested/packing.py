"""Convert between packed rows and rows padded to one length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import ops
from ..tensor.tensor import Tensor

if TYPE_CHECKING:
    from .jagged_tensor import NestedTensor


def locate_rows(nt: NestedTensor) -> tuple[Tensor, Tensor]:
    """For each packed place, its row and how far into that row it lies."""
    lengths = nt._offsets.diff()
    row = ops.arange(lengths.shape[0]).repeat_interleave(lengths)
    place = ops.arange(row.shape[0]) - (nt._offsets[:-1] - nt._offsets[0])[row]
    return row, place


def pack(nt: NestedTensor, padded: Tensor) -> Tensor:
    """Cut the padding off: the values of `padded` in the rows of `nt`.

    A ragged axis of length 1 is repeated along the rows.
    """
    r = nt._ragged_idx
    if padded.shape[r] == 1:
        row, _ = locate_rows(nt)
        return padded.squeeze(r).index_select(0, row).movedim(0, r - 1)
    row, place = locate_rows(nt)
    return padded.movedim(r, 1)[row, place].movedim(0, r - 1)


def pad(nt: NestedTensor, padding: Any, length: int | None = None) -> Tensor:
    """Pad the rows to one length, as a dense tensor; cut longer rows."""
    r = nt._ragged_idx
    longest = nt._get_max_seqlen()
    values = nt._values.movedim(r - 1, 0)
    row, place = locate_rows(nt)
    width = longest if length is None else max(longest, length)
    shape = (nt._size[0], width, *values.shape[1:])
    filled = values.new_full(shape, padding).index_put((row, place), values)
    return filled[:, :length].movedim(1, r)
