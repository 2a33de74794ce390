"""Copy a state so that the continuing run cannot change it: for background writes."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ...tensor.tensor import Tensor
from ...tensor.tree import with_parts

_PLAIN = (int, float, complex, bool, str, bytes, type(None))


def copy_state(tree: Any, seen: dict[Any, Tensor] | None = None) -> Any:
    """Copy dicts, lists and tuples with their tensors and arrays.

    Tensors that share memory, such as tied weights, stay shared.

    >>> weights = {"a": torch.ones(2)}
    >>> kept = copy_state(weights)
    >>> _ = weights["a"].zero_()
    >>> kept
    {'a': tensor([1., 1.])}
    """
    if isinstance(tree, _PLAIN):
        return tree
    seen = {} if seen is None else seen
    if isinstance(tree, Tensor):
        array = tree._array
        memory = array.__array_interface__["data"][0] if array.size else id(array)
        key = (memory, array.shape, array.strides, array.dtype)
        if key not in seen:
            seen[key] = tree.detach().clone()
        return seen[key]
    if isinstance(tree, np.ndarray):
        return tree.copy()
    if isinstance(tree, (list, tuple, dict)):
        parts = tree.values() if isinstance(tree, dict) else tree
        return with_parts(tree, [copy_state(part, seen) for part in parts])
    return copy.deepcopy(tree)
