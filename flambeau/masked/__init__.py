"""torch.masked: reductions that count only the elements where a mask is True, and MaskedTensor."""

from . import reductions as _ops
from .maskedtensor.core import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor
from .maskedtensor.combination import _combine_input_and_mask
from .reductions import (
    _canonical_dim, _input_mask, _output_mask, _reduction_identity, _where, amax, amin, argmax,
    argmin, cumprod, cumsum, log_softmax, logaddexp, logsumexp, mean, median, norm, normalize,
    prod, softmax, softmin, std, sum, var,
)

__all__ = [
    "MaskedTensor", "_canonical_dim", "_combine_input_and_mask", "_input_mask", "_output_mask",
    "_reduction_identity", "_where", "amax", "amin", "argmax", "argmin", "as_masked_tensor",
    "cumprod", "cumsum",
    "is_masked_tensor", "log_softmax", "logaddexp", "logsumexp", "masked_tensor", "mean", "median",
    "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]
