"""Views of a whole tensor: the same memory with another shape or order of axes.

`reshape`, `flatten` and `ravel` copy if no strides can express the new shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...autograd.tape import record
from ...native.foundation.user_frames import noted
from ...tensor.dtypes import FROM_NUMPY, as_dtype
from ...tensor.dtypes import dtype as Dtype
from ...tensor.layout import strides_of
from ...tensor.meta import MetaArray
from ...tensor.promotion import legacy_name
from ...tensor.storage import offset_of
from ...tensor.tensor import Tensor, view_of
from ...tensor.windows.batched_window import BatchedWindow
from ...tensor.windows.lazy_window import LazyWindow
from ..core.axes import canonical_dim, canonical_dims
from ...tensor.windows.batch import Batch
from ..core.errors import not_a_tensor
from ..core.operator import Array
from ..core.registry import composite, view, views_as
from ..core.sample_inputs import matrices
from ..creation.creation import public

_SEQUENCES = (tuple, list)


# -------------------------------------------------------------------------------- new shapes


def infer_shape(shape: Sequence[Any], count: int) -> tuple[int, ...]:
    """Return the shape with -1 inferred for `count` elements; RuntimeError if it does not fit."""
    lengths = [n if n.__class__ is int else n.__index__() for n in shape]
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
        return array.reshape(shape) if array.size == 0 else np.lib.stride_tricks.as_strided(
            array, shape, (0,) * len(shape), subok=True)
    try:
        return result.reshape(shape, copy=False)
    except ValueError:
        return None


@view(name="_view", node="ViewBackward0", expose=(), ref=lambda x, size: x.reshape(size),
      samples=matrices(((6, 2), (3, -1))))
def _view(input: Array, size: Sequence[int]) -> Array:
    """The same elements in another shape; RuntimeError when that needs a copy."""
    result = view_as_shape(input, infer_shape(size, input.size))
    if result is None:
        raise noted(RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one "
            "dimension spans across two contiguous subspaces). Use .reshape(...) instead."
        ), f"The view was to show {tuple(input.shape)} as {tuple(size)}.")
    return result


@_view.batch
def _(batch: Batch, input: Tensor, size: Sequence[int]) -> Tensor:
    return _view(batch.lower(input), (batch.size, *infer_shape(size, input.numel())))


@_view.vjp
def _(g: Tensor, input_shape: tuple[int, ...]) -> Tensor:
    return reshape(g, input_shape)


@views_as(_view)
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
                return _view(self, shape)  # reports shapes that do not fit
            if self._tracked:
                base: Any = self._base
                if self._requires_grad or base._node is not self._stamp:
                    record(_view.operator, result, (self, shape))
            return result
    dtype, *lengths = map(as_dtype, (dtype, *shape))
    shape = tuple(lengths)
    if size is not None:
        shape = (size,)
    if dtype is not None:
        shape = (dtype,)
    if len(shape) == 1:
        first = shape[0]
        if first.__class__ is Dtype:
            return _view_dtype(self, first)
        if first.__class__ is not int:
            shape = tuple(first) if hasattr(first, "__len__") else shape
    return _view(self, shape)


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
    steps = strides_of(input)
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
    places = [("size(-1)", input.shape[-1]), ("storage_offset()", offset_of(input))]
    places += [(f"stride({i})", step) for i, step in enumerate(steps[:-1])]
    for place, result in places:
        if result % ratio:
            raise RuntimeError(f"self.{place} must be divisible by {ratio} {names} {result}")


@views_as(_view)
@composite()
def reshape(input: Tensor, *shape_: Any, shape: Sequence[int] | None = None) -> Tensor:
    """Return the same elements in another shape, as a view if possible, else a copy.

    >>> torch.arange(4).reshape(2, 2)
    tensor([[0, 1],
            [2, 3]])
    """
    wanted = shape_ if shape is None else (shape,)
    if len(wanted) == 1 and not isinstance(wanted[0], int) and hasattr(wanted[0], "__len__"):
        wanted = tuple(wanted[0])
    try:
        array = input._array
    except AttributeError as error:
        raise not_a_tensor(error, "reshape", reshape, (input, *wanted)) from None
    if array.flags.c_contiguous and wanted and wanted[0].__class__ is int:
        return view_method(input, *wanted)
    lengths = infer_shape(wanted, array.size)
    if array.flags.c_contiguous or view_as_shape(array, lengths) is not None:
        return _view(input, lengths)
    return _view(input.contiguous(), lengths)


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
        raise not_a_tensor(error, "view_as", view_as, (self, other)) from None
    return _view(self, shape)


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
        raise not_a_tensor(error, "reshape_as", reshape_as, (self, other)) from None
    return reshape(self, shape)


@views_as(_view)
@composite()
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Merge the axes from start_dim to end_dim into one.

    >>> torch.zeros(2, 3, 4).flatten(1).shape
    torch.Size([2, 12])
    """
    try:
        shape = input._array.shape
    except AttributeError as error:
        raise not_a_tensor(error, "flatten", flatten, (input,)) from None
    first, last = canonical_dim(start_dim, len(shape)), canonical_dim(end_dim, len(shape))
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


