"""Store NumPy's numbers and arrays as Python numbers and tensors, which load from every
checkpoint with `weights_only`, and restore the arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ops.creation.interchange import from_numpy

_ARRAY = "a NumPy array"


def pack(tree: Any) -> Any:
    """Return dicts, lists and tuples without NumPy's types.

    >>> import numpy as np
    >>> pack({"best": np.float64(0.5), "counts": np.arange(3)})
    {'best': 0.5, 'counts': {'a NumPy array': tensor([0, 1, 2])}}
    """
    if isinstance(tree, np.generic):
        return tree.item()
    if isinstance(tree, np.ndarray):
        return {_ARRAY: from_numpy(tree.copy())} if tree.dtype.kind in "biufc" else tree
    if type(tree) is dict:
        return {key: pack(value) for key, value in tree.items()}
    if type(tree) is list or type(tree) is tuple:
        return type(tree)(map(pack, tree))
    return tree


def unpack(tree: Any) -> Any:
    """Restore the arrays of a packed state."""
    if type(tree) is dict:
        if tree.keys() == {_ARRAY}:
            return tree[_ARRAY].numpy().copy()
        return {key: unpack(value) for key, value in tree.items()}
    if type(tree) is list or type(tree) is tuple:
        return type(tree)(map(unpack, tree))
    return tree
