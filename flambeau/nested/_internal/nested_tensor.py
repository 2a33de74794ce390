"""NestedTensor, the class of jagged tensors, and functions that programs import from here."""

from __future__ import annotations

from typing import Any

from ...tensor.tensor import Tensor
from ..jagged_tensor import (
    NestedTensor, _rebuild_njt, get_tensor_symint, jagged_from_list,
    jagged_from_tensor_and_lengths, view_jagged,
)
from ..packing import pack

__all__ = [
    "NestedTensor", "ViewBufferFromNested", "ViewNestedFromBuffer", "_rebuild_njt",
    "buffer_from_jagged", "get_tensor_symint", "jagged_from_list", "jagged_from_tensor_and_lengths",
    "nested_from_padded", "nested_view_from_values_offsets",
    "nested_view_from_values_offsets_lengths",
]


def nested_view_from_values_offsets(
    values: Tensor, offsets: Tensor, ragged_idx: int = 1, min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> NestedTensor:
    """Return a jagged tensor that views `values`."""
    return view_jagged(values, offsets, None, ragged_idx, min_seqlen, max_seqlen)


def nested_view_from_values_offsets_lengths(
    values: Tensor, offsets: Tensor, lengths: Tensor | None, ragged_idx: int = 1,
    min_seqlen: int | None = None, max_seqlen: int | None = None,
) -> NestedTensor:
    """Return a jagged tensor that views `values`, with holes between the rows."""
    return view_jagged(values, offsets, lengths, ragged_idx, min_seqlen, max_seqlen)


def nested_from_padded(
    padded: Tensor, offsets: Tensor, ragged_idx: int = 1, min_seqlen: int | None = None,
    max_seqlen: int | None = None, sum_S: int | None = None,
) -> NestedTensor:
    """Return the rows of a padded tensor as a jagged tensor, with lengths given by `offsets`."""
    total = int(offsets[-1].item())
    shape = [n for i, n in enumerate(padded.shape) if i != ragged_idx][1:]
    shape.insert(ragged_idx - 1, total)
    bounds = {"min_seqlen": min_seqlen, "max_seqlen": max_seqlen}
    pattern = NestedTensor(padded.new_empty(shape), offsets, _ragged_idx=ragged_idx,
                           _metadata_cache={k: v for k, v in bounds.items() if v is not None})
    result: NestedTensor = pattern._build_like(pack(pattern, padded))
    return result


def buffer_from_jagged(jagged: NestedTensor) -> Tensor:
    """Return the packed values."""
    return jagged.values()


class ViewBufferFromNested:
    """Old name of `buffer_from_jagged`."""

    apply = staticmethod(buffer_from_jagged)


class ViewNestedFromBuffer:
    """Old name of `nested_view_from_values_offsets`."""

    @staticmethod
    def apply(values: Tensor, offsets: Tensor, metadata_cache: Any = None) -> NestedTensor:
        """Rows on a view of `values`."""
        bounds = metadata_cache or {}
        return view_jagged(values, offsets, None, 1, bounds.get("min_seqlen"),
                           bounds.get("max_seqlen"))
