"""torch.nested: tensors of rows of different lengths, in jagged and in strided layout."""

from . import jagged_products as jagged_products  # rules
from . import jagged_reductions as jagged_reductions
from . import jagged_shapes as jagged_shapes
from . import strided_arithmetic as strided_arithmetic
from . import strided_shapes as strided_shapes
from . import user_functions as user_functions
from ..serialization import add_safe_globals
from .construction import (
    as_nested_tensor, masked_select, narrow, nested_tensor, nested_tensor_from_jagged,
    to_padded_tensor,
)
from .jagged_tensor import NestedTensor, _rebuild_njt
from .strided_tensor import StridedNestedTensor, rebuild_strided

__all__ = [
    "as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged",
    "to_padded_tensor",
]

# What files with nested tensors name.
add_safe_globals([NestedTensor, _rebuild_njt, StridedNestedTensor, rebuild_strided])
