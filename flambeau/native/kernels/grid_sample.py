"""Images sampled at the points of a grid, and the gradients of images and grids."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from ..loop_ir.expression_builder import Value, apply, constant, where
from ..loop_ir.index_notation import (
    create_indices, create_sizes, load, nest, repeat, store, update, vectorize,
)
from ..loop_ir.ir import (
    Accumulator, Affine, Begin, Buffer, Kernel, LoopKind, ReduceOp, Scalar, Size, Statement, Type,
)
from ..target.eager_costs import SAMPLED_POINTS_PER_BLOCK

T = TypeVar("T", int, Size)

# of an axis: factor and shift into pixels, last pixel, where mirrors begin, span
NUMBERS_PER_AXIS = 5


@dataclass(frozen=True)
class Sampling:
    """The settings that a kernel is compiled for; `axes`: spatial axes of an image."""

    type: Type
    mode: str
    padding: str
    axes: int


@dataclass(frozen=True)
class Tap:
    """A pixel that contributes to a point: its number, whether it exists, its weight.

    `slopes`: the weight's derivative with respect to the point's coordinate along each axis.
    """

    place: Value
    inside: Value
    weight: Value
    slopes: tuple[Value, ...]


def _add(terms: Sequence[Value]) -> Value:
    return functools.reduce(operator.add, terms)


def _multiply(factors: Sequence[Value]) -> Value:
    return functools.reduce(operator.mul, factors)


class _SampleBuilder:
    """Writes one point's expressions; axes are in the image's order, the reverse of the grid's."""

    def __init__(self, sampling: Sampling, point: Affine, grid: Buffer) -> None:
        self.what, self.point, self.grid = sampling, point, grid
        self.numbers = Buffer(sampling.type, "numbers")
        self.strides = Buffer(Type.I64, "strides")

    def of(self, value: float) -> Value:
        return constant(value, self.what.type)

    def number(self, axis: int, field: int) -> Value:
        return load(self.numbers, axis * NUMBERS_PER_AXIS + field)

    # Coordinates.

    def coordinate(self, axis: int) -> tuple[Value, Value]:
        """Return the point along an axis, in pixels, and its derivative by the grid's value."""
        coordinate = load(self.grid, self.what.axes - 1 - axis + self.point)
        factor = self.number(axis, 0)
        x = apply(Scalar.FMA, coordinate + 1, factor, self.number(axis, 1))
        if self.what.mode == "bicubic":
            return x, factor
        x, slope = self.pad(axis, x)
        return x, factor if slope is None else factor * slope

    def pad(self, axis: int, x: Value) -> tuple[Value, Value | None]:
        """Return a coordinate after padding, and its derivative by the coordinate before it."""
        if self.what.padding == "zeros":
            return x, None
        slope = self.of(1)
        if self.what.padding == "reflection":
            x, slope = self.reflect(axis, x)
        last = self.number(axis, 2)
        above, below = x > 0, x < last
        slope = where(above & below, slope, 0)
        return where(below, where(above, x, 0), where(above, last, 0)), slope

    def reflect(self, axis: int, x: Value) -> tuple[Value, Value]:
        low, span = self.number(axis, 3), self.number(axis, 4)
        distance = abs(x - low)
        flips = apply(Scalar.FLOOR, distance / span)
        extra, half = distance - flips * span, flips * 0.5
        even, has_span = apply(Scalar.FLOOR, half) == half, span > 0
        y = where(even, extra, span - extra) + low
        slope = where(even ^ (x >= low), self.of(-1), 1)
        return where(has_span, y, 0), where(has_span, slope, 0)

    # Taps.

    def axis_taps(self, axis: int) -> list[tuple[Value, Value, Value]]:
        """Return positions as floats, weights, and their derivatives along one axis."""
        x, slope = self.coordinate(axis)
        if self.what.mode == "nearest":
            return [(apply(Scalar.ROUND, x), self.of(1), self.of(0))]
        floor = apply(Scalar.FLOOR, x)
        beyond = x - floor
        if self.what.mode == "bilinear":
            return [(floor, 1 - beyond, -slope), (floor + 1, beyond, slope)]
        taps = [self.pad(axis, floor + (k - 1))[0] for k in range(4)]
        return [
            (place, weight, slope * by)
            for place, (weight, by) in zip(taps, self.cubic(beyond), strict=True)
        ]

    def cubic(self, t: Value) -> list[tuple[Value, Value]]:
        """Return cubic convolution's four weights at distance t, and derivatives (a = -3/4)."""
        a = -0.75
        outer = (a, -5 * a, 8 * a, -4 * a)
        inner = (a + 2, -(a + 3), 0.0, 1.0)
        weights = []
        for x, terms, sign in ((t + 1, outer, 1), (t, inner, 1), (1 - t, inner, -1),
                               (2 - t, outer, -1)):
            p, q, r, s = terms
            value = self.polynomial(x, (p, q, r, s))
            slope = self.polynomial(x, (3 * p, 2 * q, r))
            weights.append((value, slope if sign > 0 else -slope))
        return weights

    def polynomial(self, x: Value, terms: Sequence[float]) -> Value:
        y = self.of(terms[0])
        for term in terms[1:]:
            y = y * x + term
        return y

    def taps(self) -> list[Tap]:
        """Return all taps of the point."""
        along = [self.axis_taps(axis) for axis in range(self.what.axes)]
        taps_by_axis = [[self.whole(axis, place) for place, _, _ in taps]
                        for axis, taps in enumerate(along)]
        taps = []
        for corner in itertools.product(*(range(len(taps)) for taps in along)):
            at = [taps_by_axis[axis][k] for axis, k in enumerate(corner)]
            place, inside = at[0]
            for other, also in at[1:]:
                place, inside = place + other, inside & also
            parts = [along[axis][k] for axis, k in enumerate(corner)]
            weights = [weight for _, weight, _ in parts]
            slopes = tuple([
                _multiply([by if i == axis else w for i, w in enumerate(weights)])
                for axis, (_, _, by) in enumerate(parts)
            ])
            taps.append(Tap(place, inside, _multiply(weights), slopes))
        return taps

    def whole(self, axis: int, place: Value) -> tuple[Value, Value]:
        """Return a position's part of the pixel number, and whether it is inside the image."""
        inside = (place >= 0) & (place <= self.number(axis, 2))
        within = where(inside, place, 0).cast(Type.I64)
        if axis == self.what.axes - 1:
            return within, inside
        return within * load(self.strides, axis), inside


