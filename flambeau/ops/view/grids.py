"""Grids and combinations of vectors, and tensors expanded to one shape."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ...native.foundation.user_frames import warn
from ...tensor.dtypes import int64
from ...tensor.tensor import Tensor
from ..core.registry import composite
from .join import broadcast_shapes, stack


def _unpack(tensors: tuple) -> tuple[Tensor, ...]:
    """The tensors of f(a, b) or f([a, b])."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        return tuple(tensors[0])
    return tensors


@composite(expose=("torch",), explains=True)
def cartesian_prod(*tensors: Tensor | Sequence[Tensor]) -> Tensor:
    """Return every combination of the vectors' elements, one per row.

    Args:
        tensors: The vectors.

    >>> torch.cartesian_prod(torch.tensor([1, 2]), torch.tensor([8, 9]))
    tensor([[1, 8],
            [1, 9],
            [2, 8],
            [2, 9]])
    """
    vectors = _unpack(tensors)
    for x in vectors:
        if x._array.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(x._array.shape)}")
    if len(vectors) == 1:
        return vectors[0]
    grids = meshgrid(*vectors, indexing="ij")
    return stack([x.reshape(-1) for x in grids], 1)


@composite(expose=("torch",), explains=True)
def meshgrid(
    *tensors: Tensor | Sequence[Tensor], indexing: str | None = None
) -> tuple[Tensor, ...]:
    """Build coordinate grids from vectors.

    With `indexing` "ij" the first vector varies along the first axis, with "xy" along the second.

    Args:
        tensors: The vectors.

    >>> x, y = torch.meshgrid(torch.tensor([1, 2, 3]), torch.tensor([8, 9]), indexing="ij")
    >>> x
    tensor([[1, 1],
            [2, 2],
            [3, 3]])
    """
    coordinates = _unpack(tensors)
    if not coordinates:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(
            "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: "
            f"{indexing}"
        )
    if any(x.device != coordinates[0].device for x in coordinates):
        raise RuntimeError("meshgrid expects all tensors to have the same device")
    if any(x.dtype is not coordinates[0].dtype for x in coordinates):
        raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    for x in coordinates:
        if x._array.ndim > 1:
            raise RuntimeError(
                f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {x}")
    if indexing is None:
        warn(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing "
            "argument.",
            UserWarning,
        )
    vectors = [x.reshape(-1) for x in coordinates]
    swap = indexing == "xy" and len(vectors) > 1
    if swap:
        vectors[0], vectors[1] = vectors[1], vectors[0]
    shape = tuple(v._array.size for v in vectors)
    grids = [
        v.reshape([-1 if k == i else 1 for k in range(len(vectors))]).expand(*shape)
        for i, v in enumerate(vectors)
    ]
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


@composite(expose=("torch",), explains=True)
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Return every combination of r elements of a vector, one per row.

    Args:
        input: A vector, (n,).

    >>> torch.combinations(torch.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    >>> torch.combinations(torch.tensor([1, 2]), with_replacement=True)
    tensor([[1, 1],
            [1, 2],
            [2, 2]])
    """
    if input._array.ndim != 1:
        raise RuntimeError("Expect a 1D vector, but got shape " f"{list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(choose(range(input._array.size), r))
    if r == 0 or not rows:
        return input[:0] if r == 0 else input[:0].reshape(0, 1).expand(0, r).clone()
    return input[input.new_tensor(rows, dtype=int64)]


@composite(expose=("torch",), explains=True)
def broadcast_tensors(*tensors: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Expand tensors to their common broadcast shape.

    Args:
        tensors: The tensors to expand.

    >>> [x.shape for x in torch.broadcast_tensors(torch.zeros(3, 1), torch.zeros(4))]
    [torch.Size([3, 4]), torch.Size([3, 4])]
    """
    operands = _unpack(tensors)
    shapes = [x._array.shape for x in operands]
    shape = shapes[0] if len(set(shapes)) == 1 else broadcast_shapes(*shapes)
    return tuple(x.expand(*shape) for x in operands)
