"""Reductions over axes."""

from __future__ import annotations

import numpy as np

from .registry import Array, opaque
from .samples import real_line


@opaque(ref=lambda x: x.sum(), samples=real_line)
def sum(input: Array, dim=None, keepdim=False, *, dtype=None) -> Array:
    """Sum."""
    return np.add.reduce(input, axis=dim, keepdims=keepdim)


@sum.vjp
def _(g, input_shape, dim, keepdim):
    return g.expand(input_shape)


from .registry import view


@view(ref=lambda x, *s: np.broadcast_to(x, s), samples=None)
def expand(input: Array, *size):
    """Expanded."""
    return np.broadcast_to(input, size)


@expand.vjp
def _(g, input_shape):
    return g.sum_to_size(input_shape)
