"""Masked indexing: indices are only used where the mask is True; others may be out of range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...tensor.tensor import Tensor
from ..core.operator import Number
from ..core.registry import composite


def _clamp_indices(input: Tensor, indices: Any) -> tuple:
    """Clamp indices to the valid range; replace None by a full slice."""
    result = []
    for axis, index in enumerate(indices):
        n = input._array.shape[axis]
        result.append(slice(None) if index is None else index.clamp(-n, n - 1))
    return tuple(result)


@composite(expose=("torch",), explains=True)
def _unsafe_masked_index(
    input: Tensor, mask: Tensor, indices: Sequence[Tensor], fill: Number
) -> Tensor:
    """Return input[indices] where the mask is True, `fill` elsewhere.

    >>> x, mask = torch.tensor([1., 2.]), torch.tensor([True, False])
    >>> torch._unsafe_masked_index(x, mask, [torch.tensor([1, 9])], 0)
    tensor([2., 0.])
    """
    if not input._array.size:
        return input.new_full(mask.shape, fill)
    return input[_clamp_indices(input, indices)].masked_fill(mask.logical_not(), fill)


@composite(expose=("torch",), explains=True)
def _unsafe_masked_index_put_accumulate(
    input: Tensor, mask: Tensor, indices: Sequence[Tensor], values: Tensor
) -> Tensor:
    """Return a copy of the input with values added at the indices where the mask is True.

    >>> x, mask = torch.tensor([1., 2.]), torch.tensor([True, False])
    >>> torch._unsafe_masked_index_put_accumulate(x, mask, [torch.tensor([1, 9])], torch.ones(2))
    tensor([1., 3.])
    """
    if not input._array.size:
        return input.clone()
    masked = values.masked_fill(mask.logical_not(), 0)
    return input.index_put(_clamp_indices(input, indices), masked, True)
