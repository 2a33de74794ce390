"""Shapes of indexed elements, and of the values that are assigned to them: which fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tensor.meta import MetaArray, meta_array, refuse_unknown_values
from ...tensor.tensor import Tensor
from ..core.operator import Positions


def is_broadcastable(source: Tensor, target: Tensor) -> bool:
    """Return whether a value fits its target; leading axes of length 1 may be dropped."""
    shape, axes = target._array.shape, source._array.shape
    more = max(len(axes) - len(shape), 0)
    common = axes[more:]
    return all(n == 1 for n in axes[:more]) and all(
        n in (1, m) for n, m in zip(common[::-1], shape[::-1], strict=False))


def check_leading_axes(target: np.ndarray, source: np.ndarray, rest: Any) -> None:
    """Raise ValueError if a value has extra leading axes longer than 1."""
    if rest is None and source.ndim > target.ndim:
        extra = source.shape[: source.ndim - target.ndim]
        if any(n != 1 for n in extra):
            raise ValueError(f"{list(source.shape)} has more axes than {list(target.shape)}")


def check_axes(target: np.ndarray, values: np.ndarray, where: tuple) -> None:
    """Raise RuntimeError if values have more axes than the elements they are written to."""
    if values.ndim > 1 and values.shape[0] == 1 and values.ndim > target[where].ndim:
        raise build_values_error(target, values, where)


def build_values_error(target: np.ndarray, values: np.ndarray, where: tuple) -> RuntimeError:
    """Return the error for values that do not broadcast to the elements at positions."""
    return RuntimeError(
        f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to "
        f"indexing result of shape {list(target[where].shape)}"
    )


def describe_mismatch(self: Tensor, basic: Any, rest: Any, source: Tensor) -> RuntimeError:
    """Return the error for a value that does not broadcast to the indexed elements."""
    target = self._array if basic is None else self._array[basic]
    values = strip_leading_ones(source._array)
    if rest is not None:
        return build_values_error(target, values, rest)
    shape, value_shape = target.shape, values.shape
    if len(value_shape) > len(shape):
        return RuntimeError(
            f"expand({source.type()}{{{list(value_shape)}}}, size={list(shape)}): the number of "
            f"sizes provided ({len(shape)}) must be greater or equal to the number of dimensions "
            f"in the tensor ({len(value_shape)})"
        )
    pairs = zip(shape[::-1], value_shape[::-1], strict=False)
    axis = next((i for i, (n, m) in enumerate(pairs, 1) if m not in (1, n)), 1)
    n, m = shape[-axis], value_shape[-axis]
    return RuntimeError(
        f"The expanded size of the tensor ({n}) must match the existing size ({m}) at "
        f"non-singleton dimension {len(shape) - axis}.  Target sizes: {list(shape)}.  Tensor "
        f"sizes: {list(value_shape)}"
    )


def check_broadcasts(target: np.ndarray, source: Tensor, where: tuple) -> None:
    """Raise RuntimeError if a value does not broadcast to the elements at positions."""
    values = strip_leading_ones(source._array)
    shape = target[where].shape
    fits = all(n in (1, m) for n, m in zip(values.shape[::-1], shape[::-1], strict=False))
    if values.ndim > len(shape) or not fits:
        raise build_values_error(target, values, where)


def drop_leading_axes(source: Tensor, target: Tensor) -> Tensor:
    """Return a value without the leading axes of length 1 that its target lacks."""
    more = source._array.ndim - target._array.ndim
    return source.reshape(source._array.shape[more:]) if more > 0 else source


def strip_leading_ones(values: np.ndarray) -> np.ndarray:
    """Drop the leading axes of length 1 of a value's array."""
    if values.ndim < 2 or values.shape[0] != 1:
        return values
    more = next((axis for axis, n in enumerate(values.shape) if n != 1), values.ndim)
    return values.reshape(values.shape[more:])


def drop_leading_ones(source: Tensor) -> Tensor:
    """Drop the leading axes of length 1 of a value, as PyTorch does in indexed assignment."""
    shape = source._array.shape
    more = next((axis for axis, n in enumerate(shape) if n != 1), len(shape))
    return source.reshape(shape[more:]) if more else source


def gather_nothing(input: MetaArray, positions: Positions) -> MetaArray:
    """The shape of elements at positions, where neither have values."""
    arrays = [i for i, w in enumerate(positions) if isinstance(w, np.ndarray)]
    if any(positions[i].dtype == np.bool_ for i in arrays):
        for i in arrays:
            refuse_unknown_values(positions[i], "nonzero.default")
        return meta_array(input.view(np.ndarray)[positions].shape, input.dtype)
    try:
        extents = np.broadcast_shapes(*[positions[i].shape for i in arrays])
    except ValueError:
        raise IndexError from None
    rest = [n for i, n in enumerate(input.shape) if i not in arrays]
    together = arrays[-1] - arrays[0] == len(arrays) - 1
    place = arrays[0] if together else 0
    return meta_array((*rest[:place], *extents, *rest[place:]), input.dtype)
