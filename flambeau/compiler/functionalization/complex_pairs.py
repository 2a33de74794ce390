"""Complex numbers in a graph: each is a pair of adjacent reals in memory.

The graph's types are real. A complex window becomes a real one with one more axis, so views
(`real`, `imag`, `view_as_real`) need no special cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..ir.graph import Node, concat, permute, reshape, strided_slice
from ..lowering.numpy.node_builders import broadcast_to, number
from ..trace.trace import Value

_PARTS: dict[np.dtype, np.dtype] = {
    np.dtype(np.complex64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.float64),
}


def is_complex(value: Value) -> bool:
    """Whether a window has complex elements."""
    return value.dtype in _PARTS


def view_as_pairs_window(value: Value) -> Value:
    """Return a complex window as a window of pairs; others unchanged."""
    part = _PARTS.get(value.dtype)
    if part is None:
        return value
    return replace(value, shape=(*value.shape, 2), strides=(*value.strides, part.itemsize),
                   dtype=part)


def as_pairs(array: np.ndarray) -> np.ndarray:
    """Return a complex array as pairs, on the same memory if contiguous; others unchanged."""
    part = _PARTS.get(array.dtype)
    if part is None:
        return array
    packed: np.ndarray = np.array(array, order="C", copy=None)
    return packed.reshape(-1).view(part).reshape(*array.shape, 2)


def convert_from_pairs(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Invert `as_pairs` if `dtype` is complex."""
    if dtype not in _PARTS:
        return array
    packed: np.ndarray = np.array(array, order="C", copy=None)
    return packed.reshape(-1).view(dtype).reshape(array.shape[:-1])


def permute_window(node: Node, order: Sequence[int]) -> Node:
    """Permute the axes of a window; the last axis of pairs stays last."""
    return permute(node, (*order, *range(len(order), len(node.shape))))


def convert(node: Node, source: Value, target: Value) -> Node:
    """Convert elements for a copy from one window to another: real to complex or the reverse."""
    if is_complex(source) == is_complex(target):
        return node
    if is_complex(target):
        real = reshape(node, (*node.shape, 1))
        return concat([real, broadcast_to(number(0, node.type), real.shape)], len(node.shape))
    rank = len(node.shape) - 1
    real = strided_slice(node, (0,) * (rank + 1), (1,) * (rank + 1), (*node.shape[:-1], 1))
    return reshape(real, node.shape[:-1])
