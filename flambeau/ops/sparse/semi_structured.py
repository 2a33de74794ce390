"""Semi-structured (2:4) tensors: the format of CUDA's sparse tensor cores, which a CPU refuses."""

from __future__ import annotations

from typing import Any

from ...native.foundation.user_frames import warn
from ...tensor.tensor import Tensor


class SparseSemiStructuredTensor(Tensor):
    """The class of semi-structured tensors. There are none on a CPU: `from_dense` raises.

    https://pytorch.org/docs/stable/generated/torch.sparse.SparseSemiStructuredTensor.html

    >>> isinstance(torch.ones(2), torch.sparse.SparseSemiStructuredTensor)
    False
    """

    def __new__(cls, *args: Any, **named: Any) -> Any:
        """Raise NotImplementedError: only a GPU computes with the packed values and their bits."""
        raise NotImplementedError(f"torch.sparse.{cls.__name__} needs CUDA's sparse tensor cores")

    @classmethod
    def from_dense(cls, original_tensor: Tensor) -> Any:
        """Raise RuntimeError for a tensor on a CPU."""
        if not original_tensor.is_cuda:
            raise RuntimeError(f"Error original_tensor.device= {original_tensor.device} is not "
                               "supported! Only CUDA tensors are currently supported.")
        return cls(original_tensor)


class SparseSemiStructuredTensorCUTLASS(SparseSemiStructuredTensor):
    """Semi-structured tensors in the format of CUTLASS."""


class SparseSemiStructuredTensorCUSPARSELT(SparseSemiStructuredTensor):
    """Semi-structured tensors in the format of cuSPARSELt."""


def to_sparse_semi_structured(
    original_tensor: Tensor, transposed: bool = False, alg_id: int = 0
) -> Any:
    """Convert a matrix of which two in four values are zero. Raise RuntimeError on a CPU.

    https://pytorch.org/docs/stable/generated/torch.sparse.to_sparse_semi_structured.html

    >>> torch.sparse.to_sparse_semi_structured(torch.ones(32, 64))
    Traceback (most recent call last):
    RuntimeError: Error original_tensor.device= cpu is not supported! Only CUDA tensors are ...
    """
    if transposed:
        warn("Setting transpose from `to_sparse_semi_structured` is deprecated and will be removed "
             "in a future release. `SparseSemiStructuredTensor` only support contiguous input "
             "tensors.", FutureWarning)
    return SparseSemiStructuredTensorCUTLASS.from_dense(original_tensor)
