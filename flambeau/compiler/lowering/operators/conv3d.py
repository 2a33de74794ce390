"""3-d convolutions: 2-d convolutions of planes, summed over the kernel's depth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....ops.spatial.conv_reference import Window
from ...ir import graph
from ..numpy.symbolic_array import Symbol, wrap_node
from .pool import Windows

Plane = Callable[..., Symbol]  # the convolution of planes, or one of its gradients


def _select_plane_axes(window: Window) -> Window:
    """The 2-d window within a plane."""
    kernel, stride, padding, dilation = window
    return Window(kernel[1:], stride[1:], padding[1:], dilation[1:])


def _select_depth_axis(window: Window) -> Window:
    """The 1-d window across planes."""
    kernel, stride, padding, dilation = window
    return Window(kernel[:1], stride[:1], padding[:1], dilation[:1])


def _as_planes(x: Symbol) -> Symbol:
    """(n, c, d, h, w) as planes (n * d, c, h, w)."""
    n, c, d, h, w = x.shape
    return x.transpose((0, 2, 1, 3, 4)).reshape((n * d, c, h, w))


def _as_volumes(x: Symbol, n: int) -> Symbol:
    """Planes (n * d, c, h, w) as (n, c, d, h, w)."""
    count, c, h, w = x.shape
    return x.reshape((n, count // n, c, h, w)).transpose((0, 2, 1, 3, 4))


def _slice_planes(x: Symbol, window: Window, tap: int) -> Symbol:
    """The planes that one tap of the kernel's depth reads."""
    (low, high), step = window.padding[0], window.stride[0]
    lows, highs = ((0, 0, v, 0, 0) for v in (low, high))
    count = _select_depth_axis(window).output(x.shape[2:3])[0]
    start = tap * window.dilation[0]
    deep = wrap_node(graph.pad(x.node, lows, highs))
    return deep[:, :, start : start + step * (count - 1) + 1 : step]


def _add_parts(parts: Sequence[Symbol]) -> Symbol:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def convolve(plane: Plane, x: Symbol, w: Symbol, window: Window, groups: int) -> Symbol:
    """Convolve x (n, c, d, h, w)."""
    parts = [
        plane(
            _as_planes(_slice_planes(x, window, t)), w[:, :, t], None, _select_plane_axes(window),
            groups
        )
        for t in range(window.kernel[0])
    ]
    return _as_volumes(_add_parts(parts), x.shape[0])


def convolve_transposed(
    plane: Plane, g: Symbol, w: Symbol, spatial: Sequence[int], window: Window, groups: int
) -> Symbol:
    """The cotangent of the input, whose spatial extents are `spatial`."""
    parts = [
        _as_volumes(
            plane(_as_planes(g), w[:, :, t], None, spatial[1:], _select_plane_axes(window), groups),
            g.shape[0]
        )
        for t in range(window.kernel[0])
    ]
    parts = [np.moveaxis(p, 2, -1) for p in parts]
    like = graph.constant(0, g.node.type, (*parts[0].shape[:-1], spatial[0]))
    gradient = Windows(like, _select_depth_axis(window)).spread_back(
        lambda at: parts[at[0]].node, like
    )
    return np.moveaxis(wrap_node(gradient), -1, 2)


def weight(plane: Plane, x: Symbol, g: Symbol, window: Window, groups: int) -> Symbol:
    """The cotangent of the weight."""
    parts = [
        plane(
            _as_planes(_slice_planes(x, window, t)), _as_planes(g), _select_plane_axes(window),
            groups
        )
        for t in range(window.kernel[0])
    ]
    return np.stack(parts, 2)


def add_bias(y: Symbol, bias: Any) -> Symbol:
    """Add a bias for each channel."""
    return y if bias is None else y + bias.astype(y.dtype).reshape((-1, 1, 1, 1))
