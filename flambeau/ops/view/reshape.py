"""The same elements in another shape, or their bytes as another dtype.

`view` fails if no strides can express the new shape; `reshape`, `flatten` and `ravel` then copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...autograd.tape import record
from ...native.foundation.public_names import c_class_name
from ...native.foundation.user_frames import add_notes
from ...tensor.dtypes import FROM_NUMPY, as_dtype
from ...tensor.dtypes import dtype as Dtype
from ...tensor.layout import get_strides
from ...tensor.meta import MetaArray
from ...tensor.promotion import legacy_name
from ...tensor.storage import get_offset
from ...tensor.tensor import Tensor, view_of
from ...tensor.windows.batch import Batch
from ...tensor.windows.batched_window import BatchedWindow
from ...tensor.windows.lazy_window import LazyWindow
from ..core.arguments.checks import check_sizes, read_length
from ..core.axes import canonicalize_dim
from ..core.errors import answer_failed
from ..core.operator import Array
from ..core.registry import composite, opaque, repeats_operators, view, views_as
from ..core.sample_inputs import matrices
from ..creation.creation import public, refuse_array_shape
from ..native.transpose import copy_to_rows


def infer_shape(shape: Sequence[Any], count: int) -> tuple[int, ...]:
    """Return the shape with -1 inferred for `count` elements; RuntimeError if it does not fit."""
    lengths = [n if n.__class__ is int else read_length(n) for n in shape]
    known, unknown = 1, None
    for i, n in enumerate(lengths):
        if n == -1:
            if unknown is not None:
                raise RuntimeError("only one dimension can be inferred")
            unknown = i
        elif n < 0:
            raise RuntimeError(f"invalid shape dimension {n} at index {i} of shape {lengths}")
        else:
            known *= n
    if unknown is not None:
        if known == 0:
            raise RuntimeError(
                f"cannot reshape tensor of {count} elements into shape {lengths} because the "
                "unspecified dimension size -1 can be any value and is ambiguous"
                if count == 0
                else f"shape '{lengths}' is invalid for input of size {count}"
            )
        lengths[unknown] = count // known
        known *= lengths[unknown]
    if known != count:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {count}")
    return tuple(lengths)


def view_as_shape(array: Any, shape: Sequence[int]) -> np.ndarray | None:
    """Return `array` in another shape without a copy, or None if no strides can express it."""
    if array.__class__ is LazyWindow:
        memory = view_as_shape(array.memory, shape)
        return None if memory is None else array.like(memory)
    if array.__class__ is BatchedWindow:  # reshape all examples at once
        below = array.below._array
        return view_as_shape(below, shape if array.is_shared else (below.shape[0], *shape))
    plain = array.__class__ is np.ndarray
    result = array.view() if plain else np.array(array, copy=False, subok=True)
    if array.__class__ is MetaArray:
        return _view_without_memory(array, shape)
    try:
        return result.reshape(shape, copy=False)
    except ValueError:
        return None


def _view_without_memory(array: MetaArray, shape: Sequence[int]) -> Any:
    """Return a meta array in another shape; None if the strides it was given rule that out."""
    if array.size == 0:
        return array.reshape(shape)
    result: Any = np.lib.stride_tricks.as_strided(array, shape, (0,) * len(shape), subok=True)
    if array.layout is not None:
        strides, offset = array.layout
        unread = np.lib.stride_tricks.as_strided(
            np.zeros(1, np.uint8), array.shape, strides, writeable=False
        )
        try:
            result.layout = unread.reshape(shape, copy=False).strides, offset
        except ValueError:
            return None
    return result


@view(name="_view", node="ViewBackward0", expose=(), ref=lambda x, size: x.reshape(size),
      samples=matrices(((6, 2), (3, -1))))
def view_as_size(input: Array, size: Sequence[int]) -> Array:
    """The same elements in another shape; RuntimeError when that needs a copy."""
    result = view_as_shape(input, infer_shape(size, input.size))
    if result is None:
        raise add_notes(RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one "
            "dimension spans across two contiguous subspaces). Use .reshape(...) instead."
        ), f"The view was to show {tuple(input.shape)} as {tuple(size)}.")
    return result


@view_as_size.batch
def _(batch: Batch, input: Tensor, size: Sequence[int]) -> Tensor:
    return view_as_size(batch.lower(input), (batch.size, *infer_shape(size, input.numel())))


@view_as_size.vjp
def _(g: Tensor, input_shape: tuple[int, ...]) -> Tensor:
    return reshape(g, input_shape)


@opaque(name="_unsafe_view", node="UnsafeViewBackward0", expose=(), extents_follow=True,
        linear_in="input", ref=lambda x, size: x.reshape(size),
        samples=lambda rng: iter([((rng.normal(size=(2, 6)).T, (3, -1)), {}),
                                  ((rng.normal(size=(4, 3, 2)).transpose(0, 2, 1), (8, 3)), {})]))
def copy_as_size(input: Array, size: Sequence[int]) -> Array:
    """A row-major copy in another shape, for strides that allow no view.

    PyTorch clones, then calls `_unsafe_view`, whose result does not count as a view of the clone.
    """
    return copy_to_rows(input).reshape(infer_shape(size, input.size))


@copy_as_size.batch
def _(batch: Batch, input: Tensor, size: Sequence[int]) -> Tensor:
    return copy_as_size(batch.lower(input), (batch.size, *infer_shape(size, input.numel())))


@copy_as_size.vjp
def _(g: Tensor, input_shape: tuple[int, ...]) -> Tensor:
    return reshape(g, input_shape)


@views_as(view_as_size)
@public("view", spaces=("Tensor",))
def view_method(self: Tensor, *shape: Any, size: Any = None, dtype: Dtype | None = None) -> Tensor:
    """Return a view with another shape, or with its bytes read as another dtype.

    RuntimeError if the strides do not allow a view; `reshape` copies in that case.

    >>> torch.arange(6).view(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    >>> torch.tensor([1.]).view(torch.int32)
    tensor([1065353216], dtype=torch.int32)
    """
    if size is None and dtype is None and shape and shape[0].__class__ is int:
        array = self._array
        if array.flags.c_contiguous and array.__class__ is np.ndarray:
            try:
                result = view_of(self, array.reshape(shape))
            except (ValueError, TypeError):
                return _view_as_sizes(self, shape, shape)  # reports shapes that do not fit
            if self._tracked:
                base: Any = self._base
                if self._requires_grad or base._node is not self._stamp:
                    record(view_as_size.operator, result, (self, shape))
            return result
    target: Any = shape[0] if len(shape) == 1 else shape
    refuse_array_shape(target, "size")
    if size is not None:
        target = size
    if dtype is not None:
        target = dtype
    target = as_dtype(target)
    if target.__class__ is Dtype:
        return _view_dtype(self, target)
    is_sequence = target.__class__ is not int and hasattr(target, "__len__")
    return _view_as_sizes(self, tuple(target) if is_sequence else (target,), shape)


def _view_as_sizes(input: Tensor, sizes: tuple, args: tuple) -> Tensor:
    """View the tensor in a shape; `args` are the arguments of `view` that said so."""
    try:
        return view_as_size(input, sizes)
    except TypeError:
        _check_view_sizes(sizes, args)
        raise


def _check_view_sizes(sizes: Sequence[Any], args: tuple) -> None:
    """Raise PyTorch's TypeError for a first length that is no int, for which none of `view`'s
    two forms fits, or for a later one."""
    if sizes and (isinstance(sizes[0], (bool, Tensor)) or not hasattr(sizes[0], "__index__")):
        kinds = ", ".join(map(c_class_name, args))
        raise TypeError(f"view() received an invalid combination of arguments - got ({kinds}), but "
                        "expected one of:\n * (torch.dtype dtype)\n * (tuple of ints size)\n"
                        ) from None
    check_sizes("view", "size", sizes)


@view(name="_view_dtype", node="ViewBackward1", expose=(), differentiable=False, leading=True,
      ref=lambda x, dtype: x.view(dtype.numpy),
      samples=lambda rng: iter(()))
def _view_dtype(input: Array, dtype: Dtype) -> Array:
    """The same bytes read as another dtype."""
    kind = dtype.numpy
    if kind.itemsize == input.itemsize:
        return input.view(kind)
    if input.ndim == 0:
        raise RuntimeError(
            f"self.dim() cannot be 0 to view {legacy_name(FROM_NUMPY[input.dtype])} as "
            f"{legacy_name(dtype)} (different element sizes)"
        )
    steps = get_strides(input)
    source, target = legacy_name(FROM_NUMPY[input.dtype]), legacy_name(dtype)
    names = f"to view {source} as {target} (different element sizes), but got"
    if steps[-1] != 1:
        raise RuntimeError(f"self.stride(-1) must be 1 {names} {steps[-1]}")
    shape = (*input.shape[:-1], input.shape[-1] * input.itemsize // kind.itemsize)
    if kind.itemsize > input.itemsize:
        _check_divisible(input, steps, kind.itemsize // input.itemsize, names)
    return input.view(kind) if input.size else np.empty(shape, kind)


def _check_divisible(input: Array, steps: Sequence[int], ratio: int, names: str) -> None:
    """Raise RuntimeError unless `ratio` divides the last size, the offset and the strides."""
    terms = [("size(-1)", input.shape[-1]), ("storage_offset()", get_offset(input))]
    terms += [(f"stride({i})", step) for i, step in enumerate(steps[:-1])]
    for place, result in terms:
        if result % ratio:
            raise RuntimeError(f"self.{place} must be divisible by {ratio} {names} {result}")


@repeats_operators()
@views_as(view_as_size)
@composite()
def reshape(input: Tensor, *shape_: Any, shape: Sequence[int] | None = None) -> Tensor:
    """Return the same elements in another shape, as a view if possible, else a copy.

    >>> torch.arange(4).reshape(2, 2)
    tensor([[0, 1],
            [2, 3]])
    """
    sizes = shape_ if shape is None else (shape,)
    if len(sizes) == 1 and not isinstance(sizes[0], int) and hasattr(sizes[0], "__len__"):
        refuse_array_shape(sizes[0], "shape")
        sizes = tuple(sizes[0])
    try:
        array = input._array
    except AttributeError as error:
        return answer_failed(error, "reshape", reshape, (input, *sizes))
    if array.flags.c_contiguous and sizes and sizes[0].__class__ is int:
        try:
            return view_method(input, *sizes)
        except TypeError:
            check_sizes("reshape", "shape", sizes)
            raise
    try:
        lengths = infer_shape(sizes, array.size)
    except TypeError:
        spread = len(shape_) > 1 or sizes == shape_
        check_sizes("reshape", "shape", sizes, spread)
        raise
    if array.flags.c_contiguous or view_as_shape(array, lengths) is not None:
        return view_as_size(input, lengths)
    if array.__class__ is np.ndarray:
        return copy_as_size(input, lengths)
    return view_as_size(input.contiguous(), lengths)


@composite(expose=("Tensor",))
def view_as(self: Tensor, other: Tensor) -> Tensor:
    """View the tensor in the shape of `other`.

    >>> torch.arange(4).view_as(torch.zeros(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    try:
        shape = other._array.shape
    except AttributeError as error:
        return answer_failed(error, "view_as", view_as, (self, other))
    return view_as_size(self, shape)


@composite(expose=("Tensor",))
def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """Reshape the tensor to the shape of `other`.

    >>> torch.arange(4).reshape_as(torch.zeros(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    try:
        shape = other._array.shape
    except AttributeError as error:
        return answer_failed(error, "reshape_as", reshape_as, (self, other))
    return reshape(self, shape)


@repeats_operators()
@views_as(view_as_size)
@composite()
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Merge the axes from start_dim to end_dim into one.

    >>> torch.zeros(2, 3, 4).flatten(1).shape
    torch.Size([2, 12])
    """
    try:
        shape = input._array.shape
    except AttributeError as error:
        return answer_failed(error, "flatten", flatten, (input, start_dim, end_dim))
    first, last = canonicalize_dim(start_dim, len(shape)), canonicalize_dim(end_dim, len(shape))
    if first > last:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if not shape:
        return reshape(input, (1,))
    if first == last:
        return input
    count = 1
    for n in shape[first : last + 1]:
        count *= n
    return reshape(input, (*shape[:first], count, *shape[last + 1 :]))


@views_as(view_as_size)
@composite(explains=True)
def ravel(input: Tensor) -> Tensor:
    """Flatten the tensor to one axis.

    >>> torch.ravel(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 2, 3, 4])
    """
    return reshape(input.contiguous(), (-1,))


@views_as(view_as_size)
@composite(explains=True)
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Split one axis into several.

    Args:
        dim (int): The axis to split; negative numbers count from the last.

    >>> torch.unflatten(torch.arange(6), 0, (2, -1))
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    shape = input._array.shape
    axis = canonicalize_dim(dim, len(shape))
    if not len(sizes):
        raise RuntimeError("unflatten: sizes must be non-empty")
    try:
        lengths = infer_shape(tuple(sizes), shape[axis])
    except RuntimeError:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} "
            f"({shape[axis]}) in the input tensor"
        ) from None
    return view_as_size(input, (*shape[:axis], *lengths, *shape[axis + 1 :]))
