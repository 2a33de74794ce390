"""Max pooling on arrays, in any rank: maxima, their indices, and cotangents routed to them.

Images are pooled one block that fits in cache at a time. Maxima are taken along one axis after the
other: k1 + k2 comparisons for a window of k1 x k2. Backward runs in reverse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from ....native.target.eager_costs import POOL_BLOCK_ELEMENTS
from ...core.operator import Array
from ..conv_reference import Window
from . import pool_native
from .pool_index_tables import list_windows

# ------------------------------------------------------------------------------------ windows


def _find_lowest(kind: np.dtype) -> Any:
    return -np.inf if kind.kind in "fV" else np.iinfo(kind).min


def _pad(x: Array, window: Window) -> Array:
    """Pad x (images, ...) with the lowest value."""
    if not any(lo or hi for lo, hi in window.padding):
        return x
    shape = [m + lo + hi for m, (lo, hi) in zip(x.shape[1:], window.padding, strict=True)]
    result = np.full((len(x), *shape), _find_lowest(x.dtype), x.dtype)
    result[_index_interior(x.shape[1:], window)] = x
    return result


def _index_interior(spatial: Sequence[int], window: Window) -> tuple[slice, ...]:
    """Return the index of the non-padding elements of padded images."""
    return (slice(None), *[
        slice(lo, lo + m) for m, (lo, _) in zip(spatial, window.padding, strict=True)
    ])


def _take_tap(x: Array, window: Window, tap: Sequence[int], output: Sequence[int]) -> Array:
    """Return a view of the element at one position of every window: (images, output...)."""
    return x[(slice(None), *[
        slice(i * d, i * d + s * (m - 1) + 1, s)
        for i, d, s, m in zip(tap, window.dilation, window.stride, output, strict=True)
    ])]


def _take_tap_along(x: Array, axis: int, i: int, window: Window, m: int) -> Array:
    """Return the elements at position i of every window along `axis`, as a view of x."""
    s, start = window.stride[axis], i * window.dilation[axis]
    return x[(*(slice(None),) * (axis + 1), slice(start, start + s * (m - 1) + 1, s))]


def _cut_into_blocks(images: int, elements_per_image: int) -> Iterator[slice]:
    step = max(1, POOL_BLOCK_ELEMENTS // max(elements_per_image, 1))
    for i in range(0, images, step):
        yield slice(i, i + step)


# ------------------------------------------------------------------------------------- maxima


def find_maxima(input: Array, window: Window) -> Array:
    """Return the largest element of each window."""
    n = len(window.kernel)
    spatial = input.shape[-n:]
    native = pool_native.max_windows(input, n, list_windows, window, spatial)
    if native is not None:
        return native
    output = window.output(spatial)
    y = np.empty((*input.shape[:-n], *output), input.dtype)
    x = input.reshape(prod(input.shape[:-n]), *spatial)
    flat = y.reshape(len(x), *output)
    for block in _cut_into_blocks(len(x), x[:1].size):
        _write_maxima(_pad(x[block], window), window, flat[block])
    return y


def _write_maxima(x: Array, window: Window, y: Array) -> None:
    """Reduce the windows of padded images into y, one axis after the other."""
    output = y.shape[1:]
    last = len(output) - 1
    for axis in range(len(output)):
        x = _reduce_along(x, axis, window, output[axis], y if axis == last else None)


def _reduce_along(
    x: Array, axis: int, window: Window, m: int, result: Array | None = None
) -> Array:
    """Return the maxima of m windows along one axis; a view of x if windows have one element."""
    first = _take_tap_along(x, axis, 0, window, m)
    k = window.kernel[axis]
    if k == 1:
        return first if result is None else np.positive(first, out=result)
    result = np.maximum(first, _take_tap_along(x, axis, 1, window, m), out=result)
    for i in range(2, k):
        np.maximum(result, _take_tap_along(x, axis, i, window, m), out=result)
    return result


def find_maxima_and_indices(input: Array, window: Window) -> tuple[Array, Array]:
    """Return the largest element of each window and its index in the flattened image."""
    n = len(window.kernel)
    spatial = input.shape[-n:]
    native = pool_native.max_windows_with_indices(input, n, list_windows, window, spatial)
    if native is not None:
        return native
    output = window.output(spatial)
    x = _pad(input.reshape(prod(input.shape[:-n]), *spatial), window)
    y = np.full((len(x), *output), _find_lowest(input.dtype), input.dtype)
    indices = np.empty(y.shape, np.int64)
    indices[...] = _index_first_elements(spatial, window, output)
    image = np.zeros(x.shape[1:], np.int64)  # each element's index, with padding
    image[_index_interior(spatial, window)[1:]] = np.arange(prod(spatial)).reshape(spatial)
    for tap in np.ndindex(*window.kernel):
        element = _take_tap(x, window, tap, output)
        better = element > y
        if x.dtype.kind != "i":
            better |= element != element  # the last NaN wins
        np.copyto(y, element, where=better)
        np.copyto(indices, _take_tap(image[None], window, tap, output), where=better)
    shape = (*input.shape[:-n], *output)
    return y.reshape(shape), indices.reshape(shape)


def _index_first_elements(
    spatial: Sequence[int], window: Window, output: Sequence[int]
) -> Array:
    """Return the flat index of each window's first element that is not padding."""
    flat = np.zeros((), np.int64)
    for m, s, (lo, _), d, length in zip(
        output, window.stride, window.padding, window.dilation, spatial, strict=True
    ):
        start = np.arange(m) * s - lo
        start = np.where(start < 0, start + -(start // d) * d, start)
        flat = flat[..., None] * length + start
    return flat


# -------------------------------------------------------------------------------- derivatives


def scatter_to_maxima(g: Array, input: Array, maxima: Array, window: Window) -> Array:
    """Add each window's cotangent at the position of its maximum."""
    n = len(window.kernel)
    spatial, output = input.shape[-n:], maxima.shape[-n:]
    native = pool_native.max_windows_backward(g, input, maxima, n, list_windows, window, spatial)
    if native is not None:
        return native
    x = input.reshape(-1, *spatial)
    cotangents = g.reshape(len(x), *output)
    result = np.empty(x.shape, g.dtype)
    for block in _cut_into_blocks(len(x), x[:1].size):
        padded = _scatter_block(_pad(x[block], window), cotangents[block], window)
        result[block] = padded[_index_interior(spatial, window)]
    return result.reshape(input.shape)


def _scatter_block(x: Array, g: Array, window: Window) -> Array:
    """Route cotangents through padded images, one axis after the other, first axis first."""
    output = g.shape[1:]
    stages = [x]  # the maxima along the last axes, one more axis per entry
    for axis in reversed(range(len(output))):
        stages.append(_reduce_along(stages[-1], axis, window, output[axis]))
    for axis in range(len(output)):
        y = stages.pop()
        g = _scatter_along(stages[-1], y, g, axis, window)
    return g


def _scatter_along(x: Array, y: Array, g: Array, axis: int, window: Window) -> Array:
    """Route cotangents of the maxima y along one axis to the first equal element of x."""
    k, m = window.kernel[axis], y.shape[axis + 1]
    result = np.zeros(x.shape, g.dtype)
    are_disjoint = window.stride[axis] >= (k - 1) * window.dilation[axis] + 1
    unmatched: Any = None  # windows whose maximum has not been found yet
    for i in range(k):
        hit = unmatched  # all remaining ones belong to the last position
        if i < k - 1:
            hit = _take_tap_along(x, axis, i, window, m) == y
            if unmatched is None:
                unmatched = ~hit
            else:
                hit &= unmatched
                unmatched ^= hit
        target = _take_tap_along(result, axis, i, window, m)
        if hit is None:
            target += g
        elif are_disjoint:
            np.multiply(g, hit, out=target)
        else:
            np.add(target, np.multiply(g, hit), out=target)
    return result


def gather_tangent(t: Array, input: Array, window: Window) -> Array:
    """Gather the elements of t at the positions of the windows' maxima, computing the maxima."""
    n = len(window.kernel)
    spatial = input.shape[-n:]
    native = pool_native.max_windows_with_tangents(input, t, n, list_windows, window, spatial)
    if native is not None:
        return native[1]
    indices = find_maxima_and_indices(input, window)[1]
    flat = t.reshape(*t.shape[:-n], -1)
    tangents = np.take_along_axis(flat, indices.reshape(*flat.shape[:-1], -1), -1)
    return tangents.reshape(indices.shape)


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


def gather_at_maxima(u: Array, input: Array, maxima: Array, window: Window) -> Array:
    """Gather the elements of u at the positions of the windows' maxima."""
    n = len(window.kernel)
    spatial, output = input.shape[-n:], maxima.shape[-n:]
    values = _pad(u.reshape(-1, *spatial), window)
    result = np.zeros((len(values), *output), u.dtype)
    x = _pad(input.reshape(-1, *spatial), window)
    for tap, hit in _match_maxima(x, maxima.reshape(result.shape), window):
        np.copyto(result, _take_tap(values, window, tap, output), where=hit)
    return result.reshape(maxima.shape)


def _match_maxima(
    x: Array, y: Array, window: Window
) -> Iterator[tuple[tuple[int, ...], Array]]:
    """For each position in a window, yield the windows whose first maximum is there."""
    unmatched = np.ones(y.shape, np.bool_)
    nan = y != y if y.dtype.kind != "i" and (y != y).any() else None
    for tap in np.ndindex(*window.kernel):
        element = _take_tap(x, window, tap, y.shape[1:])
        hit = element == y
        if nan is not None:
            hit |= nan & (element != element)
        hit &= unmatched
        unmatched ^= hit
        yield tap, hit
