"""im2col and col2im: windows of images as columns of a matrix, and their sum back into images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ir import graph
from ..numpy.node_builders import reshape_node, stack_nodes
from ..numpy.symbolic_array import Symbol, wrap_node
from ..registry import lowering
from .pool import Windows


@lowering("_im2col")
def _im2col(input: Symbol, window: Any) -> Symbol:
    windows = Windows(input.node, window)
    x = windows.add_border(input.node, 0)
    n, c = input.shape[:2]
    parts = stack_nodes([windows.take_position(x, position) for position in windows.positions()], 2)
    return wrap_node(reshape_node(parts, (n, c * windows.places, -1)))


@lowering("_col2im")
def _col2im(input: Symbol, spatial: Sequence[int], window: Any) -> Symbol:
    kh, kw = window.kernel
    n, c = input.shape[0], input.shape[1] // (kh * kw)
    like = graph.constant(0, input.node.type, (n, c, *spatial))
    windows = Windows(like, window)
    columns = input.reshape((n, c, kh, kw, *windows.output))
    return wrap_node(windows.spread_back(lambda at: columns[:, :, at[0], at[1]].node, like))
