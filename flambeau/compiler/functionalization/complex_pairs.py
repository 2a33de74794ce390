"""Complex numbers in a graph: each is a pair of real ones, which lie next to each other in memory.

The graph's types are real. A window of complex elements becomes one of reals with an axis more, so
that views (`real`, `imag`, `view_as_real`) need no thought; operators on complex tensors are called
as they are, on the same memory.
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


def real_window(value: Value) -> Value:
    """A window of complex elements as one of pairs; others as they are."""
    part = _PARTS.get(value.dtype)
    if part is None:
        return value
    return replace(value, shape=(*value.shape, 2), strides=(*value.strides, part.itemsize),
                   dtype=part)


def as_pairs(array: np.ndarray) -> np.ndarray:
    """A complex array as one of pairs, on the same memory if it is packed; others as they are."""
    part = _PARTS.get(array.dtype)
    if part is None:
        return array
    packed: np.ndarray = np.array(array, order="C", copy=None)
    return packed.reshape(-1).view(part).reshape(*array.shape, 2)


def from_pairs(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The inverse of `as_pairs`, where `dtype` is complex."""
    if dtype not in _PARTS:
        return array
    packed: np.ndarray = np.array(array, order="C", copy=None)
    return packed.reshape(-1).view(dtype).reshape(array.shape[:-1])


def permute_window(node: Node, order: Sequence[int]) -> Node:
    """Permute the axes of a window; the last axis of pairs stays last."""
    return permute(node, (*order, *range(len(order), len(node.shape))))


def convert(node: Node, source: Value, target: Value) -> Node:
    """What a window sees when the elements of another are copied to it: a real number becomes a
    complex one, or the other way round."""
    if is_complex(source) == is_complex(target):
        return node
    if is_complex(target):
        real = reshape(node, (*node.shape, 1))
        return concat([real, broadcast_to(number(0, node.type), real.shape)], len(node.shape))
    rank = len(node.shape) - 1
    real = strided_slice(node, (0,) * (rank + 1), (1,) * (rank + 1), (*node.shape[:-1], 1))
    return reshape(real, node.shape[:-1])
