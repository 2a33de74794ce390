"""Flat indices as indices along axes, and splits that PyTorch calls unsafe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...native.foundation.public_names import class_of
from ...tensor.tensor import Tensor
from ..core.registry import composite
from .join import stack
from .sections import chunk, split, split_with_sizes


@composite(expose=("torch",))
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, Tensor]:
    """Convert flat indices to one index tensor per axis of `shape`.

    >>> torch.unravel_index(torch.tensor([3, 5]), (2, 3))
    (tensor([1, 1]), tensor([0, 2]))
    """
    if not isinstance(indices, Tensor):
        raise TypeError("unravel_index(): argument 'indices' must be Tensor, not "
                        f"{type(indices).__name__}")
    if indices._array.dtype.kind not in "iu":
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if not isinstance(shape, (int, Sequence)):
        raise TypeError("expected 'shape' to be int or sequence of ints, but got "
                        f"{type(shape).__name__}")
    for n in () if isinstance(shape, int) else shape:
        if not isinstance(n, int):
            raise TypeError(
                f"expected 'shape' sequence to only contain ints, but got {class_of(n)}"
            )
    lengths = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(n < 0 for n in lengths):
        raise ValueError(f"'shape' cannot have negative values, but got {lengths}")
    result: Any = []
    for i, n in enumerate(lengths):
        after = math.prod(lengths[i + 1 :])
        result.append(indices.div(after, rounding_mode="floor") % n)
    if result:  # as PyTorch, views of one tensor
        result = stack(result, -1).unbind(-1)
    return tuple(result)


@composite(explains=True, node="UnsafeSplitBackward0")
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Split an axis as `chunk` does.

    >>> torch.unsafe_chunk(torch.arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    return _as_own(chunk(input, chunks, dim))


@composite(explains=True, node="UnsafeSplitBackward0")
def unsafe_split(tensor: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Split an axis as `split` does.

    >>> torch.unsafe_split(torch.arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    return _as_own(split(tensor, split_size, dim))


@composite()
def unsafe_split_with_sizes(
    input: Tensor, split_sizes: Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """Split an axis as `split_with_sizes` does.

    >>> torch.unsafe_split_with_sizes(torch.arange(3), [1, 2])
    (tensor([0]), tensor([1, 2]))
    """
    return _as_own(split_with_sizes(input, split_sizes, dim))


def _as_own(pieces: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Pieces that autograd takes for tensors of their own: each may be written in place."""
    for piece in pieces:
        if piece._base is not None and piece._array.__class__ is np.ndarray:
            piece._base = piece._stamp = piece._counter = None
            piece._tracked = piece._requires_grad
    return pieces