@views_as(_view)
@composite(explains=True)
def ravel(input: Tensor) -> Tensor:
    """Flatten the tensor to one axis.

    >>> torch.ravel(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 2, 3, 4])
    """
    return reshape(input.contiguous(), (-1,))


@views_as(_view)
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
    at = canonical_dim(dim, len(shape))
    if not len(sizes):
        raise RuntimeError("unflatten: sizes must be non-empty")
    try:
        lengths = infer_shape(tuple(sizes), shape[at])
    except RuntimeError:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} "
            f"({shape[at]}) in the input tensor"
        ) from None
    return _view(input, (*shape[:at], *lengths, *shape[at + 1 :]))


# ------------------------------------------------------------------------------ orders of axes


@view(ref=lambda x, dim0, dim1: np.swapaxes(x, dim0, dim1),
      samples=matrices(((3, 4), 0, 1), ((2, 3, 4), -1, 0)),
      aliases=("swapaxes", "swapdims"))
def transpose(input: Array, dim0: int, dim1: int) -> Array:
    """Return a view with two axes swapped.

    >>> x = torch.tensor([[1, 2], [3, 4]])
    >>> torch.transpose(x, 0, 1)
    tensor([[1, 3],
            [2, 4]])
    """
    n = input.ndim
    if n == 2 and dim0 + dim1 == 1 and dim0 >= 0 and dim1 >= 0:
        return input.T
    a, b = canonical_dim(dim0, n), canonical_dim(dim1, n)
    return input.swapaxes(a, b) if n else input.view()


@transpose.batch
def _(batch: Batch, input: Tensor, dim0: int, dim1: int) -> Tensor:
    n = input.dim()
    a, b = canonical_dim(dim0, n), canonical_dim(dim1, n)
    below = batch.lower(input)
    return transpose(below, a + 1, b + 1) if n else _view(below, below.shape)


@transpose.vjp
def _(g: Tensor, dim0: int, dim1: int) -> Tensor:
    return g.transpose(dim0, dim1)


@view(ref=lambda x: x.T, samples=matrices(((3, 4),), ((5,),), ((),)))
def t(input: Array) -> Array:
    """Transpose a matrix; vectors are returned unchanged.

    >>> torch.t(torch.tensor([[1, 2, 3]]))
    tensor([[1],
            [2],
            [3]])
    """
    if input.ndim > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D"
        )
    return input.T


@t.batch
def _(batch: Batch, input: Tensor) -> Tensor:
    n = input.dim()
    if n > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {n}D")
    below = batch.lower(input)
    return transpose(below, 1, 2) if n == 2 else _view(below, below.shape)


@t.vjp
def _(g: Tensor) -> Tensor:
    return g.t()


@view(ref=lambda x, *dims: x.transpose(dims),
      samples=matrices(((3, 4), 1, 0), ((2, 3, 4), 2, 0, 1)))
