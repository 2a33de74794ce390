"""Distances between rows: PairwiseDistance, CosineSimilarity."""

from __future__ import annotations

from ...tensor import Tensor
from .. import functional as F
from ..module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class PairwiseDistance(Module):
    """p-norm of x1 - x2 + eps along the last dimension: (n, d), (n, d) to (n).

    >>> nn.PairwiseDistance(p=1)(torch.tensor([[0., 0.]]), torch.tensor([[3., -4.]]))
    tensor([7.])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """Cosine similarity along `dim`, x1 . x2 / max(|x1| |x2|, eps).

    >>> nn.CosineSimilarity()(torch.tensor([[1., 0.]]), torch.tensor([[3., 4.]]))
    tensor([0.6000])
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
