"""The adjoint of resampling: interpolation along axes, nearest neighbours included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..numpy.node_builders import cast, compute_type
from ..numpy.symbolic_array import Symbol, wrap_node
from ..registry import lowering


@lowering("_resampled_adjoint")
def _resampled_adjoint(g: Symbol, shape: Sequence[int], taps: Sequence[Any]) -> Symbol:
    """Multiply by a matrix along each axis, or sum repeated elements for nearest upsampling."""
    y = wrap_node(cast(g.node, compute_type(g.node.type)))
    for t in reversed(taps):
        n, out = shape[t.axis], t.indices.shape[1]
        repeated = np.arange(n).repeat(out // n) if out % n == 0 else None
        if t.weights is None and repeated is not None and np.array_equal(t.indices[0], repeated):
            cut = y.reshape((*y.shape[: t.axis], n, out // n, *y.shape[t.axis + 1 :]))
            y = np.sum(cut, t.axis + 1)
            continue
        matrix = np.zeros((out, n), y.dtype)
        weights = np.ones(t.indices.shape) if t.weights is None else t.weights
        np.add.at(matrix, (np.arange(out)[None], t.indices), weights)
        y = np.moveaxis(np.matmul(np.moveaxis(y, t.axis, -1), matrix), -1, t.axis)
    return y.astype(g.dtype)
