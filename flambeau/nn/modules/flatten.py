"""Flatten and Unflatten: merge several dimensions into one, or split one into several."""

from __future__ import annotations

from typing import Any

from ...tensor import Tensor
from ..module import Module
from .utils import format_settings

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Merge dimensions start_dim to end_dim; by default (n, *) becomes (n, product).

    >>> nn.Flatten()(torch.zeros(2, 3, 4)).shape
    torch.Size([2, 12])
    """

    start_dim: int
    end_dim: int

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return format_settings(self, "start_dim", "end_dim")


class Unflatten(Module):
    """Split dimension `dim` into `unflattened_size`, a tuple of ints (one may be -1).

    Raises TypeError for other kinds of size.

    >>> nn.Unflatten(1, (3, -1))(torch.zeros(2, 12)).shape
    torch.Size([2, 3, 4])
    """

    def __init__(self, dim: int, unflattened_size: tuple[int, ...] | list[int]) -> None:
        super().__init__()
        self._require_tuple_int(unflattened_size)
        self.dim = dim
        self.unflattened_size = unflattened_size

    def _require_tuple_int(self, input: Any) -> None:
        if not isinstance(input, tuple | list):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(input).__name__}"
            )
        for position, element in enumerate(input):
            if not isinstance(element, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, but found element of type "
                    f"{type(element).__name__} at pos {position}"
                )

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return format_settings(self, "dim", "unflattened_size")
