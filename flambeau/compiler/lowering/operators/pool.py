"""Pooling: maxima and averages of windows, and their gradients.

Windows that tile the input become extra axes, by a RESHAPE, and are reduced. Others are read by
shifted SLICEs, one axis after the other; their cotangents are summed by phases of the stride.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from ....native.loop_ir.ir import ReduceOp, Scalar, Type
from ....native.loop_ir.numpy_forms import dtype_of
from ...ir import graph
from ...ir.graph import Node
from ..numpy.node_builders import (
    apply_operation, broadcast_to, cast, compute_type, literal, number, reduce_axes, reshape_node,
    slice_axis, where,
)
from ..numpy.symbolic_array import Symbol, convert_to_node, wrap_node
from ..registry import lowering
from .strided_windows import add_border, build_zeros, interleave


class Windows:
    """The windows over the last axes of an array."""

    def __init__(self, x: Node, window: Any) -> None:
        self.window, self.rank = window, len(window.kernel)
        self.lead, self.spatial = x.shape[: -self.rank], x.shape[-self.rank :]
        self.output = window.output(self.spatial)
        self.first = len(self.lead)
        self.places = math.prod(window.kernel)

    @property
    def apart(self) -> bool:
        """Whether the windows tile the input: no overlap, dilation or padding."""
        w = self.window
        return w.kernel == w.stride and set(w.dilation) == {1} and not any(map(any, w.padding))

    @property
    def split(self) -> tuple[int, ...]:
        """The shape with separate axes for the windows and for positions within them."""
        pairs = zip(self.output, self.window.kernel, strict=True)
        return (*self.lead, *(n for pair in pairs for n in pair))

    @property
    def inner(self) -> tuple[int, ...]:
        """The axes of positions within windows in `split`."""
        return tuple(self.first + 2 * i + 1 for i in range(self.rank))

    def divide(self, x: Node) -> Node:
        """x reshaped to `split`, cropped to whole windows."""
        for i, (m, k) in enumerate(zip(self.output, self.window.kernel, strict=True)):
            x = slice_axis(x, self.first + i, 0, m * k)
        return reshape_node(x, self.split)

    def undivide(self, x: Node) -> Node:
        """Undo `divide`, with zeros where no window reached."""
        covered = [m * k for m, k in zip(self.output, self.window.kernel, strict=True)]
        x = reshape_node(x, (*self.lead, *covered))
        high = [n - m for n, m in zip((*self.lead, *self.spatial), x.shape, strict=True)]
        return graph.pad(x, (0,) * len(high), high)

    def add_place_axes(self, y: Node) -> Node:
        """Reshape a value per window to broadcast against the result of `divide`."""
        return reshape_node(y, (*self.lead, *(n for m in self.output for n in (m, 1))))

    def add_border(self, x: Node, value: float) -> Node:
        """x with its padding, filled with a number."""
        zeros = (0,) * self.first
        low, high = zip(*self.window.padding, strict=True)
        return add_border(x, (*zeros, *low), (*zeros, *high), value)

    def take_along(self, x: Node, axis: int, place: int) -> Node:
        """Return, for all windows, the elements at one position along one axis."""
        w = self.window
        return slice_axis(x, self.first + axis, place * w.dilation[axis], self.output[axis],
                          w.stride[axis])

    def fold(self, x: Node, operation: Scalar) -> Node:
        """Combine all positions of each window with an operation, one axis after the other."""
        for axis, k in enumerate(self.window.kernel):
            total = self.take_along(x, axis, 0)
            for place in range(1, k):
                total = apply_operation(operation, total, self.take_along(x, axis, place))
            x = total
        return x

    def take_position(self, x: Node, position: Sequence[int]) -> Node:
        """Return, for all windows, the elements at one position."""
        for axis, place in enumerate(position):
            x = self.take_along(x, axis, place)
        return x

    def positions(self) -> list[tuple[int, ...]]:
        """The positions in a window, in row-major order."""
        return list(product(*map(range, self.window.kernel)))

    # ------------------------------------------------------------------------ back

    def spread_back(self, share: Callable[[tuple[int, ...]], Node], like: Node) -> Node:
        """For each element, sum share(position) over all windows that contain it."""
        gradient = self._join_phases((), share, like)
        for i, n in enumerate(self.spatial):
            gradient = slice_axis(gradient, self.first + i, self.window.padding[i][0], n)
        return gradient

    def _join_phases(self, fixed: tuple, share: Callable, like: Node) -> Node:
        axis = len(fixed)
        if axis == self.rank:
            return self._sum_phase(fixed, share, like)
        parts = [
            self._join_phases((*fixed, r), share, like) for r in range(self.window.stride[axis])
        ]
        return interleave(parts, self.first + axis)

    def _sum_phase(self, phase: tuple[int, ...], share: Callable, like: Node) -> Node:
        w = self.window
        counts = [-(-(n + lo) // s)
                  for n, (lo, _), s in zip(self.spatial, w.padding, w.stride, strict=True)]
        total: Node | None = None
        for position in self.positions():
            reach = [p * d for p, d in zip(position, w.dilation, strict=True)]
            if any((v - r) % s for v, r, s in zip(reach, phase, w.stride, strict=True)):
                continue
            value = share(position)
            for i, (v, r, s, count) in enumerate(zip(reach, phase, w.stride, counts, strict=True)):
                value = _shift_axis(value, self.first + i, (v - r) // s, count)
            total = value if total is None else apply_operation(Scalar.ADD, total, value)
        return build_zeros(like, (*self.lead, *counts)) if total is None else total


def _shift_axis(node: Node, axis: int, by: int, count: int) -> Node:
    """Shift an axis up by `by`, to `count` elements, filling with zeros."""
    remaining = max(min(node.shape[axis], count - by), 0)
    node = slice_axis(node, axis, 0, remaining)
    low, high = [0] * len(node.shape), [0] * len(node.shape)
    low[axis], high[axis] = min(by, count), max(count - by - remaining, 0)
    return graph.pad(node, low, high)


# ------------------------------------------------------------------------------- maxima


def _find_lowest_value(type: Type) -> Any:
    return -math.inf if type.floating else int(np.iinfo(dtype_of(type)).min)


def _reduce_maxima(x: Node, windows: Windows) -> Node:
    if windows.apart:
        return reduce_axes(windows.divide(x), ReduceOp.MAXIMUM, windows.inner)
    return windows.fold(windows.add_border(x, _find_lowest_value(x.type)), Scalar.MAXIMUM)


@lowering("_max_pool1d", "_max_pool2d", "_max_pool3d")
def _max_pool(input: Any, window: Any) -> Symbol:
    x = convert_to_node(input)
    inside = cast(x, compute_type(x.type))
    return wrap_node(cast(_reduce_maxima(inside, Windows(x, window)), x.type))


def _order(windows: Windows) -> Node:
    """The number of each position in a window, to broadcast against the result of `divide`."""
    kernel = windows.window.kernel
    shape = (*(1 for _ in windows.lead), *(n for k in kernel for n in (1, k)))
    return literal(np.arange(windows.places, dtype=np.int32).reshape(shape))


def _locate_first_maxima(x: Node, tops: Node, windows: Windows) -> Node:
    """Return, for each window, the number of the first position that holds its maximum; the last
    if none does.

    32-bit like most nearby values, so that vectors have equally many lanes.
    """
    last = windows.places - 1
    if windows.apart:
        hits = apply_operation(Scalar.EQ, windows.divide(x), windows.add_place_axes(tops))
        positions = where(hits, _order(windows), number(last, Type.I32, len(hits.shape)))
        return reduce_axes(positions, ReduceOp.MINIMUM, windows.inner)
    x = windows.add_border(x, _find_lowest_value(x.type))
    positions = graph.constant(last, Type.I32, tops.shape)
    for i, position in reversed(list(enumerate(windows.positions()))[:-1]):
        hits = apply_operation(Scalar.EQ, windows.take_position(x, position), tops)
        positions = where(hits, number(i, Type.I32, len(hits.shape)), positions)
    return positions


def _equals(firsts: Node, i: int) -> Node:
    return apply_operation(Scalar.EQ, firsts, number(i, Type.I32, len(firsts.shape)))


@lowering("_max_pool_placed")
def _max_pool_scatter(g: Any, input: Any, tops: Any, window: Any) -> Symbol:
    x, y, share = convert_to_node(input), convert_to_node(tops), convert_to_node(g)
    type = share.type
    x, y, share = (cast(n, compute_type(n.type)) for n in (x, y, share))
    windows = Windows(x, window)
    firsts = _locate_first_maxima(x, y, windows)
    if windows.apart:
        hits = apply_operation(Scalar.EQ, _order(windows), windows.add_place_axes(firsts))
        zero = number(0, share.type, len(hits.shape))
        spread_share = where(hits, windows.add_place_axes(share), zero)
        return wrap_node(cast(windows.undivide(spread_share), type))
    numbers = {at: i for i, at in enumerate(windows.positions())}
    zero = number(0, share.type, len(share.shape))

    def part(position: tuple[int, ...]) -> Node:
        return where(_equals(firsts, numbers[position]), share, zero)

    return wrap_node(cast(windows.spread_back(part, share), type))


@lowering("_max_pool_picked")
def _max_pool_gather(u: Any, input: Any, tops: Any, window: Any) -> Symbol:
    x, y, values = convert_to_node(input), convert_to_node(tops), convert_to_node(u)
    windows = Windows(x, window)
    inside = compute_type(x.type)
    firsts = _locate_first_maxima(cast(x, inside), cast(y, inside), windows)
    values = windows.add_border(values, 0)
    gathered: Node | None = None
    for i, position in enumerate(windows.positions()):
        value = windows.take_position(values, position)
        gathered = value if gathered is None else where(_equals(firsts, i), value, gathered)
    return wrap_node(gathered) if gathered is not None else u


@lowering("_max_pool1d_with_indices", "_max_pool2d_with_indices", "_max_pool3d_with_indices")
def _max_pool_with_indices(input: Any, window: Any) -> tuple[Symbol, Symbol]:
    x = convert_to_node(input)
    windows = Windows(x, window)
    inside = cast(x, compute_type(x.type))
    tops = _reduce_maxima(inside, windows)
    rest = wrap_node(cast(_locate_first_maxima(inside, tops, windows), Type.I64))
    flat: Any = 0
    factor = math.prod(windows.window.kernel)
    for i, (k, n) in enumerate(zip(window.kernel, windows.spatial, strict=True)):
        factor //= k
        place = rest // factor
        rest = rest - place * factor
        start = np.arange(windows.output[i]) * window.stride[i] - window.padding[i][0]
        start = start.reshape((-1, *(1,) * (windows.rank - 1 - i)))
        flat = flat * n + (place * window.dilation[i] + start)
    return wrap_node(cast(tops, x.type)), flat


# ------------------------------------------------------------------------------- averages


def _cast_to_compute_type(x: Symbol) -> Node:
    return cast(x.node, compute_type(x.node.type))


@lowering("_avg_pool1d", "_avg_pool2d", "_avg_pool3d")
def _avg_pool(input: Symbol, average: Any) -> Symbol:
    x, window = _cast_to_compute_type(input), average.window
    windows = Windows(x, window)
    if windows.apart:
        y = reduce_axes(windows.divide(x), ReduceOp.SUM, windows.inner)
    else:
        y = windows.fold(windows.add_border(x, 0), Scalar.ADD)
    divisors = average.divisors(windows.spatial)
    total = wrap_node(y)
    if not x.type.floating:
        signs = np.sign(total) * np.sign(divisors)
        return (signs * (np.abs(total) // np.abs(divisors))).astype(input.dtype)
    return (total / divisors.astype(total.dtype)).astype(input.dtype)


@lowering("_avg_pool1d_backward", "_avg_pool2d_backward", "_avg_pool3d_backward")
def _avg_pool_backward(g: Symbol, spatial: Sequence[int], average: Any) -> Symbol:
    share = wrap_node(_cast_to_compute_type(g))
    share = share / average.divisors(spatial).astype(share.dtype)
    rank = len(spatial)
    like = graph.constant(0, share.node.type, (*g.shape[:-rank], *spatial))
    windows = Windows(like, average.window)
    if windows.apart:
        gradient = windows.undivide(broadcast_to(windows.add_place_axes(share.node), windows.split))
    else:
        gradient = windows.spread_back(lambda at: share.node, share.node)
    return wrap_node(gradient).astype(g.dtype)


def _has_even_windows(spatial: Sequence[int], output: Sequence[int]) -> bool:
    return all(m and n % m == 0 for n, m in zip(spatial, output, strict=True))


class _EvenWindows:
    """The windows of adaptive pooling, if all have the same size."""

    def __init__(self, spatial: Sequence[int], output: Sequence[int]) -> None:
        self.kernel = tuple(n // m for n, m in zip(spatial, output, strict=True))
        self.stride, self.output = self.kernel, lambda _: tuple(output)
        self.padding, self.dilation = ((0, 0),) * len(output), (1,) * len(output)


def _build_averaging_matrix(n: int, m: int, kind: np.dtype) -> np.ndarray:
    matrix = np.zeros((n, m), kind)
    for i in range(m):
        a, b = i * n // m, -(-(i + 1) * n // m)
        matrix[a:b, i] = 1 / (b - a)
    return matrix


def _multiply_by_matrices(x: Symbol, matrices: Sequence[np.ndarray]) -> Symbol:
    for i, matrix in enumerate(matrices):
        axis = x.ndim - len(matrices) + i
        x = np.moveaxis(np.matmul(np.moveaxis(x, axis, -1), matrix), -1, axis)
    return x


@lowering("_adaptive_avg_pool1d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
def _adaptive_average(input: Symbol, output: Sequence[int]) -> Symbol:
    x = wrap_node(_cast_to_compute_type(input))
    spatial = x.shape[-len(output) :]
    if _has_even_windows(spatial, output):
        windows = Windows(x.node, _EvenWindows(spatial, output))
        y = wrap_node(reduce_axes(windows.divide(x.node), ReduceOp.SUM, windows.inner))
        return (y / x.dtype.type(windows.places)).astype(input.dtype)
    matrices = [
        _build_averaging_matrix(n, m, x.dtype) for n, m in zip(spatial, output, strict=True)
    ]
    return _multiply_by_matrices(x, matrices).astype(input.dtype)


@lowering("_adaptive_avg_pool1d_backward", "_adaptive_avg_pool2d_backward",
          "_adaptive_avg_pool3d_backward")
def _adaptive_average_backward(
    g: Symbol, spatial: Sequence[int], output: Sequence[int]
) -> Symbol:
    share = wrap_node(_cast_to_compute_type(g))
    if _has_even_windows(spatial, output):
        like = graph.constant(0, share.node.type, (*g.shape[: -len(spatial)], *spatial))
        windows = Windows(like, _EvenWindows(spatial, output))
        share = share / share.dtype.type(windows.places)
        gradient = windows.undivide(broadcast_to(windows.add_place_axes(share.node), windows.split))
        return wrap_node(gradient).astype(g.dtype)
    matrices = [
        _build_averaging_matrix(n, m, share.dtype).T for n, m in zip(spatial, output, strict=True)
    ]
    return _multiply_by_matrices(share, matrices).astype(g.dtype)


@lowering("_adaptive_max_pool1d", "_adaptive_max_pool2d", "_adaptive_max_pool3d")
def _adaptive_largest(
    input: Symbol, output: Sequence[int]
) -> tuple[Symbol, Symbol]:
    """Pool cell by cell, since cells differ in size."""
    rank = len(output)
    spatial, lead = input.shape[-rank:], input.shape[:-rank]
    numbers = np.arange(math.prod(spatial)).reshape(spatial)
    tops, positions = [], []
    for position in product(*map(range, output)):
        cell = tuple(slice(i * n // m, -(-(i + 1) * n // m))
                     for i, n, m in zip(position, spatial, output, strict=True))
        part = input[(Ellipsis, *cell)].reshape((*lead, -1))
        best = np.argmax(part, -1)
        positions.append(wrap_node(literal(numbers[cell].reshape(-1)))[best])
        tops.append(np.take_along_axis(part, best[..., None], -1)[..., 0])
    shape = (*lead, *output)
    return np.stack(tops, -1).reshape(shape), np.stack(positions, -1).reshape(shape)
