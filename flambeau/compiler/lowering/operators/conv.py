"""Convolutions and the gradients of their input and weight; 1-d convolutions have a height of 1.

Operators use (n, c, h, w), CONV channels last, so a lowering is PERMUTE, PAD, CONV, PERMUTE, which
passes simplify. The gradient of the input is built of convolutions: one if the stride is 1,
otherwise one for each phase of the stride, whose results are interleaved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ....native.loop_ir.ir import Type
from ....native.loop_ir.numpy_forms import dtype_of
from ...ir import graph
from ...ir.graph import Node, Op
from ..numpy.node_builders import cast, compute_type, reshape_node, slice_axis
from ..numpy.symbolic_array import Symbol, convert_to_node, wrap_node
from ..registry import lowering
from . import conv3d
from .strided_windows import build_zeros, interleave, pad_or_crop


class _Plane:
    """A 2-d convolution window; a 1-d window has a height of 1."""

    def __init__(self, window: Any) -> None:
        line = len(window.kernel) == 1
        self.line = line
        self.kernel = (1, *window.kernel) if line else tuple(window.kernel)
        self.stride = (1, *window.stride) if line else tuple(window.stride)
        self.dilation = (1, *window.dilation) if line else tuple(window.dilation)
        self.padding = ((0, 0), *window.padding) if line else tuple(window.padding)

    def image(self, x: Node) -> Node:
        """(n, c, h, w) or (n, c, w) as (n, h, w, c)."""
        if self.line:
            x = reshape_node(x, (*x.shape[:2], 1, x.shape[2]))
        return graph.permute(x, (0, 2, 3, 1))

    def pad(self, x: Node) -> Node:
        """The image padded with zeros."""
        (top, bottom), (left, right) = self.padding
        return graph.pad(x, (0, top, left, 0), (0, bottom, right, 0))

    def channels_first(self, y: Node) -> Node:
        """Convert (n, h, w, c) back to the operators' layout."""
        y = graph.permute(y, (0, 3, 1, 2))
        return reshape_node(y, (*y.shape[:2], y.shape[3])) if self.line else y

    def weight(self, w: Node) -> Node:
        """(o, c, kh, kw) or (o, c, kw) as (o, c, kh, kw)."""
        return reshape_node(w, (*w.shape[:2], 1, w.shape[2])) if self.line else w


def build_conv(x: Node, w: Node, stride: Sequence[int], dilation: Sequence[int],
               groups: int) -> Node:
    """CONV of an image (n, h, w, c) and a weight (kh, kw, c / groups, k)."""
    lengths = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(x.shape[1:3], w.shape[:2], stride, dilation, strict=True)
    ]
    shape = (x.shape[0], *lengths, w.shape[3])
    if 0 in shape or 0 in x.shape or 0 in w.shape:
        return build_zeros(x, shape)
    return Node(Op.CONV, (x, w), shape, x.type,
                {"stride": tuple(stride), "dilation": tuple(dilation),
                 "groups": groups})


def _cast_to_compute_type(*symbols: Any) -> tuple[Type, list[Node]]:
    nodes = [convert_to_node(s) for s in symbols]
    type = nodes[0].type
    return type, [cast(n, compute_type(type)) for n in nodes]


def _add_bias(y: Node, bias: Any) -> Node:
    if bias is None:
        return y
    return (wrap_node(y) + bias.astype(dtype_of(y.type), copy=False)).node


@lowering("_convolution")
def _convolution(input: Any, weight: Any, bias: Any, window: Any, groups: int) -> Symbol:
    if len(window.kernel) == 3:
        y = conv3d.convolve(_convolution, input, weight, window, groups)
        return conv3d.add_bias(y, bias)
    type, (x, w) = _cast_to_compute_type(input, weight)
    plane = _Plane(window)
    w = graph.permute(plane.weight(w), (2, 3, 1, 0))
    y = build_conv(plane.pad(plane.image(x)), w, plane.stride, plane.dilation, groups)
    return wrap_node(cast(plane.channels_first(_add_bias(y, bias)), type))


