"""Images sampled at the points of a grid, and the gradients of images and grids."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from ..loop_ir.ir import (
    Accumulator, Affine, Apply, Begin, Buffer, Constant, Expression, Index, Kernel, Load, Loop,
    LoopKind, ReduceOp, Scalar, Size, Statement, Store, Type, Update,
)
from ..target.eager_costs import SAMPLED_POINTS_PER_BLOCK

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

    place: Expression
    inside: Expression
    weight: Expression
    slopes: tuple[Expression, ...]


class _SampleBuilder:
    """Writes one point's expressions; axes are in the image's order, the reverse of the grid's."""

    def __init__(self, sampling: Sampling, point: Affine, grid: Buffer) -> None:
        self.what, self.point, self.grid = sampling, point, grid
        self.numbers = Buffer(sampling.type, "numbers")
        self.strides = Buffer(Type.I64, "strides")

    # Arithmetic on the kernel's type.

    def of(self, value: float) -> Expression:
        return Constant(self.what.type, value)

    def do(self, operation: Scalar, *operands: Expression) -> Expression:
        return Apply(operation, operands, self.what.type)

    def add(self, a: Expression, b: Expression) -> Expression:
        return self.do(Scalar.ADD, a, b)

    def sub(self, a: Expression, b: Expression) -> Expression:
        return self.do(Scalar.SUB, a, b)

    def mul(self, a: Expression, b: Expression) -> Expression:
        return self.do(Scalar.MUL, a, b)

    def test(self, operation: Scalar, a: Expression, b: Expression) -> Expression:
        return Apply(operation, (a, b), Type.BOOL)

    def where(self, condition: Expression, a: Expression, b: Expression) -> Expression:
        return Apply(Scalar.WHERE, (condition, a, b), a.type)

    def number(self, axis: int, field: int) -> Expression:
        return Load(self.numbers, Affine(axis * NUMBERS_PER_AXIS + field))

    # Coordinates.

    def coordinate(self, axis: int) -> tuple[Expression, Expression]:
        """Return the point along an axis, in pixels, and its derivative by the grid's value."""
        last = self.what.axes - 1 - axis
        coordinate = Load(self.grid, Affine(self.point.base + last, self.point.terms))
        factor = self.number(axis, 0)
        x = self.do(Scalar.FMA, self.add(coordinate, self.of(1)), factor, self.number(axis, 1))
        if self.what.mode == "bicubic":
            return x, factor
        x, slope = self.pad(axis, x)
        return x, factor if slope is None else self.mul(factor, slope)

    def pad(self, axis: int, x: Expression) -> tuple[Expression, Expression | None]:
        """Return a coordinate after padding, and its derivative by the coordinate before it."""
        if self.what.padding == "zeros":
            return x, None
        slope: Expression = self.of(1)
        if self.what.padding == "reflection":
            x, slope = self.reflect(axis, x)
        zero, last = self.of(0), self.number(axis, 2)
        above, below = self.test(Scalar.GT, x, zero), self.test(Scalar.LT, x, last)
        slope = self.where(Apply(Scalar.AND, (above, below), Type.BOOL), slope, zero)
        return self.where(below, self.where(above, x, zero), self.where(above, last, zero)), slope

    def reflect(self, axis: int, x: Expression) -> tuple[Expression, Expression]:
        low, span, unit = self.number(axis, 3), self.number(axis, 4), self.of(1)
        distance = self.do(Scalar.ABS, self.sub(x, low))
        flips = self.do(Scalar.FLOOR, self.do(Scalar.DIV, distance, span))
        extra = self.sub(distance, self.mul(flips, span))
        half = self.mul(flips, self.of(0.5))
        even = self.test(Scalar.EQ, self.do(Scalar.FLOOR, half), half)
        has_span = self.test(Scalar.GT, span, self.of(0))
        y = self.add(self.where(even, extra, self.sub(span, extra)), low)
        falls = Apply(Scalar.XOR, (even, self.test(Scalar.GE, x, low)), Type.BOOL)
        slope = self.where(falls, self.of(-1), unit)
        return self.where(has_span, y, self.of(0)), self.where(has_span, slope, self.of(0))

    # Taps.

    def axis_taps(self, axis: int) -> list[tuple[Expression, Expression, Expression]]:
        """Return positions as floats, weights, and their derivatives along one axis."""
        x, slope = self.coordinate(axis)
        unit, zero = self.of(1), self.of(0)
        if self.what.mode == "nearest":
            return [(self.do(Scalar.ROUND, x), unit, zero)]
        floor = self.do(Scalar.FLOOR, x)
        beyond = self.sub(x, floor)
        if self.what.mode == "bilinear":
            back = self.do(Scalar.NEG, slope)
            return [(floor, self.sub(unit, beyond), back), (self.add(floor, unit), beyond, slope)]
        taps = [self.pad(axis, self.add(floor, self.of(k - 1)))[0] for k in range(4)]
        return [
            (place, weight, self.mul(slope, by))
            for place, (weight, by) in zip(taps, self.cubic(beyond), strict=True)
        ]

    def cubic(self, t: Expression) -> list[tuple[Expression, Expression]]:
        """Return cubic convolution's four weights at distance t, and derivatives (a = -3/4)."""
        unit, a = self.of(1), -0.75
        after, two = self.sub(unit, t), self.of(2)
        outer = (a, -5 * a, 8 * a, -4 * a)
        inner = (a + 2, -(a + 3), 0.0, 1.0)
        weights = []
        for x, terms, sign in ((self.add(t, unit), outer, 1), (t, inner, 1), (after, inner, -1),
                               (self.sub(two, t), outer, -1)):
            p, q, r, s = terms
            value = self.polynomial(x, (p, q, r, s))
            slope = self.polynomial(x, (3 * p, 2 * q, r))
            weights.append((value, slope if sign > 0 else self.do(Scalar.NEG, slope)))
        return weights

    def polynomial(self, x: Expression, terms: Sequence[float]) -> Expression:
        y = self.of(terms[0])
        for term in terms[1:]:
            y = self.add(self.mul(y, x), self.of(term))
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
                place = Apply(Scalar.ADD, (place, other), Type.I64)
                inside = Apply(Scalar.AND, (inside, also), Type.BOOL)
            parts = [along[axis][k] for axis, k in enumerate(corner)]
            weights = [weight for _, weight, _ in parts]
            slopes = tuple(
                self.product([by if i == axis else w for i, w in enumerate(weights)])
                for axis, (_, _, by) in enumerate(parts)
            )
            taps.append(Tap(place, inside, self.product(weights), slopes))
        return taps

    def whole(self, axis: int, place: Expression) -> tuple[Expression, Expression]:
        """Return a position's part of the pixel number, and whether it is inside the image."""
        inside = Apply(Scalar.AND, (self.test(Scalar.GE, place, self.of(0)),
                                    self.test(Scalar.LE, place, self.number(axis, 2))),
                       Type.BOOL)
        within = Apply(Scalar.CAST, (self.where(inside, place, self.of(0)),), Type.I64)
        if axis == self.what.axes - 1:
            return within, inside
        stride = Load(self.strides, Affine(axis))
        return Apply(Scalar.MUL, (within, stride), Type.I64), inside

    def product(self, factors: Sequence[Expression]) -> Expression:
        y = factors[0]
        for factor in factors[1:]:
            y = self.mul(y, factor)
        return y


