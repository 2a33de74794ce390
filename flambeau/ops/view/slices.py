"""Slices: views of a part of a tensor along some axes: select, slice, narrow, diagonal; and their
reverses, which put a cotangent into zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...tensor.tensor import Tensor
from ...tensor.windows.batch import Batch
from ...tensor.windows.strided_views import compute_extent_bytes, set_strides
from ..core.axes import canonicalize_dim
from ..core.operator import Array
from ..core.output_layout import Layout
from ..core.registry import composite, opaque, view
from ..core.sample_inputs import matrices


@view(ref=lambda x, dim, index: np.take(x, index, dim),
      samples=matrices(((3, 4), 0, 1), ((3, 4), -1, -2)))
def select(input: Array, dim: int, index: int) -> Array:
    """Return a view at one index of an axis, which is removed.

    >>> torch.select(torch.tensor([[1, 2], [3, 4]]), 1, 0)
    tensor([1, 3])
    """
    axis = canonicalize_dim(dim, input.ndim)
    if not input.ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    check_selected(index, input.shape, axis)
    index = index.__index__()
    return input[(slice(None),) * axis + (index, Ellipsis)]


def check_selected(index: int, shape: Sequence[int], axis: int) -> None:
    """Raise IndexError if an axis does not have this index."""
    if not -shape[axis] <= index < shape[axis]:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(shape)} "
                         f"at dimension {axis}")


@select.vjp
def _(g: Tensor, input_shape: tuple[int, ...], dim: int, index: int) -> Tensor:
    return place_in_window(g, input_shape, (slice(None),) * (dim % len(input_shape)) + (index,))


def _find_last_step(input: Tensor, index: Any) -> int:
    """Return which of select, slice, unsqueeze and alias PyTorch does last for an index."""
    items = index if index.__class__ is tuple else (index,)
    if items[-1] is Ellipsis:  # which stands for the axes that the index leaves out
        items = items[:-1]
    if len(items) == 1 and items[0].__class__ is slice:
        return 1
    axis, last = 0, 3  # several slices that take everything are an alias
    for i, item in enumerate(items):
        if item is None:
            last = 2
        elif item is Ellipsis:
            axis = input._array.ndim - sum(x is not None for x in items[i + 1 :])
        elif item.__class__ is slice:
            n = input._array.shape[axis]
            axis, last = axis + 1, last if item.indices(n) == (0, n, 1) else 1
        else:
            axis, last = axis + 1, 0
    return last


@view(name="_slice", expose=(), overload=_find_last_step,
      node=("SelectBackward0", "SliceBackward0", "UnsqueezeBackward0", "AliasBackward0"),
      ref=lambda x, index: x[index],
      samples=lambda rng: iter([((rng.normal(size=(4, 5)), (slice(1, 3), None, Ellipsis, 2)), {})]))
def basic_index(input: Array, index: Tensor) -> Array:
    """Return a view selected by integers, slices, None and an ellipsis."""
    return view_window(input, index)


def view_window(array: Array, index: Any) -> Array:
    """Return the view with PyTorch's strides: a new axis extends over the axis after it, before
    that is sliced. NumPy gives new axes the stride 0."""
    items = index if index.__class__ is tuple else (index,)
    # Without an ellipsis NumPy returns a number instead of a view of one element.
    window = array[index] if Ellipsis in items else array[(*items, Ellipsis)]
    if None not in items or window.__class__ is not Array or not window.size:
        return window
    strides, axis, place = list(window.strides), 0, 0
    for item in items:
        if item is None:
            strides[place] = compute_extent_bytes(array, axis)
            place += 1
        elif item is Ellipsis:
            skipped = array.ndim - sum(i is not None and i is not Ellipsis for i in items)
            axis, place = axis + skipped, place + skipped
        else:
            axis, place = axis + 1, place + (item.__class__ is slice)
    return set_strides(window, window.shape, strides)


@basic_index.batch
def _(batch: Batch, input: Tensor, index: Any) -> Tensor:
    return basic_index(batch.lower(input), _index_behind_batch(index))


def _index_behind_batch(index: Any) -> tuple:
    """A basic index of one example as one of all."""
    return (slice(None), *(index if isinstance(index, tuple) else (index,)))


@basic_index.vjp
def _(g: Tensor, input_shape: tuple[int, ...], index: Tensor) -> Tensor:
    return place_in_window(g, input_shape, index)


@opaque(linear_in="g", layout=Layout.FREE, name="_placed", expose=(), ref=None, samples=None)
def place_in_window(g: Array, shape: Any, index: Tensor) -> Array:
    """Zero of a shape, with `g` in the window that a basic index gives."""
    result = np.zeros(shape, g.dtype)
    result[index] = g
    return result


@place_in_window.batch
def _(batch: Batch, g: Tensor, shape: tuple[int, ...], index: Any) -> Tensor:
    return place_in_window(batch.lower(g), (batch.size, *shape), _index_behind_batch(index))


@place_in_window.vjp
def _(g: Tensor, index: Tensor) -> Tensor:
    return basic_index(g, index)


@composite(explains=True)
def narrow(input: Tensor, dim: int, start: Tensor | int, length: int) -> Tensor:
    """Return a view of `length` indices along an axis, beginning at `start`.

    RuntimeError if they extend beyond the axis.

    >>> torch.narrow(torch.arange(5), 0, 1, 3)
    tensor([1, 2, 3])
    """
    shape = input._array.shape
    if not shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    axis = canonicalize_dim(dim, len(shape))
    if isinstance(start, Tensor) and (start._array.ndim or start._array.dtype.kind not in "iu"):
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    start = int(start)
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    start = canonicalize_start(start, length, shape[axis])
    return basic_index(input, (slice(None),) * axis + (slice(start, start + length), Ellipsis))


def canonicalize_start(start: int, length: int, n: int) -> int:
    """Return where a range of an axis of n elements starts, from the front; raise if it does not
    fit."""
    if not -n <= start <= n:
        raise IndexError(
            f"start out of range (expected to be in range of [-{n}, {n}], but got {start})")
    start = start + n if start < 0 else start
    if start + length > n:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    return start


@view(ref=lambda x, offset=0, dim1=0, dim2=1: np.diagonal(x, offset, dim1, dim2),
      samples=matrices(((3, 4),), ((3, 4), 1), ((2, 3, 4), -1, 1, 2)))
def diagonal(input: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """Return a view of a diagonal of two axes, placed on a new last axis.

    Writing to the view writes to the original tensor.

    >>> torch.diagonal(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    a, b = canonicalize_dim(dim1, input.ndim), canonicalize_dim(dim2, input.ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    result = input.diagonal(offset, a, b)
    result.flags.writeable = input.flags.writeable
    return result


@diagonal.vjp
def _(g: Tensor, input_shape: tuple[int, ...], offset: int, dim1: int, dim2: int) -> Tensor:
    return spread_on_diagonal(g, input_shape, offset, dim1, dim2)


@opaque(linear_in="g", layout=Layout.FREE, name="_on_diagonal", expose=(), ref=None, samples=None)
def spread_on_diagonal(g: Array, shape: Any, offset: int, dim1: int, dim2: int) -> Array:
    """Zero of a shape, with `g` on a diagonal."""
    return on_diagonal(g, shape, offset, dim1, dim2)


def on_diagonal(
    values: np.ndarray, shape: Sequence[int], offset: int, dim1: int, dim2: int
) -> np.ndarray:
    """Return zeros of a shape with values on a diagonal, through NumPy's read-only view."""
    result = np.zeros(shape, values.dtype)
    target = result.diagonal(offset, dim1, dim2)
    target.flags.writeable = True
    target[...] = values
    return result


@spread_on_diagonal.vjp
def _(g: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    return g.diagonal(offset, dim1, dim2)
