"""Undoing broadcast and promotion: a cotangent gets its input's shape and dtype.

The operator's declaration says which inputs need it (`Operator.restores`), the tape notes that at
the node, and the node calls this after its vjps.
"""

from __future__ import annotations

import numpy as np

from ..tensor.dtypes import FROM_NUMPY
from ..tensor.tensor import Tensor


def unbroadcast(g: Tensor, shape: tuple[int, ...], dtype: np.dtype) -> Tensor:
    """A cotangent summed to the shape of its input, and in its dtype."""
    if g._array.dtype is not dtype and g._array.dtype != dtype:
        if g._array.dtype.kind == "c" and dtype.kind != "c":
            g = g.real
        g = g.to(FROM_NUMPY[dtype])
    return g if g._array.shape == shape else g.sum_to_size(shape)
