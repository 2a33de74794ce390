"""Dropout of elements, of whole channels, and preserving SELU's statistics."""

from __future__ import annotations

from ...tensor import Tensor
from .. import functional as F
from ..module import Module
from .utils import format_settings

__all__ = [
    "AlphaDropout",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "FeatureAlphaDropout",
]


class _DropoutNd(Module):
    """Holds the drop probability `p`; active in training mode only."""

    p: float
    inplace: bool

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return format_settings(self, "p", "inplace")


class Dropout(_DropoutNd):
    """Zero each element with probability p and scale the others by 1 / (1 - p).

    >>> nn.Dropout(0.5).eval()(torch.ones(2))
    tensor([1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Drop whole channels of (n, c, l) or (c, l).

    >>> y = nn.Dropout1d(0.5)(torch.ones(2, 3, 4))
    >>> bool((y == y[..., :1]).all())  # a channel is kept, doubled, or gone as a whole
    True
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Drop whole channels of (n, c, h, w) or (n, c, l).

    >>> sorted(nn.Dropout2d(0.5)(torch.ones(8, 8, 2, 2)).unique().tolist())
    [0.0, 2.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Drop whole channels of (n, c, d, h, w) or (c, d, h, w).

    >>> nn.Dropout3d(0.5).eval()(torch.ones(1, 2, 1, 1, 1)).flatten()
    tensor([1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Drop to SELU's negative limit, preserving mean 0 and variance 1.

    Klambauer et al., 2017.

    >>> y = nn.AlphaDropout(0.5)(torch.randn(10000))
    >>> bool(abs(y.mean()) < 0.1), bool(abs(y.var() - 1) < 0.1)
    (True, True)
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """AlphaDropout of whole channels.

    >>> y = nn.FeatureAlphaDropout(0.5)(torch.ones(2, 3, 4))
    >>> bool((y == y[..., :1]).all())
    True
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)
