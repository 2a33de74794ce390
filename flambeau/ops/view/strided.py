"""Views by strides: as_strided, and unfold's sliding windows along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...tensor.storage import get_offset, get_storage, window
from ...tensor.tensor import Tensor
from ...tensor.windows.batch import Batch, get_elements
from ...tensor.windows.lazy_window import LazyWindow
from ...tensor.windows.strided_views import set_strides
from ..core.axes import canonicalize_dim
from ..core.operator import Array
from ..core.output_layout import Layout
from ..core.registry import composite, opaque, view
from ..core.sample_inputs import matrices


@view(expose=("Tensor",), samples=matrices(((5,), 0, 3, 1), ((3, 7), -1, 3, 2)),
      ref=lambda x, axis, size, step: np.lib.stride_tricks.sliding_window_view(
          x, size, axis)[..., ::step, :])
def unfold(input: Array, dimension: int, size: int, step: int) -> Array:
    """Extract windows of `size` along an axis, every `step`, into a new last axis.

    Args:
        size (int): The length of a window.

    >>> torch.arange(5).unfold(0, 3, 2)
    tensor([[0, 1, 2],
            [2, 3, 4]])
    """
    axis = canonicalize_dim(dimension, input.ndim)
    length = input.shape[axis] if input.ndim else 1
    if size < 0 or step <= 0:
        raise RuntimeError(f"size is {size} but must be >= 0, step is {step} but must be > 0")
    if size > length:
        raise RuntimeError(
            f"maximum size for tensor at dimension {axis} is {length} but size is {size}"
        )
    if not input.ndim:
        return input.reshape(1)[:size]
    shape, strides = list(input.shape), list(input.strides)
    stride = strides[axis]
    shape[axis], strides[axis] = (length - size) // step + 1, stride * step
    return set_strides(input, [*shape, size], [*strides, stride])


@unfold.vjp
def _(g: Tensor, input_shape: tuple[int, ...], dimension: int, size: int, step: int) -> Tensor:
    return fold_windows(g, input_shape, dimension, size, step)


@unfold.batch
def _(batch: Batch, input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    below, rank = batch.lower(input), input.dim()
    axis = canonicalize_dim(dimension, rank) + 1
    if rank:
        return unfold(below, axis, size, step)
    return unfold(below.unsqueeze(1), 1, size, step).reshape(batch.size, size)  # one number each


@opaque(linear_in="g", layout=Layout.FREE, name="_folded", expose=(), ref=None, samples=None)
def fold_windows(g: Array, shape: Any, dimension: int, size: Any, step: int) -> Array:
    """The adjoint of `unfold`: add the windows to their source elements."""
    if not shape:
        return g.reshape(()) if g.size else np.zeros((), g.dtype)
    axis = dimension % len(shape)
    result = np.zeros(shape, g.dtype)
    target, source = np.moveaxis(result, axis, 0), np.moveaxis(g, axis, 0)
    count = source.shape[0]
    if count * step < size:
        for i in range(count):
            target[i * step : i * step + size] += np.moveaxis(source[i], -1, 0)
        return result
    # Parts of windows that do not overlap, all at once; the last ones first, as PyTorch adds.
    length, *lengths = target.strides
    for start in reversed(range(0, size, step)):
        part = source[..., start : start + step]
        shape = (count, part.shape[-1], *target.shape[1:])
        into = set_strides(target[start:], shape, (length * step, length, *lengths))
        into += np.moveaxis(part, -1, 1)
    return result


@fold_windows.batch
def _(batch: Batch, g: Tensor, shape: Any, dimension: int, size: Any, step: int) -> Tensor:
    below = batch.lower(g)
    if not shape:
        return below.reshape(batch.size) if size else below.new_zeros(batch.size)
    axis = canonicalize_dim(dimension, len(shape)) + 1
    return fold_windows(below, (batch.size, *shape), axis, size, step)


@fold_windows.vjp
def _(g: Tensor, dimension: int, size: Any, step: int) -> Tensor:
    return g.unfold(dimension, size, step)


@view(name="_as_strided", node="AsStridedBackward0", expose=(), ref=None, samples=None)
def _as_strided(
    input: Array, size: Sequence[int], stride: Sequence[int], offset: int, geometry: Any
) -> Array:
    """Return a view of the tensor's storage; `geometry` is the input's own (strides, offset)."""
    result = window(get_storage(input), input.dtype, offset, size, stride)
    return input.like(result) if isinstance(input, LazyWindow) else result


@_as_strided.batch
def _(
    batch: Batch, input: Tensor, size: Sequence[int], stride: Sequence[int], offset: int,
    geometry: Any
) -> Tensor:
    strides, start = geometry  # of the first example
    last = _find_last(input.shape, strides, start)
    last_of_result = _find_last(size, stride, offset)
    if 0 not in size and (offset < start or last_of_result > last):
        raise RuntimeError(
            f"result = tensor.as_strided({list(size)}, {list(stride)}, {offset}) can access memory "
            f"outside of `tensor`. `result` can access some memory in range [{offset}, "
            f"{last_of_result + 1}], but `tensor` can only access some memory in range [{start}, "
            f"{last + 1}]. This is not supported inside of vmap, please try to rewrite the "
            "`as_strided` call as a sequence of PyTorch view operations")
    below = batch.lower(input)
    return as_strided(below, (batch.size, *size), (below.stride(0), *stride), offset)


def _find_last(shape: Sequence[int], strides: Sequence[int], start: int) -> int:
    """Return the position of the last element in memory."""
    return start + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


@_as_strided.vjp
def _(
    g: Tensor, input_shape: tuple[int, ...], size: Sequence[int], stride: Sequence[int],
    offset: int, geometry: Any
) -> Tensor:
    return _strided_adjoint(g, input_shape, *geometry, size, stride, offset)


@composite()
def as_strided(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """View the tensor's storage with a given shape, strides and offset, counted in elements.

    Args:
        size (tuple of ints): The shape of the result.

    >>> torch.arange(4).as_strided((2, 2), (1, 2))
    tensor([[0, 2],
            [1, 3]])
    """
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if any(s < 0 for s in stride):
        raise RuntimeError(
            "as_strided: Negative strides are not supported at the moment, got strides: "
            f"{list(stride)}"
        )
    if storage_offset is not None and storage_offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {storage_offset}")
    start = get_offset(get_elements(input))
    offset = start if storage_offset is None else storage_offset
    return _as_strided(input, tuple(size), tuple(stride), offset, (input.stride(), start))


class _Memory(NamedTuple):
    """The memory spanned by an input and its window, from the first element on."""

    elements: int
    of_input: np.ndarray  # the position of each input element
    of_window: np.ndarray

    @property
    def sharers(self) -> np.ndarray:
        """How many of the input's elements lie in the place of each."""
        counts = np.bincount(self.of_input.reshape(-1), minlength=self.elements)
        result: np.ndarray = counts[self.of_input]
        return result


