"""torch.masked.maskedtensor: MaskedTensor, and the names of the operators that it has."""

from .core import MaskedTensor, is_masked_tensor

__all__ = ["MaskedTensor", "is_masked_tensor"]
