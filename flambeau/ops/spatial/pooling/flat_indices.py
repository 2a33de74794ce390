"""Gather elements of images, and scatter into them, at indices into the flattened image."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....tensor.tensor import Tensor
from ...core.operator import Array
from ...core.output_layout import Layout
from ...core.promotion import compute_dtype
from ...core.registry import opaque
from ...native import gather_scatter


@opaque(linear_in="g", layout=Layout.FREE, name="_scatter_add_flat", expose=(), ref=None,
        samples=None, examples=("g", "indices"))
def scatter_add_flat(g: Array, indices: Array, spatial: Any) -> Array:
    """Sum g into images of shape `spatial` at flat indices."""
    n, size = len(spatial), int(np.prod(spatial))
    images = int(np.prod(g.shape[:-n]))
    if not g.size:
        return np.zeros((*g.shape[:-n], *spatial), g.dtype)
    addends = g.reshape(images, -1)
    summed = gather_scatter.add_at((images, size), 1, indices.reshape(images, -1), addends)
    if summed is not None:
        return summed.reshape(*g.shape[:-n], *spatial)
    offsets = indices.reshape(images, -1) + np.arange(images)[:, None] * size
    result = np.zeros(images * size, compute_dtype(g.dtype))
    np.add.at(result, offsets.reshape(-1), g.reshape(-1).astype(result.dtype, copy=False))
    return result.reshape(*g.shape[:-n], *spatial).astype(g.dtype, copy=False)


@scatter_add_flat.vjp("g")
def _(g: Tensor, indices: Tensor, spatial: Any) -> Tensor:
    return gather_flat(g, indices, len(spatial))


@opaque(linear_in="input", layout=Layout.FREE, name="_gather_flat", expose=(), ref=None,
        samples=None, examples=("input", "indices"))
def gather_flat(input: Array, indices: Array, n: int) -> Array:
    """Gather the elements of images, the last n axes, at flat indices."""
    if not indices.size:
        return np.zeros(indices.shape, input.dtype)
    flat = input.reshape(*input.shape[:-n], -1)
    flat_indices = indices.reshape(*indices.shape[:-n], -1)
    result = gather_scatter.take(flat, flat.ndim - 1, flat_indices)
    if result is None:
        result = np.take_along_axis(flat, flat_indices, -1)
    return result.reshape(indices.shape)


@gather_flat.vjp("input")
def _(g: Tensor, input_shape: tuple[int, ...], indices: Tensor, n: int) -> Tensor:
    return scatter_add_flat(g, indices, input_shape[-n:])
