"""Convert between packed rows and rows padded to one length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import ops
from ..tensor.tensor import Tensor

if TYPE_CHECKING:
    from .jagged_tensor import NestedTensor


def locate_rows(nt: NestedTensor) -> tuple[Tensor, Tensor]:
    """Return the row of each packed position, and the position within that row."""
    lengths = nt._offsets.diff()
    row = ops.arange(lengths.shape[0]).repeat_interleave(lengths)
    position = ops.arange(row.shape[0]) - (nt._offsets[:-1] - nt._offsets[0])[row]
    return row, position


def pack(nt: NestedTensor, padded: Tensor) -> Tensor:
    """Cut the padding off: the values of `padded` in the rows of `nt`.

    A ragged axis of length 1 is repeated along the rows.
    """
    r = nt._ragged_idx
    if padded.shape[r] == 1:
        row, _ = locate_rows(nt)
        return padded.squeeze(r).index_select(0, row).movedim(0, r - 1)
    row, position = locate_rows(nt)
    return padded.movedim(r, 1)[row, position].movedim(0, r - 1)


def pad(nt: NestedTensor, padding: Any, length: int | None = None) -> Tensor:
    """Pad the rows to one length, as a dense tensor; cut longer rows."""
    r = nt._ragged_idx
    longest = nt._get_max_seqlen()
    values = nt._values.movedim(r - 1, 0)
    row, position = locate_rows(nt)
    width = longest if length is None else max(longest, length)
    shape = (nt._size[0], width, *values.shape[1:])
    filled = values.new_full(shape, padding).index_put((row, position), values)
    return filled[:, :length].movedim(1, r)
