"""Copy a state for a background write, while the run continues."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ...tensor.tensor import Tensor
from ...tensor.tree import with_parts

_PLAIN = (int, float, complex, bool, str, bytes, type(None))


def copy_state(tree: Any, copies: dict[Any, Tensor] | None = None) -> Any:
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
    copies = {} if copies is None else copies
    if isinstance(tree, Tensor):
        array = tree._array
        memory = array.__array_interface__["data"][0] if array.size else id(array)
        key = (memory, array.shape, array.strides, array.dtype)
        if key not in copies:
            copies[key] = tree.detach().clone()
        return copies[key]
    if isinstance(tree, np.ndarray):
        return tree.copy()
    if isinstance(tree, (list, tuple, dict)):
        children = tree.values() if isinstance(tree, dict) else tree
        return with_parts(tree, [copy_state(child, copies) for child in children])
    return copy.deepcopy(tree)
