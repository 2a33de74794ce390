"""Sections: several views that make up a tensor between them: unbind, split, chunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...tensor.dtypes import dtype as Dtype
from ...tensor.dtypes import int64
from ...tensor.promotion import legacy_name
from ...tensor.tensor import Tensor
from ...tensor.windows.batch import Batch
from ..core.axes import canonicalize_dim
from ..core.operator import Array, publish
from ..core.registry import composite, view
from ..core.sample_inputs import matrices
from ..creation.creation import public, zeros
from .join import cat, stack
from .slices import basic_index


@view(ref=lambda x, dim=0: tuple(np.moveaxis(x, dim, 0)),
      samples=matrices(((3, 4),), ((3, 4), 1)))
def unbind(input: Array, dim: int = 0) -> tuple[Array, ...]:
    """Return a tuple of the slices along an axis.

    >>> torch.unbind(torch.tensor([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))
    """
    if not input.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    axis = canonicalize_dim(dim, input.ndim)
    head: tuple[Any, ...] = (slice(None),) * axis
    indices: list[Any] = [(*head, i, Ellipsis) for i in range(input.shape[axis])]
    return tuple([input[index] for index in indices])


@unbind.batch
def _(batch: Batch, input: Tensor, dim: int) -> Any:
    if not input.dim():
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    return unbind(batch.lower(input), canonicalize_dim(dim, input.dim()) + 1)


@unbind.vjp
def _(gs: tuple[Tensor, ...], input_shape: tuple[int, ...], dim: int, input_dtype: Dtype) -> Tensor:
    return _join(gs, input_shape, dim, input_dtype, None)


@composite(name="Tensor.unbind", expose=())
def _unbind_method(self: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Return a tuple of the slices along an axis.

    A function of its own, as in PyTorch: classes that override tell `x.unbind()`, which iteration
    calls, from `torch.unbind(x)` (MONAI).

    >>> torch.tensor([[1, 2], [3, 4]]).unbind()
    (tensor([1, 2]), tensor([3, 4]))
    """
    result: tuple[Tensor, ...] = unbind(self, dim)
    return result


Tensor.unbind = _unbind_method


@view(name="_split_sizes", node=("SplitWithSizesBackward0", "SplitBackward0"), expose=(),
      overload=lambda input, sizes, dim: sizes.__class__ is int,
      ref=lambda x, sizes, dim: tuple(np.split(x, np.cumsum(sizes)[:-1], dim)),
      samples=lambda rng: iter([((rng.normal(size=(3, 5)), (2, 3), 1), {})]))
def split_sizes(input: Array, sizes: Any, dim: int) -> tuple[Array, ...]:
    """Split an axis into pieces of the listed lengths, or of one length but for the last."""
    head, start, result = (slice(None),) * dim, 0, []
    for n in _list_lengths(input.shape[dim], sizes):
        result.append(input[(*head, slice(start, start + n))])
        start += n
    return tuple(result)


def _list_lengths(extent: int, sizes: Any) -> Sequence[int]:
    """The lengths of the pieces of an axis."""
    if sizes.__class__ is not int:
        return sizes
    whole, rest = divmod(extent, sizes) if sizes else (0, 0)
    return (sizes,) * whole + ((rest,) if rest or not whole else ())


@split_sizes.vjp
def _(
    gs: tuple[Tensor, Tensor], input_shape: tuple[int, ...], sizes: Any, dim: int,
    input_dtype: Dtype
) -> Tensor:
    return _join(gs, input_shape, dim, input_dtype, _list_lengths(input_shape[dim], sizes))


def _join(gs: Sequence[Any], shape: tuple, dim: int, dtype: Any, sizes: Any) -> Tensor:
    """The cotangents of pieces put together, zeros where none came."""
    wrapper = next((g for g in gs if g is not None and type(g) is not Tensor), None)
    fill = zeros if wrapper is None else wrapper.new_zeros  # a class makes its own zeros
    axis = dim % len(shape)
    if sizes is None:
        rest = (*shape[:axis], *shape[axis + 1 :])
        return stack([fill(rest, dtype=dtype) if g is None else g for g in gs], axis)
    pieces = [
        fill((*shape[:axis], n, *shape[axis + 1 :]), dtype=dtype) if g is None else g
        for g, n in zip(gs, sizes, strict=True)
    ]
    return cat(pieces, axis)


@composite(expose=("torch",), explains=True)
def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Split an axis into pieces of one length (the last may be shorter) or of listed lengths.

    >>> torch.split(torch.arange(5), 2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    >>> torch.split(torch.arange(5), [1, 4])
    (tensor([0]), tensor([1, 2, 3, 4]))
    """
    shape = tensor._array.shape
    if not shape:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    axis = canonicalize_dim(dim, len(shape))
    size, n = split_size_or_sections, shape[axis]
    if size.__class__ is not int and not isinstance(size, (tuple, list)):
        size = _convert_length(size)
    if size.__class__ is not int:
        if sum(size) != n or any(s < 0 for s in size):
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size "
                f"at dimension {axis}), but got split_sizes={list(size)}"
            )
        return split_sizes(tensor, tuple(size), axis)
    if size < 0 or (size == 0 and n):
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
    return split_sizes(tensor, size, axis)


def _convert_length(size: Any) -> int:
    """The length of pieces, of a type other than int. TypeError for bools and for no integers."""
    if isinstance(size, bool):
        raise TypeError("split() received an invalid combination of arguments - got (Tensor, bool, "
                        "int), but expected one of:\n * (Tensor input, int split_size, int dim = "
                        "0)\n  ")
    if not hasattr(size, "__index__"):
        raise TypeError("split_with_sizes(): argument 'split_sizes' (position 2) must be tuple of "
                        f"ints, not {type(size).__name__}")
    return int(size)


def _split(self: Tensor, split_size: Any, dim: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Split an axis into pieces of one length (the last may be shorter) or of listed lengths.

    >>> torch.arange(5).split(split_size=2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    return split(self, split_size, dim)


_split.__name__ = _split.__qualname__ = "split"
publish(_split, ("split",), ("Tensor",))  # the method has another name for its argument


@composite()
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Split an axis into pieces of the listed lengths.

    >>> torch.split_with_sizes(torch.arange(5), [1, 4])
    (tensor([0]), tensor([1, 2, 3, 4]))
    """
    return split(input, list(split_sizes), dim)


@composite(numpy_names=True)
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Split an axis into at most `chunks` pieces of equal length; the last may be shorter.

    Return views, possibly fewer than `chunks`.

    >>> torch.chunk(torch.arange(5), 2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    >>> len(torch.chunk(torch.arange(6), 4))
    3
    """
    if not input._array.ndim:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    axis = canonicalize_dim(dim, input._array.ndim)
    n = input._array.shape[axis]
    size = -(-n // int(chunks))
    if size == 0:
        return split_sizes(input, (0,) * chunks, axis)
    return split(input, size, axis)


def _choose_bounds(name: str, *choices: Any) -> Any:
    """The one of several names of an argument that was used; TypeError for none or two."""
    values = [choice for choice in choices if choice is not None]
    if len(values) != 1:
        raise TypeError(
            f"{name}() received an invalid combination of arguments: it takes one of sections and "
            "indices"
        )
    return values[0]


@composite(explains=True, node="SliceBackward0")
def tensor_split(
    input: Tensor, indices_or_sections: Any = None, dim: int = 0, *,
    indices: Sequence[int] | None = None, sections: int | None = None
) -> tuple[Tensor, ...]:
    """Split an axis into a number of nearly equal pieces, or at given indices.

    The number may be passed as `sections`, the indices as `indices`.

    >>> torch.tensor_split(torch.arange(5), 2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    >>> torch.tensor_split(torch.arange(5), (1, 3))
    (tensor([0]), tensor([1, 2]), tensor([3, 4]))
    """
    if not input._array.ndim:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    axis = canonicalize_dim(dim, input._array.ndim)
    n = input._array.shape[axis]
    splits = _choose_bounds("tensor_split", indices_or_sections, indices, sections)
    if isinstance(splits, Tensor):
        _check_places(splits)
        splits = splits.tolist()
    if isinstance(splits, int):
        if splits <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {splits}")
        size, extra = divmod(n, splits)
        splits = [size * i + min(i, extra) for i in range(1, splits)]
    bounds = [0, *splits, n]
    head = (slice(None),) * axis
    return tuple(
        basic_index(input, (*head, slice(a, b), Ellipsis))
        for a, b in zip([None, *bounds[1:-1]], [*bounds[1:-1], None], strict=True)
    )


def _check_places(splits: Tensor) -> None:
    """Raise RuntimeError unless a tensor holds a number of sections or a list of indices."""
    text = "tensor_split expected tensor_indices_or_sections to"
    if splits.dtype is not int64:
        raise RuntimeError(
            f"{text} have dtype of long, but got {legacy_name(splits.dtype)}")
    if splits.dim() > 1:
        raise RuntimeError(f"{text} be a zero-dimensional or one-dimensional tensor, but got a "
                           f"tensor with {splits.dim()} dims")


def _split_along(name: str, axis_of: Any, min_dims: int, words: str) -> Any:
    def function(
        input: Tensor, indices_or_sections: Any = None, *, indices: Sequence[int] | None = None,
        sections: int | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        indices_or_sections = _choose_bounds(name, indices_or_sections, indices, sections)
        if not isinstance(indices_or_sections, (int, tuple, list)):
            raise TypeError(
                f"{name}() received an invalid combination of arguments - got (Tensor, "
                f"{type(indices_or_sections).__name__}), but expected one of:\n"
                " * (Tensor input, int sections)\n * (Tensor input, tuple of ints indices)\n"
            )
        if input._array.ndim < min_dims:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {min_dims} dimension, but got a "
                f"tensor with {input._array.ndim} dimensions!"
            )
        axis = axis_of(input._array.ndim)
        if isinstance(indices_or_sections, int) and (
            indices_or_sections <= 0 or input._array.shape[axis] % indices_or_sections
        ):
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {axis}, but the size of the "
                f"dimension {input._array.shape[axis]} is not divisible by the split_size "
                f"{indices_or_sections}!"
            )
        return tensor_split(input, indices_or_sections, axis)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Pieces along {words}, by number or by indices: views.

    RuntimeError for a tensor of fewer axes, and where a number of pieces does not divide the
    length.

    >>> [tuple(part.shape) for part in torch.{name}(torch.zeros(6, 6, 6), [1, 3])]
    {[tuple(n if i == axis_of(3) else 6 for i in range(3)) for n in (1, 2, 3)]}
    """
    return public(spaces=("torch", "Tensor"))(function)


hsplit = _split_along("hsplit", lambda n: 0 if n == 1 else 1, 1, "the second axis, or a vector's")
vsplit = _split_along("vsplit", lambda n: 0, 2, "the first axis")
dsplit = _split_along("dsplit", lambda n: 2, 3, "the third axis")
