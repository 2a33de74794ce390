"""Gather elements of images, and scatter into them, at indices into the flattened image."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ....tensor.tensor import Tensor
from ...core.operator import Array
from ...core.output_layout import Layout
from ...core.promotion import compute_dtype
from ...core.registry import opaque
from ...native import gather_scatter


def add_to_images(g: Array, indices: Array, spatial: Sequence[int]) -> Array:
    """Sum g into images of shape `spatial` at flat indices."""
    n, size = len(spatial), prod(spatial)
    images = prod(g.shape[:-n])
    if not g.size:
        return np.zeros((*g.shape[:-n], *spatial), g.dtype)
    addends, flat_indices = g.reshape(images, -1), indices.reshape(images, -1)
    result = gather_scatter.add_at((images, size), 1, flat_indices, addends)
    if result is None:
        offsets = flat_indices + np.arange(images)[:, None] * size
        result = np.zeros(images * size, compute_dtype(g.dtype))
        np.add.at(result, offsets.reshape(-1), addends.reshape(-1).astype(result.dtype, copy=False))
    return result.reshape(*g.shape[:-n], *spatial).astype(g.dtype, copy=False)


def take_from_images(input: Array, indices: Array, n: int) -> Array:
    """Gather the elements of images, the last n axes, at flat indices."""
    if not indices.size:
        return np.zeros(indices.shape, input.dtype)
    flat = input.reshape(*input.shape[:-n], -1)
    flat_indices = indices.reshape(*indices.shape[:-n], -1)
    result = gather_scatter.take(flat, flat.ndim - 1, flat_indices)
    if result is None:
        result = np.take_along_axis(flat, flat_indices, -1)
    return result.reshape(indices.shape)


@opaque(linear_in="g", layout=Layout.FREE, name="_scatter_add_flat", expose=(), ref=None,
        samples=None, examples=("g", "indices"))
def scatter_add_flat(g: Array, indices: Array, spatial: Any) -> Array:
    """Sum g into images of shape `spatial` at flat indices."""
    return add_to_images(g, indices, spatial)


@scatter_add_flat.vjp("g")
def _(g: Tensor, indices: Tensor, spatial: Any) -> Tensor:
    return gather_flat(g, indices, len(spatial))


@opaque(linear_in="input", layout=Layout.FREE, name="_gather_flat", expose=(), ref=None,
        samples=None, examples=("input", "indices"))
def gather_flat(input: Array, indices: Array, n: int) -> Array:
    """Gather the elements of images, the last n axes, at flat indices."""
    return take_from_images(input, indices, n)


@gather_flat.vjp("input")
def _(g: Tensor, input_shape: tuple[int, ...], indices: Tensor, n: int) -> Tensor:
    return scatter_add_flat(g, indices, input_shape[-n:])
