"""Masks that keep a band around the diagonal."""

from __future__ import annotations

from typing import Any

from .... import ops
from .base_sparsifier import BaseSparsifier

__all__ = ["NearlyDiagonalSparsifier"]


class NearlyDiagonalSparsifier(BaseSparsifier):
    """Keep the `nearliness` diagonals nearest to the main one, an odd number; 0 keeps nothing.

    >>> layer = nn.Sequential(nn.Linear(3, 3))
    >>> sparsifier = torch.ao.pruning.NearlyDiagonalSparsifier(nearliness=3)
    >>> sparsifier.prepare(layer, None)
    >>> sparsifier.step()
    >>> layer[0].weight[0, 2].abs().item()
    0.0
    """

    def __init__(self, nearliness: int = 1) -> None:
        super().__init__(defaults={"nearliness": nearliness})

    def update_mask(  # type: ignore[override]
        self, module: Any, tensor_name: str, nearliness: int, **kwargs: Any
    ) -> None:
        """Write the band. Raises ValueError for even numbers and bands wider than the tensor."""
        mask = getattr(module.parametrizations, tensor_name)[0].mask
        mask.data = ops.zeros_like(mask)
        if nearliness <= 0:
            return
        if nearliness % 2 == 0:
            raise ValueError("nearliness can only be an odd number")
        if nearliness // 2 >= min(mask.shape):
            raise ValueError("nearliness cannot be larger than the dimensions of tensor.")
        band = ops.ones_like(mask).tril(nearliness // 2).triu(-(nearliness // 2))
        mask.data = band
