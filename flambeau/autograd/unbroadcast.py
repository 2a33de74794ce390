"""Undo broadcasting and promotion: give a cotangent its input's shape and dtype.

`Operator.restores` lists the inputs that need it, the tape stores that in the node, and the node
calls this after its vjps.
"""

from __future__ import annotations

import numpy as np

from ..tensor.dtypes import FROM_NUMPY
from ..tensor.tensor import Tensor


def unbroadcast(g: Tensor, shape: tuple[int, ...], dtype: np.dtype) -> Tensor:
    """Return a cotangent summed to its input's shape, in its input's dtype."""
    if g._array.dtype is not dtype and g._array.dtype != dtype:
        if g._array.dtype.kind == "c" and dtype.kind != "c":
            g = g.real
        g = g.to(FROM_NUMPY[dtype])
    return g if g._array.shape == shape else g.sum_to_size(shape)