# ------------------------------------------------------------------------------------ kernels


def _create_sizes() -> list[Size]:
    """The size parameters of kernels that loop over the points, in order."""
    names = ("batch", "rows", "columns", "channels", "pixels", "image", "entry", "line", "made",
             "points")
    return [Size(name) for name in names]


def sample(type: Type, mode: str, padding: str, axes: int) -> Kernel:
    """Buffers: x (n, c, pixels), grid (n, rows, columns, axes), numbers, strides, y.

    Sizes: n, rows, columns, c, pixels, an image's elements, and of a batch's entry of the grid, a
    row of it, and an entry of y, points of an image.
    """
    sampling = Sampling(type, mode, padding, axes)
    x, grid, y = (Buffer(sampling.type, name) for name in ("x", "grid", "y"))
    n, row, column, c = (Index(name) for name in ("n", "row", "column", "c"))
    sizes = _create_sizes()
    batch, rows, columns, channels, pixels, image, entry, line, result_elements, points = sizes
    here = ((n, entry), (row, line), (column, sampling.axes))
    maker = _SampleBuilder(sampling, Affine(0, here), grid)
    total: Expression | None = None
    for tap in maker.taps():
        value = Load(x, Affine(0, ((n, image), (c, pixels))), ((tap.place, 1),), tap.inside)
        part = value if sampling.mode == "nearest" else maker.mul(value, tap.weight)
        total = part if total is None else maker.add(total, part)
    assert total is not None
    to = Affine(0, ((n, result_elements), (c, points), (row, columns), (column, 1)))
    body: list[Statement] = [Loop(c, channels, [Store(y, to, total)])]
    body = [Loop(column, columns, body, LoopKind.VECTORIZED)]
    for index, extent in ((row, rows), (n, batch)):
        body = [Loop(index, extent, body, LoopKind.PARALLEL)]
    return Kernel("sample", [x, grid, maker.numbers, maker.strides, y], body, sizes)


