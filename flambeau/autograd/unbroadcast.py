"""Undo broadcasting and promotion: give a cotangent its input's shape and dtype.

`Operator.restores` lists the inputs that need it, the tape stores that in the node, and the node
calls this after its vjps.
"""

from __future__ import annotations

import functools

import numpy as np

from ..native.target.eager_costs import MAX_CACHED_LAYOUTS
from ..tensor.dtypes import FROM_NUMPY
from ..tensor.tensor import Tensor


def unbroadcast(g: Tensor, shape: tuple[int, ...], dtype: np.dtype) -> Tensor:
    """Return a cotangent summed to its input's shape, in its input's dtype."""
    if g._array.dtype is not dtype and g._array.dtype != dtype:
        if g._array.dtype.kind == "c" and dtype.kind != "c":
            g = g.real
        g = g.to(FROM_NUMPY[dtype])
    return sum_to_shape(g, shape)


def sum_to_shape(g: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return a cotangent summed over the axes along which an input of this shape was repeated."""
    extents = g._array.shape
    if extents == shape:
        return g
    if g.__class__ is not Tensor:  # its class sees the operator
        return g.sum_to_size(shape)
    axes = _find_cached_axes(extents, shape)
    if not axes or len(axes) == len(extents) - len(shape):  # only new axes: they disappear
        return g.sum(axes) if shape else g.sum()
    y = g.sum(axes, True)
    return y if len(extents) == len(shape) else y.reshape(shape)


def find_repeated_axes(extents: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes along which a tensor was repeated, from its shape and the result's."""
    new = len(extents) - len(shape)
    repeated = [i + new for i, n in enumerate(shape) if n == 1 and extents[i + new] != 1]
    return (*range(new), *repeated)


# Arrays' shapes are plain ints; sizes of exported programs note what they are compared with.
_find_cached_axes = functools.lru_cache(MAX_CACHED_LAYOUTS)(find_repeated_axes)
