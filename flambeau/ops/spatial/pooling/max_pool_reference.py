"""Max pooling on arrays, in any rank: maxima, their indices, and what passes through them.

Without a kernel, maxima are taken along one axis after the other: k1 + k2 comparisons for a window
of k1 x k2. All else goes by the maxima's indices.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...core.operator import Array
from ..conv_reference import Window
from . import array_pooling, pool_native
from .array_pooling import find_lowest
from .flat_indices import add_to_images, take_from_images
from .pool_index_tables import list_windows


def find_maxima(input: Array, window: Window) -> Array:
    """Return the largest element of each window."""
    n = len(window.kernel)
    spatial = input.shape[-n:]
    native = pool_native.max_windows(input, n, list_windows, window, spatial)
    if native is not None:
        return native
    x, output = _pad(input, window), window.output(spatial)
    for axis, m in enumerate(output):
        x = _reduce_along(x, axis - n, window, m)
    return np.ascontiguousarray(x).reshape(*input.shape[:-n], *output)


def _pad(x: Array, window: Window) -> Array:
    """Return x with borders of the lowest value."""
    n, pads = len(window.kernel), window.padding
    if not any(lo or hi for lo, hi in pads):
        return x if max(window.kernel) > 1 else x.copy()
    shape = [m + lo + hi for m, (lo, hi) in zip(x.shape[-n:], pads, strict=True)]
    result = np.full((*x.shape[:-n], *shape), find_lowest(x.dtype), x.dtype)
    interior: Any = (..., *[
        slice(lo, lo + m) for m, (lo, _) in zip(x.shape[-n:], pads, strict=True)])
    result[interior] = x
    return result


def _reduce_along(x: Array, axis: int, window: Window, m: int) -> Array:
    """Return the maxima of m windows along an axis, counted from the end."""
    k, s, d = window.kernel[axis], window.stride[axis], window.dilation[axis]
    behind = (slice(None),) * (-axis - 1)
    places: list[Any] = [(..., slice(i * d, i * d + s * (m - 1) + 1, s), *behind) for i in range(k)]
    first, *others = (x[place] for place in places)
    if not others:
        return first
    result = np.maximum(first, others[0])
    for element in others[1:]:
        np.maximum(result, element, out=result)
    return result


def find_maxima_and_indices(input: Array, window: Window) -> tuple[Array, Array]:
    """Return the largest element of each window and its index in the flattened image."""
    n = len(window.kernel)
    spatial = input.shape[-n:]
    native = pool_native.max_windows_with_indices(input, n, list_windows, window, spatial)
    if native is not None:
        return native
    return array_pooling.find_maxima(input, n, list_windows, window, spatial)


# -------------------------------------------------------------------------------- derivatives


def _locate_maxima(input: Array, window: Window) -> tuple[Array, Array | None]:
    """Return the indices of the windows' maxima, and which windows have any if some have none."""
    spatial = input.shape[-len(window.kernel) :]
    indices = find_maxima_and_indices(input, window)[1]
    are_inside = indices < prod(spatial)
    if are_inside.all():
        return indices, None
    return np.where(are_inside, indices, 0), are_inside


def scatter_to_maxima(g: Array, input: Array, maxima: Array, window: Window) -> Array:
    """Add each window's cotangent at the position of its maximum."""
    n = len(window.kernel)
    spatial = input.shape[-n:]
    native = pool_native.max_windows_backward(g, input, maxima, n, list_windows, window, spatial)
    if native is not None:
        return native
    indices, are_inside = _locate_maxima(input, window)
    return add_to_images(g if are_inside is None else g * are_inside, indices, spatial)


def gather_at_maxima(u: Array, input: Array, window: Window) -> Array:
    """Gather the elements of u at the positions of the windows' maxima."""
    indices, are_inside = _locate_maxima(input, window)
    y = take_from_images(u, indices, len(window.kernel))
    return y if are_inside is None else y * are_inside


def gather_tangent(t: Array, input: Array, window: Window) -> Array:
    """Gather the elements of t at the positions of the windows' maxima, computing the maxima."""
    n = len(window.kernel)
    native = pool_native.max_windows_with_tangents(
        input, t, n, list_windows, window, input.shape[-n:])
    return gather_at_maxima(t, input, window) if native is None else native[1]


def find_maxima_with_tangents(
    input: Array, input_t: Array, window: Window
) -> tuple[Array, Array] | None:
    """Return the maxima and input_t's elements there, in one pass; None without a kernel.

    Layout as in `find_maxima`.
    """
    n = len(window.kernel)
    if not input.flags.c_contiguous:
        return None
    return pool_native.max_windows_with_tangents(
        input, input_t, n, list_windows, window, input.shape[-n:])