def grid_backward(type: Type, mode: str, padding: str, axes: int) -> Kernel:
    """The cotangent of the grid. Buffers: x, g (as y), grid, numbers, strides, made (as grid).

    Sizes as those of `sample`.
    """
    sampling = Sampling(type, mode, padding, axes)
    x, g, grid, y = (Buffer(sampling.type, name) for name in ("x", "g", "grid", "made"))
    n, row, column, c = (Index(name) for name in ("n", "row", "column", "c"))
    batch, rows, columns, channels, pixels, image, entry, line, result_elements, points = sizes = (
        _create_sizes()
    )
    here = ((n, entry), (row, line), (column, sampling.axes))
    maker = _SampleBuilder(sampling, Affine(0, here), grid)
    sums = [Accumulator(ReduceOp.SUM, sampling.type) for _ in range(sampling.axes)]
    above = Load(g, Affine(0, ((n, result_elements), (c, points), (row, columns), (column, 1))))
    taps = maker.taps()
    updates: list[Statement] = []
    for axis, total_of_axis in enumerate(sums):
        total: Expression | None = None
        for tap, value in zip(taps, _load_taps(x, taps, Affine(0, ((n, image), (c, pixels)))),
                              strict=True):
            part = maker.mul(value, tap.slopes[axis])
            total = part if total is None else maker.add(total, part)
        assert total is not None
        updates.append(Update(total_of_axis, maker.mul(above, total)))
    body: list[Statement] = [*map(Begin, sums), Loop(c, channels, updates)]
    body += [
        Store(y, Affine(sampling.axes - 1 - axis, here), total_of_axis)
        for axis, total_of_axis in enumerate(sums)
    ]
    body = [Loop(column, columns, body, LoopKind.VECTORIZED)]
    for index, extent in ((row, rows), (n, batch)):
        body = [Loop(index, extent, body, LoopKind.PARALLEL)]
    buffers = [x, g, grid, maker.numbers, maker.strides, y]
    return Kernel("points_back", buffers, body, sizes)


def _load_taps(x: Buffer, taps: Sequence[Tap], at: Affine) -> list[Expression]:
    return [Load(x, at, ((tap.place, 1),), tap.inside) for tap in taps]


def image_backward(type: Type, mode: str, padding: str, axes: int) -> Kernel:
    """Add the cotangent of the image. Buffers: g, grid, numbers, strides, made (as x).

    A thread has some channels of one image for itself: it works out the taps of a block of points,
    then adds them up in each channel. Sizes: n, parts of the channels, blocks of points, points of
    a block (up to BLOCK), channels of a part; elements of g's image, its channel, an entry of the
    grid, a block of it; of an image, pixels, a part's channels in g and in the image.
    """
    sampling = Sampling(type, mode, padding, axes)
    g, grid, y = (Buffer(sampling.type, name) for name in ("g", "grid", "made"))
    n, part, block, p, c, q = (Index(name) for name in ("n", "part", "block", "p", "c", "q"))
    names = ("batch", "parts", "blocks", "size", "channels", "given", "points", "entry", "line",
             "image", "pixels", "part_given", "part_made")
    sizes = [Size(name) for name in names]
    batch, parts, blocks, size, channels, cotangent_elements, points, *rest = sizes
    entry, line, image, pixels, cotangent_part, gradient_part = rest
    point = Affine(0, ((n, entry), (block, line), (p, sampling.axes)))
    maker = _SampleBuilder(sampling, point, grid)
    taps = maker.taps()
    places = Buffer(Type.I32, "places", SAMPLED_POINTS_PER_BLOCK * len(taps))
    weights = Buffer(sampling.type, "weights", SAMPLED_POINTS_PER_BLOCK * len(taps))
    keep: list[Statement] = []
    add: list[Statement] = []
    above = Accumulator(ReduceOp.SUM, sampling.type, "above")
    terms = ((n, cotangent_elements), (part, cotangent_part), (c, points), (block, size), (q, 1))
    add.append(Begin(above, Load(g, Affine(0, terms))))
    for k, tap in enumerate(taps):
        keep.append(Store(weights, Affine(k * SAMPLED_POINTS_PER_BLOCK, ((p, 1),)), tap.weight))
        number: Expression = Apply(Scalar.CAST, (tap.place,), Type.I32)
        number = maker.where(tap.inside, number, Constant(Type.I32, -1))
        keep.append(Store(places, Affine(k * SAMPLED_POINTS_PER_BLOCK, ((p, 1),)), number))
        place = Affine(k * SAMPLED_POINTS_PER_BLOCK, ((q, 1),))
        position = Apply(Scalar.CAST, (Load(places, place),), Type.I64)
        inside = Apply(Scalar.GE, (position, Constant(Type.I64, 0)), Type.BOOL)
        value = maker.mul(above, Load(weights, place))
        add.append(Store(y, Affine(0, ((n, image), (part, gradient_part), (c, pixels))), value,
                         ((position, 1),), inside, add=True))
    walk = Loop(block, blocks, [
        Loop(p, size, keep, LoopKind.VECTORIZED), Loop(c, channels, [Loop(q, size, add)]),
    ])
    nest = Loop(n, batch, [Loop(part, parts, [walk], LoopKind.PARALLEL)], LoopKind.PARALLEL)
    return Kernel("image_back", [g, grid, maker.numbers, maker.strides, y], [nest], sizes)
