"""Views with axes of length 1 removed, inserted or repeated: squeeze, unsqueeze and expand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ...autograd.unbroadcast import sum_to_shape
from ...tensor.meta import MetaArray
from ...tensor.tensor import Tensor
from ...tensor.windows.batch import Batch
from ...tensor.windows.strided_views import compute_extent_bytes, set_strides
from ..core.arguments.checks import check_sizes
from ..core.axes import canonicalize_dim, canonicalize_dims, means_all_axes
from ..core.errors import answer_failed
from ..core.operator import Array
from ..core.registry import composite, view
from ..core.sample_inputs import matrices
from .reshape import reshape


@view(name="squeeze_dims", node="SqueezeBackward1", expose=(),
      ref=lambda x, dims: np.squeeze(x, dims), samples=matrices(((3, 1, 4, 1), (1, 3))))
def _squeeze(input: Array, dims: int | Sequence[int]) -> Array:
    """The given axes of length 1 left out."""
    return input.squeeze(dims if isinstance(dims, int) else tuple(dims))


@_squeeze.batch
def _(batch: Batch, input: Tensor, dims: int | Sequence[int]) -> Tensor:
    n = input.dim()
    chosen = (dims,) if isinstance(dims, int) else dims
    return _squeeze(batch.lower(input), tuple([canonicalize_dim(d, n) + 1 for d in chosen]))


@_squeeze.vjp
def _(g: Tensor, input_shape: tuple[int, ...]) -> Tensor:
    return reshape(g, input_shape)


def _find_overload(
    input: Tensor, dim: int | Sequence[int] | None = None, *more: int, **_: Any
) -> int:
    return 0 if dim is None else 1 if isinstance(dim, int) and not more else 2


@composite(numpy_names=True, overload=_find_overload,
           node=("SqueezeBackward0", "SqueezeBackward1", "SqueezeBackward2"))
def squeeze(input: Tensor, dim: int | Sequence[int] | None = None, *more: int) -> Tensor:
    """Return a view without axes of length 1: all of them, or only those listed in `dim`.

    Args:
        dim: The axes to leave out, where their length is 1. None: all such axes.
        more: Further axes, where they are passed as several numbers.

    >>> torch.squeeze(torch.zeros(1, 2, 1)).shape, torch.squeeze(torch.zeros(1, 2, 1), 0).shape
    (torch.Size([2]), torch.Size([2, 1]))
    """
    if more:
        dim = (cast("int", dim), *more)
    shape = input._array.shape
    axes = () if means_all_axes(dim) else canonicalize_dims(dim, len(shape))
    return _squeeze(input, tuple(d for d in axes if shape and shape[d] == 1))


@view(ref=np.expand_dims, samples=matrices(((3, 4), 1), ((3,), -1), ((), 0)))
def unsqueeze(input: Array, dim: int) -> Array:
    """Insert an axis of length 1 at `dim`.

    Args:
        dim (int): The place of the new axis; negative numbers count from the end.

    >>> torch.unsqueeze(torch.tensor([1, 2]), 1)
    tensor([[1],
            [2]])
    """
    axis = canonicalize_dim(dim, input.ndim + 1)
    y = input.reshape((*input.shape[:axis], 1, *input.shape[axis:]))
    if y.__class__ is not Array or not y.size or y.strides[axis] == compute_extent_bytes(input,
                                                                                         axis):
        return y
    strides = (*input.strides[:axis], compute_extent_bytes(input, axis), *input.strides[axis:])
    return set_strides(y, y.shape, strides)


@unsqueeze.batch
def _(batch: Batch, input: Tensor, dim: int) -> Tensor:
    return unsqueeze(batch.lower(input), canonicalize_dim(dim, input.dim() + 1) + 1)


@unsqueeze.vjp
def _(g: Tensor, dim: int) -> Tensor:
    return _squeeze(g, (canonicalize_dim(dim, g._array.ndim),))


@view(ref=lambda x, *size: np.broadcast_to(x, size),
      samples=matrices(((3, 1), 3, 4), ((4,), 2, 3, 4)))
def expand(input: Array, *size: Any, implicit: bool = False) -> Array:
    """Repeat axes of length 1, and add leading axes, without copying.

    >>> torch.tensor([[1], [2]]).expand(2, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    shape = input.shape
    new = len(size) - len(shape)
    if new < 0:
        raise RuntimeError(
            f"expand(torch.{input.dtype}{{{list(shape)}}}, size={list(size)}): the number of sizes "
            f"provided ({len(size)}) must be greater or equal to the number of dimensions in the "
            f"tensor ({len(shape)})"
        )
    if input.__class__ is MetaArray:
        return _expand_meta(input, size, new)
    lengths, strides = list(shape), list(input.strides)
    if not new:
        for i, n in enumerate(size):
            if n != lengths[i] or n.__class__ is not int:
                strides[i] = strides[i] if n in (-1, lengths[i]) else 0
                lengths[i] = _expand_length(n, lengths[i], i, False, size, shape)
        return set_strides(input, lengths, strides)
    for i in range(len(size) - 1, -1, -1):
        if i < new:  # a leading axis, which steps over all axes behind it
            lengths.insert(0, 1)
            strides.insert(0, lengths[1] * strides[0] if strides else 0)
        axis = max(i - new, 0)
        have = lengths[axis]
        lengths[axis] = _expand_length(size[i], have, i, i < new, size, shape)
        if have != lengths[axis]:
            strides[axis] = 0
    return set_strides(input, lengths, strides)


def _expand_length(n: Any, have: int, axis: int, new: bool, size: Any, shape: Any) -> int:
    if n == -1:
        if new:
            raise RuntimeError(
                f"expand(): the expanded size of the tensor (-1) isn't allowed in a leading, "
                f"non-existing dimension {axis}"
            )
        return have
    if have not in (1, n):
        raise RuntimeError(
            f"The expanded size of the tensor ({n}) must match the existing size ({have}) at "
            f"non-singleton dimension {axis}.  Target sizes: {list(size)}.  Tensor sizes: "
            f"{list(shape)}"
        )
    return n


def _expand_meta(input: Any, size: tuple, new: int) -> Any:
    shape = [_expand_length(n, input.shape[i - new] if i >= new else 1, i, i < new, size,
                            input.shape) for i, n in enumerate(size)]
    return np.broadcast_to(input.view(np.ndarray), shape).view(MetaArray)


@expand.batch
def _(batch: Batch, input: Tensor, size: tuple[int, ...], implicit: bool) -> Tensor:
    new = len(size) - input.dim()
    below = batch.lower(input)
    if new > 0:
        below = below[(slice(None), *[None] * new)]
    return expand(below, batch.size, *size)


@expand.vjp
def _(g: Tensor, input_shape: tuple[int, ...]) -> Tensor:
    return sum_to_shape(g, input_shape)


@composite(expose=("Tensor",))
def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """Expand the tensor to the shape of `other`.

    >>> torch.tensor([[1], [2]]).expand_as(torch.zeros(2, 3))
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    try:
        shape = other._array.shape
    except AttributeError as error:
        return answer_failed(error, "expand_as", expand_as, (self, other))
    return expand(self, *shape)


@composite()
def broadcast_to(input: Tensor, *lengths: Any, size: int | Sequence[int] | None = None) -> Tensor:
    """Broadcast the tensor to a shape, without copying.

    Args:
        size: The shape; a method also takes it as several numbers.

    >>> torch.broadcast_to(torch.tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    try:
        return expand(input, *lengths) if size is None else expand(input, size)
    except TypeError:
        sizes: Any = lengths if size is None else size
        spread = not (len(sizes) == 1 and isinstance(sizes[0], (tuple, list)))
        check_sizes("broadcast_to", "size", sizes if spread else sizes[0], spread)
        raise