def permute(input: Array, *dims: Any) -> Array:
    """Return a view with the axes reordered.

    >>> torch.zeros(2, 3, 5).permute(2, 0, 1).shape
    torch.Size([5, 2, 3])
    """
    if len(dims) != input.ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the "
            f"length of the desired ordering of dimensions i.e. input.dim() = {input.ndim} is not "
            f"equal to len(dims) = {len(dims)}"
        )
    order = [canonical_dim(d, input.ndim) for d in dims]
    if len(set(order)) != len(order):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return input.transpose(order)


@permute.batch
def _(batch: Batch, input: Tensor, dims: Sequence[int]) -> Tensor:
    n = input.dim()
    return permute(batch.lower(input), 0, *[canonical_dim(d, n) + 1 for d in dims])


@permute.vjp
def _(g: Tensor, dims: Sequence[int]) -> Tensor:
    n = len(dims)
    inverse = [0] * n
    for i, d in enumerate(dims):
        inverse[d % n] = i
    return g.permute(inverse)


@composite(aliases=("moveaxis",), explains=True)
def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Move the axes `source` to the positions `destination`; the others keep their order.

    >>> torch.movedim(torch.zeros(2, 3, 4), 0, -1).shape
    torch.Size([3, 4, 2])
    """
    n = input._array.ndim
    sources = [source] if isinstance(source, int) else list(source)
    targets = [destination] if isinstance(destination, int) else list(destination)
    if len(sources) != len(targets):
        raise RuntimeError(
            "movedim: Invalid source or destination dims: source "
            f"({sources} dims) should contain the same number of dims as destination ({targets} "
            "dims)"
        )
    a, b = [canonical_dim(d, n) for d in sources], [canonical_dim(d, n) for d in targets]
    for argument, dims, axes in (("source", a, sources), ("destination", b, targets)):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{argument}` ({axes})")
    rest = iter(i for i in range(n) if i not in a)
    placed = dict(zip(b, a, strict=True))
    return permute(input, [placed[i] if i in placed else next(rest) for i in range(n)])


@view(name="squeeze_dims", node="SqueezeBackward1", expose=(),
      ref=lambda x, dims: np.squeeze(x, dims), samples=matrices(((3, 1, 4, 1), (1, 3))))
def _squeeze(input: Array, dims: int | Sequence[int]) -> Array:
    """The given axes of length 1 left out."""
    return input.squeeze(dims if isinstance(dims, int) else tuple(dims))


@_squeeze.batch
def _(batch: Batch, input: Tensor, dims: int | Sequence[int]) -> Tensor:
    n = input.dim()
    chosen = (dims,) if isinstance(dims, int) else dims
    return _squeeze(batch.lower(input), tuple([canonical_dim(d, n) + 1 for d in chosen]))


@_squeeze.vjp
def _(g: Tensor, input_shape: tuple[int, ...]) -> Tensor:
    return reshape(g, input_shape)


@composite(numpy_names=True)
def squeeze(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Return a view without axes of length 1: all of them, or only those listed in `dim`.

    Args:
        dim: The axes to leave out, where their length is 1. None: all such axes.

    >>> torch.squeeze(torch.zeros(1, 2, 1)).shape, torch.squeeze(torch.zeros(1, 2, 1), 0).shape
    (torch.Size([2]), torch.Size([2, 1]))
    """
    shape = input._array.shape
    wanted = canonical_dims(dim, len(shape)) if dim != () else ()
    return _squeeze(input, tuple(d for d in wanted if shape and shape[d] == 1))


@view(ref=np.expand_dims, samples=matrices(((3, 4), 1), ((3,), -1), ((), 0)))
def unsqueeze(input: Array, dim: int) -> Array:
    """Insert an axis of length 1 at `dim`.

    Args:
        dim (int): The place of the new axis; negative numbers count from the end.

    >>> torch.unsqueeze(torch.tensor([1, 2]), 1)
    tensor([[1],
            [2]])
    """
    at = canonical_dim(dim, input.ndim + 1)
    y = input.reshape((*input.shape[:at], 1, *input.shape[at:]))
    if y.__class__ is not Array or not y.size or y.strides[at] == _stride_before(input, at):
        return y
    strides = (*input.strides[:at], _stride_before(input, at), *input.strides[at:])
    return np.lib.stride_tricks.as_strided(y, y.shape, strides)