# ------------------------------------------------------------------------------------ kernels


class PointSizes(NamedTuple, Generic[T]):
    """The sizes of kernels that loop over points, in order: those of the loops, the pixels of an
    image, and elements of an image, an entry of the grid, a line of it, and an entry and a channel
    of the result."""

    batch: T
    rows: T
    columns: T
    channels: T
    pixels: T
    image: T
    entry: T
    line: T
    result: T
    points: T


class _PointNest:
    """The loops over the points of a grid."""

    def __init__(self, type: Type, mode: str, padding: str, axes: int) -> None:
        self.sampling = Sampling(type, mode, padding, axes)
        self.sizes: PointSizes[Size] = create_sizes(PointSizes)
        self.n, self.row, self.column, self.c = create_indices("n row column c")
        s = self.sizes
        self.point = self.n * s.entry + self.row * s.line + self.column * axes
        self.element = self.n * s.result + self.c * s.points + self.row * s.columns + self.column
        self.x, self.grid = Buffer(type, "x"), Buffer(type, "grid")
        self.builder = _SampleBuilder(self.sampling, self.point, self.grid)
        self.taps = self.builder.taps()

    def load_taps(self) -> list[Value]:
        """Return the elements of x at the taps."""
        at = self.n * self.sizes.image + self.c * self.sizes.pixels
        return [load(self.x, at, (tap.place, 1), mask=tap.inside) for tap in self.taps]

    def kernel(self, name: str, first: list[Buffer], y: Buffer, *body: Statement) -> Kernel:
        s, b = self.sizes, self.builder
        points = nest([vectorize(self.column, s.columns, *body)],
                      (self.n, s.batch), (self.row, s.rows))
        return Kernel(name, [*first, self.grid, b.numbers, b.strides, y], [points], list(s))


