"""sparse_mask: select one tensor's values at the coordinates of a sparse mask."""

from __future__ import annotations

from typing import Any

from ...tensor.layout import strided
from ...tensor.sparse import CooArray, SparseArray, layout_name
from ...tensor.tensor import Tensor
from ..core.operator import Array
from . import formats
from .dispatch import implements, sparse_operator
from .masked_arrays import apply_mask


@sparse_operator(node="SparseMaskBackward0", linear_in="input")
def mask_by_pattern(input: Array, pattern: Any) -> Array:
    return apply_mask(input, pattern)


@mask_by_pattern.vjp("input")
def _(g: Any, pattern: Any, input: Any) -> Any:
    g = mask_by_pattern(g, formats.coalesce(pattern) if isinstance(pattern, CooArray) else pattern)
    return g if input.layout is not strided else g.to_dense()


@implements("sparse_mask")
def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """Select the values at the positions of `mask`, in the layout of `mask`."""
    pattern: Any = mask._array
    if not isinstance(pattern, SparseArray):
        raise RuntimeError("sparse_mask(): the mask argument must be a sparse tensor, but got "
                           f"{layout_name(mask.layout)}")
    if self.shape != mask.shape:
        raise RuntimeError(
            "sparse_mask(): operands have incompatible sizes; self has size "
            f"{list(self.shape)} but mask has size {list(mask.shape)}"
        )
    return mask_by_pattern(self, pattern)