def _span(
    shape: Any, strides: Any, start: int, size: Any, stride: Any, offset: int
) -> _Memory:
    low = min(start, offset)
    of_input, of_window = _compute_positions(shape, strides, start - low), _compute_positions(
        size, stride, offset - low
    )
    last = [int(positions.max()) for positions in (of_input, of_window) if positions.size]
    return _Memory(1 + max(last, default=0), of_input, of_window)


@opaque(linear_in="g",
        layout=Layout.FREE, name="_strided_adjoint", expose=(), ref=None, samples=None)
def _strided_adjoint(
    g: Array, shape: Any, strides: Any, start: Any, size: Any, stride: Any, offset: Any
) -> Array:
    """The cotangent of `as_strided`, with overlapping windows added up.

    Input elements that share a memory position share their sum.
    """
    memory = _span(shape, strides, start, size, stride, offset)
    total = np.zeros(memory.elements, g.dtype)
    np.add.at(total, memory.of_window.reshape(-1), g.reshape(-1))
    return (total[memory.of_input] / memory.sharers).astype(g.dtype)


@_strided_adjoint.vjp
def _(
    g: Tensor, shape: Any, strides: Any, start: Any, size: Any, stride: Any, offset: Any
) -> Tensor:
    return _read_window(g, shape, strides, start, size, stride, offset)


@opaque(linear_in="g",
        layout=Layout.FREE, name="_strided_window", expose=(), ref=None, samples=None)
def _read_window(
    g: Array, shape: Any, strides: Any, start: Any, size: Any, stride: Any, offset: Any
) -> Array:
    """The transpose of `_strided_adjoint`."""
    memory = _span(shape, strides, start, size, stride, offset)
    total = np.zeros(memory.elements, g.dtype)
    np.add.at(total, memory.of_input.reshape(-1), (g / memory.sharers).reshape(-1))
    return total[memory.of_window].astype(g.dtype, copy=False)


@_read_window.vjp
def _(
    g: Tensor, shape: Any, strides: Any, start: Any, size: Any, stride: Any, offset: Any
) -> Tensor:
    return _strided_adjoint(g, shape, strides, start, size, stride, offset)


def _compute_positions(shape: Sequence[int], strides: Sequence[int], offset: int) -> np.ndarray:
    positions = np.full((), offset, np.int64)
    for n, s in zip(shape, strides, strict=True):
        positions = positions[..., None] + np.arange(n) * s
    return positions


@composite(expose=("aten",))
def _new_zeros_with_same_feature_meta(
    self: Tensor, other: Tensor, *, self_num_batch_dims: int = 0
) -> Tensor:
    """Return zeros laid out like `other`, after the leading axes of `self`, for tangents.

    >>> x = torch.ones(2, 3).t()
    >>> torch.ops.aten._new_zeros_with_same_feature_meta(x, x).stride()
    (1, 3)
    """
    step = other.untyped_storage().nbytes() // other._array.itemsize
    sizes, strides = [*other.shape], [*other.stride()]
    for size in reversed(self.shape[:self_num_batch_dims]):
        sizes.insert(0, size)
        strides.insert(0, step)
        step *= size
    return other.new_zeros(step).as_strided(sizes, strides, other.storage_offset())