def _stride_before(input: Array, at: int) -> int:
    """Return the stride in bytes of a new axis before axis `at`: the extent of that axis."""
    return input.shape[at] * input.strides[at] if at < input.ndim else input.itemsize


@unsqueeze.batch
def _(batch: Batch, input: Tensor, dim: int) -> Tensor:
    return unsqueeze(batch.lower(input), canonical_dim(dim, input.dim() + 1) + 1)


@unsqueeze.vjp
def _(g: Tensor, dim: int) -> Tensor:
    return g.squeeze(dim)


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
    lengths, strides = [], []
    for i, n in enumerate(size):
        have, stride = (shape[i - new], input.strides[i - new]) if i >= new else (1, 0)
        lengths.append(_expand_length(n, have, i, i < new, size, shape))
        strides.append(stride if have == lengths[-1] else 0)
    return np.lib.stride_tricks.as_strided(input, lengths, strides) if 0 in shape else \
        _set_strides(input, lengths, strides)


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


def _set_strides(array: Any, shape: Sequence[int], strides: Sequence[int]) -> Any:
    """Return a view that starts where `array` does, with this shape and strides in bytes."""
    if array.__class__ is LazyWindow:
        return array.like(_set_strides(array.memory, shape, strides))
    if array.flags.c_contiguous and array.dtype.kind != "V":  # a tenth of as_strided's time
        return np.ndarray(shape, array.dtype, array, 0, strides)
    return np.lib.stride_tricks.as_strided(array, shape, strides)


@expand.batch
def _(batch: Batch, input: Tensor, size: tuple[int, ...], implicit: bool) -> Tensor:
    new = len(size) - input.dim()
    below = batch.lower(input)
    if new > 0:
        below = below[(slice(None), *[None] * new)]
    return expand(below, batch.size, *size)


@expand.vjp
def _(g: Tensor, input_shape: tuple[int, ...]) -> Tensor:
    return g.sum_to_size(input_shape)


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
        raise not_a_tensor(error, "expand_as", expand_as, (self, other)) from None
    return expand(self, *shape)


@composite()
def broadcast_to(input: Tensor, size: int | Sequence[int]) -> Tensor:
    """Broadcast the tensor to a shape, without copying.

    >>> torch.broadcast_to(torch.tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    return expand(input, *(size if isinstance(size, (list, tuple)) else (size,)))


# ---------------------------------------------------------------------------------- attributes


def _transpose(self: Tensor) -> Tensor:
    """Reverse all axes; for a matrix, transpose it.

    >>> torch.zeros(2, 3).T.shape
    torch.Size([3, 2])
    """
    n = self._array.ndim
    return t(self) if n <= 2 else permute(self, *range(n - 1, -1, -1))


def _matrix_transposed(self: Tensor) -> Tensor:
    """Swap the last two axes.

    >>> torch.zeros(5, 2, 3).mT.shape
    torch.Size([5, 3, 2])
    """
    if self._array.ndim < 2:
        raise RuntimeError(
            "tensor.mT is only supported on matrices or batches of matrices. Got "
            f"{self._array.ndim}-D tensor."
        )
    return transpose(self, -2, -1)


def _hermitian(self: Tensor) -> Tensor:
    """Transpose and conjugate a matrix.

    >>> torch.tensor([[1 + 2j, 3j]]).H
    tensor([[1.-2.j],
            [0.-3.j]])
    """
    if self._array.ndim not in (0, 2):
        raise RuntimeError(
            "tensor.H is only supported on matrices (2-D tensors). Got "
            f"{self._array.ndim}-D tensor."
        )
    return t(self).conj() if self._array.dtype.kind == "c" else t(self)


@composite(explains=True)
def adjoint(input: Tensor) -> Tensor:
    """Swap the last two axes and conjugate.

    >>> torch.adjoint(torch.tensor([[1 + 2j, 3j]]))
    tensor([[1.-2.j],
            [0.-3.j]])
    """
    y = _matrix_transposed(input)
    return y.conj() if y._array.dtype.kind == "c" else y


_methods: Any = Tensor
_methods.T, _methods.mT = property(_transpose), property(_matrix_transposed)
_methods.H, _methods.mH = property(_hermitian), property(adjoint)