@lowering("_convolution_weight")
def _convolution_weight(input: Any, output: Any, window: Any, groups: int) -> Symbol:
    if len(window.kernel) == 3:
        return conv3d.weight(_convolution_weight, input, output, window, groups)
    type, (x, g) = _cast_to_compute_type(input, output)
    plane = _Plane(window)
    x, g = plane.pad(plane.image(x)), plane.image(g)
    shape = (*plane.kernel, x.shape[3] // groups, g.shape[3])
    if 0 in x.shape or 0 in g.shape:
        gradient = build_zeros(x, shape)
    else:
        gradient = Node(Op.CONV_WEIGHT, (x, g), shape, x.type, {
            "stride": plane.stride, "dilation": plane.dilation, "groups": groups})
    gradient = graph.permute(gradient, (3, 2, 0, 1))
    if plane.line:
        gradient = reshape_node(gradient, (*gradient.shape[:2], gradient.shape[3]))
    return wrap_node(cast(gradient, type))


# ------------------------------------------------------------------------------- backward


@lowering("_transposed_convolution")
def _transposed_convolution(
    input: Any, weight: Any, bias: Any, spatial: Sequence[int], window: Any, groups: int
) -> Symbol:
    if len(window.kernel) == 3:
        y = conv3d.convolve_transposed(_transposed_convolution, input, weight, spatial, window,
                                       groups)
        return conv3d.add_bias(y, bias)
    type, (g, w) = _cast_to_compute_type(input, weight)
    plane = _Plane(window)
    lengths = (1, *spatial) if plane.line else tuple(spatial)
    w = plane.weight(w)
    o, channels_per_group, kh, kw = w.shape
    w = reshape_node(w, (groups, o // groups, channels_per_group, kh, kw))
    w = reshape_node(graph.permute(w, (3, 4, 1, 0, 2)),
                     (kh, kw, o // groups, groups * channels_per_group))
    y = _scatter_windows(plane.image(g), w, plane, lengths, groups)
    return wrap_node(cast(plane.channels_first(_add_bias(y, bias)), type))


def _locate_phase_taps(k: int, s: int, d: int, r: int) -> tuple[int, int, int, int, int]:
    """For phase r of the stride: the first tap, the step between taps, the number of taps, the
    dilation at which they read the cotangents, and the first cotangent's position.
    """
    divisor = math.gcd(s, d)
    step = s // divisor
    first = next((i for i in range(min(step, k)) if (i * d - r) % s == 0), None)
    if first is None:
        return 0, step, 0, d // divisor, 0
    return first, step, -(-(k - first) // step), d // divisor, (r - first * d) // s


def _scatter_windows(g: Node, w: Node, plane: _Plane, lengths: Sequence[int], groups: int) -> Node:
    """Map cotangents (n, oh, ow, k) to the cotangent (n, h, w, c) of the input."""
    strides = plane.stride
    counts = [-(-n // s) for n, s in zip(lengths, strides, strict=True)]
    (top, _), (left, _) = plane.padding
    rows = []
    for i in range(strides[0]):
        columns = [_lower_phase(g, w, plane, (top + i, left + j), counts, groups)
                   for j in range(strides[1])]
        rows.append(interleave(columns, 2))
    gradient = interleave(rows, 1)
    for axis, n in enumerate(lengths, 1):
        gradient = slice_axis(gradient, axis, 0, n)
    return gradient


def _lower_phase(g: Node, w: Node, plane: _Plane, offsets: Sequence[int], counts: Sequence[int],
                 groups: int) -> Node:
    """One phase of a strided convolution: the taps that reach every stride-th position."""
    dilations = []
    for axis in (0, 1):
        skipped, phase = divmod(offsets[axis], plane.stride[axis])
        first, step, taps, dilation, start = _locate_phase_taps(
            plane.kernel[axis], plane.stride[axis], plane.dilation[axis], phase
        )
        start += skipped
        if not taps:
            return build_zeros(g, (g.shape[0], *counts, w.shape[3]))
        # Reversed: the last tap reads the first position.
        w = slice_axis(w, axis, first + (taps - 1) * step, taps, -step)
        low = (taps - 1) * dilation - start
        g = pad_or_crop(g, axis + 1, low, counts[axis] + start - g.shape[axis + 1])
        dilations.append(dilation)
    return build_conv(g, w, (1, 1), dilations, groups)
