"""torch.nested: tensors of rows of different lengths, which flambeau does not have yet."""

from .tensor.absent import lacking

__all__: list[str] = []

_NAMES = (
    "as_nested_tensor", "narrow", "nested_tensor", "nested_tensor_from_jagged", "masked_select",
    "to_padded_tensor",
)

__getattr__ = lacking(__name__, _NAMES)