def sample(type: Type, mode: str, padding: str, axes: int) -> Kernel:
    """Buffers: x (n, c, pixels), grid (n, rows, columns, axes), numbers, strides, y."""
    p, y = _PointNest(type, mode, padding, axes), Buffer(type, "y")
    total = _add([
        value if mode == "nearest" else value * tap.weight
        for tap, value in zip(p.taps, p.load_taps(), strict=True)])
    pixel = repeat(p.c, p.sizes.channels, store(y, p.element, total))
    return p.kernel("sample", [p.x], y, pixel)


def grid_backward(type: Type, mode: str, padding: str, axes: int) -> Kernel:
    """The cotangent of the grid. Buffers: x, g (as y), grid, numbers, strides, made (as grid)."""
    p, g, y = _PointNest(type, mode, padding, axes), Buffer(type, "g"), Buffer(type, "made")
    sums = [Accumulator(ReduceOp.SUM, type) for _ in range(axes)]
    above, values = load(g, p.element), p.load_taps()
    updates = [
        update(total, above * _add([
            v * tap.slopes[axis] for tap, v in zip(p.taps, values, strict=True)]))
        for axis, total in enumerate(sums)
    ]
    stores = [store(y, axes - 1 - axis + p.point, Value(total)) for axis, total in enumerate(sums)]
    return p.kernel("points_back", [p.x, g], y, *map(Begin, sums),
                    repeat(p.c, p.sizes.channels, *updates), *stores)


def image_backward(type: Type, mode: str, padding: str, axes: int) -> Kernel:
    """Add the cotangent of the image. Buffers: g, grid, numbers, strides, made (as x).

    A thread has some channels of one image for itself: it works out the taps of a block of points,
    then adds them up in each channel. Sizes: n, parts of the channels, blocks of points, points of
    a block (up to BLOCK), channels of a part; elements of g's image, its channel, an entry of the
    grid, a block of it; of an image, pixels, a part's channels in g and in the image.
    """
    g, grid, y = (Buffer(type, name) for name in ("g", "grid", "made"))
    n, part, block, p, c, q = create_indices("n part block p c q")
    names = ("batch", "parts", "blocks", "size", "channels", "given", "points", "entry", "line",
             "image", "pixels", "part_given", "part_made")
    sizes = [Size(name) for name in names]
    batch, parts, blocks, size, channels, cotangent_elements, points, *rest = sizes
    entry, line, image, pixels, cotangent_part, gradient_part = rest
    builder = _SampleBuilder(
        Sampling(type, mode, padding, axes), n * entry + block * line + p * axes, grid)
    taps = builder.taps()
    places = Buffer(Type.I32, "places", SAMPLED_POINTS_PER_BLOCK * len(taps))
    weights = Buffer(type, "weights", SAMPLED_POINTS_PER_BLOCK * len(taps))
    above = Accumulator(ReduceOp.SUM, type, "above")
    cotangent = load(g, n * cotangent_elements + part * cotangent_part + c * points
                     + block * size + q)
    keep: list[Statement] = []
    add: list[Statement] = [Begin(above, cotangent.expression)]
    for k, tap in enumerate(taps):
        first = k * SAMPLED_POINTS_PER_BLOCK
        keep.append(store(weights, first + p, tap.weight))
        keep.append(store(places, first + p, where(tap.inside, tap.place.cast(Type.I32), -1)))
        position = load(places, first + q).cast(Type.I64)
        add.append(store(y, n * image + part * gradient_part + c * pixels,
                         Value(above) * load(weights, first + q), (position, 1),
                         mask=position >= 0, add=True))
    walk = repeat(block, blocks, vectorize(p, size, *keep),
                  nest(add, (c, channels), (q, size), kind=LoopKind.SERIAL))
    body = nest([walk], (n, batch), (part, parts))
    return Kernel("image_back", [g, grid, builder.numbers, builder.strides, y], [body], sizes)
