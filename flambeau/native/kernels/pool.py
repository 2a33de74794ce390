"""Pooling as kernels: maxima and averages of windows, and their gradients, in two axes.

Lanes run over what is innermost in memory: channels, or columns. Padding is -inf to a maximum and 0
to a sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, prod

from ..loops import (
    Accumulator, Affine, Apply, Axis, Begin, Buffer, Constant, Expression, Extent, Fold, Index,
    Kernel, Kind, Load, Loop, Position, Scalar, Size, Statement, Store, Type, Update,
)  # fmt: skip
from .conv import Strides


@dataclass(frozen=True)
class Pooling:
    """Windows over x (n, c, h, w), giving y (n, c, oh, ow); `padding`: before each axis.

    The number of images may be a Size: the kernel's only one.
    """

    type: Type
    batch: Extent
    channels: int
    spatial: tuple[int, int]
    output: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    x: Strides
    y: Strides

    @property
    def sizes(self) -> list[Size]:
        """What is not known."""
        return [self.batch] if isinstance(self.batch, Size) else []

    @property
    def last(self) -> bool:
        """Whether channels are innermost in memory."""
        return self.x[1] == 1 and self.channels > 1

    @property
    def apart(self) -> bool:
        """Whether no two windows share an element."""
        settings = zip(self.stride, self.kernel, self.dilation, strict=True)
        return all(s >= (k - 1) * d + 1 for s, k, d in settings)

    @property
    def covers(self) -> bool:
        """Whether every element of x is in a window."""
        return all(
            k == s and d == 1 and n <= o * s - p
            for k, s, d, n, o, p in zip(self.kernel, self.stride, self.dilation, self.spatial,
                                        self.output, self.padding, strict=True)
        )  # fmt: skip


class _Loops:
    """The loops over images, channels and positions, and where their indices are in memory."""

    def __init__(self, p: Pooling, extents: Sequence[int]) -> None:
        self.p = p
        self.n, self.c = Axis(Index("n"), p.batch), Axis(Index("c"), p.channels)
        self.h, self.w = Axis(Index("h"), extents[0]), Axis(Index("w"), extents[1])

    def nest(self, body: list[Statement], lanes: bool = True) -> Statement:
        """All of them, the first two shared out among threads."""
        order = (self.n, self.h, self.w, self.c) if self.p.last \
            else (self.n, self.c, self.h, self.w)  # fmt: skip
        for k, axis in reversed(list(enumerate(order))):
            kind = Kind.PARALLEL if k < 2 else Kind.LANES if lanes and k == 3 else Kind.SERIAL
            body = [Loop(axis.index, axis.extent, body, kind)]
        return body[0]

    def at(self, strides: Strides, steps: Sequence[int] = (1, 1), offsets: Sequence[int] = (0, 0)
           ) -> Affine:  # fmt: skip
        """The position at offset + step * index along both spatial axes."""
        base = offsets[0] * strides[2] + offsets[1] * strides[3]
        return Affine(base, (
            (self.n.index, strides[0]), (self.c.index, strides[1]),
            (self.h.index, strides[2] * steps[0]), (self.w.index, strides[3] * steps[1]),
        ))  # fmt: skip

    def inside(self, steps: Sequence[int], offsets: Sequence[int], extents: Sequence[int]
               ) -> Expression | None:  # fmt: skip
        """The mask of offset + step * index within an image; None where it always is."""
        found: Expression | None = None
        for axis, step, offset, n in zip((self.h, self.w), steps, offsets, extents, strict=True):
            at = Position(Affine(offset, ((axis.index, step),)))
            last = offset + step * (int(axis.extent) - 1)  # type: ignore[arg-type]
            if offset < 0:
                found = _both(found, Apply(Scalar.GE, (at, _number(0)), Type.BOOL))
            if last >= n:
                found = _both(found, Apply(Scalar.LT, (at, _number(n)), Type.BOOL))
        return found


def _number(value: int) -> Constant:
    return Constant(Type.I64, value)


def _both(a: Expression | None, b: Expression) -> Expression:
    return b if a is None else Apply(Scalar.AND, (a, b), Type.BOOL)


def _entries(p: Pooling) -> Iterator[tuple[int, int]]:
    """Where each entry of a window is, from the window's first element that is not padding."""
    for i, j in product(range(p.kernel[0]), range(p.kernel[1])):
        yield i * p.dilation[0] - p.padding[0], j * p.dilation[1] - p.padding[1]


def _met(p: Pooling, loops: _Loops, x: Buffer, offsets: Sequence[int], outside: float
         ) -> tuple[Expression, Expression | None]:  # fmt: skip
    """The element that an entry of the window meets, and its mask."""
    mask = loops.inside(p.stride, offsets, p.spatial)
    value: Expression = Load(x, loops.at(p.x, p.stride, offsets), mask=mask)
    if mask is not None and outside:
        value = Apply(Scalar.WHERE, (mask, value, Constant(p.type, outside)), p.type)
    return value, mask


def maxima(p: Pooling, places: bool = False) -> Kernel:
    """Buffers x, y, and with `places` the maxima's positions in the flattened image, I64.

    Of equal maxima the first counts; NaN is greatest.
    """
    x, y, where = Buffer(p.type, "x"), Buffer(p.type, "y"), Buffer(Type.I64, "places")
    loops = _Loops(p, p.output)
    top = Accumulator(Fold.MAXIMUM, p.type, "top")
    place = Accumulator(Fold.ARGMAX, Type.I64, "place")
    body: list[Statement] = [Begin(top), *([Begin(place)] if places else [])]
    for offsets in _entries(p):
        value, mask = _met(p, loops, x, offsets, -inf)
        body.append(Update(top, value))
        if places:
            at: Expression = Position(loops.at((0, 0, p.spatial[1], 1), p.stride, offsets))
            if mask is not None:  # among padding and -inf, the image's first element counts
                at = Apply(Scalar.WHERE, (mask, at, _number(1 << 62)), Type.I64)
            body.append(Update(place, value, at))
    body.append(Store(y, loops.at(p.y), top))
    if places:
        body.append(Store(where, loops.at(p.y), place))
    buffers = [x, y, *([where] if places else [])]
    return Kernel("max_pool", buffers, [loops.nest(body)], p.sizes)


def maxima_backward(p: Pooling) -> Kernel:
    """Buffers x, y, gy, gx: each window's gradient at its first element that is equal to y.

    Where none is equal (NaN), the window's last entry that is not padding has it.
    """
    x, y, gy, gx = (Buffer(p.type, name) for name in ("x", "y", "gy", "gx"))
    loops = _Loops(p, p.output)
    top, share = Load(y, loops.at(p.y)), Load(gy, loops.at(p.y))
    free: Expression | None = None
    body: list[Statement] = []
    zero = Constant(p.type, 0.0)
    entries = list(_entries(p))
    for k, offsets in enumerate(entries):
        value, mask = _met(p, loops, x, offsets, 0.0)
        hit: Expression = Apply(Scalar.EQ, (value, top), Type.BOOL)
        if mask is not None:
            hit = _both(mask, hit)
        elif k == len(entries) - 1 and free is not None:
            hit = free
        given = hit if free is None else _both(free, hit)
        missed = Apply(Scalar.NOT, (hit,), Type.BOOL)
        free = missed if free is None else _both(free, missed)
        at = loops.at(p.x, p.stride, offsets)
        put = Apply(Scalar.WHERE, (given, share, zero), p.type)
        body.append(Store(gx, at, put, mask=mask, add=not p.apart))
    # Windows that overlap add to one element: then lanes may not run along a row.
    nest = loops.nest(body, lanes=p.apart or p.last)
    if not p.apart:  # what overlaps is one thread's
        nest = _serial_rows(loops, body)
    if not (p.apart and p.covers):
        nest = _cleared_first(p, gx, nest, loops)
    return Kernel("max_pool_backward", [x, y, gy, gx], [nest], p.sizes)


def _serial_rows(loops: _Loops, body: list[Statement]) -> Statement:
    """Shared out by images (and channels), no two threads at one image."""
    p = loops.p
    order = (loops.n, loops.h, loops.w, loops.c) if p.last else (loops.n, loops.c, loops.h, loops.w)
    for k, axis in reversed(list(enumerate(order))):
        shared = k == 0 or (k == 1 and not p.last)
        kind = Kind.PARALLEL if shared else Kind.LANES if k == 3 and p.last else Kind.SERIAL
        body = [Loop(axis.index, axis.extent, body, kind)]
    return body[0]


def _cleared_first(p: Pooling, gx: Buffer, nest: Statement, loops: _Loops) -> Statement:
    """Puts zeros into an image before its windows are spread."""
    assert isinstance(nest, Loop)
    h, w, c = Index("zh"), Index("zw"), Index("zc")
    inner = [(h, p.spatial[0], p.x[2]), (w, p.spatial[1], p.x[3])]
    inner = [*inner, (c, p.channels, p.x[1])] if p.last else inner
    outer = [(loops.n.index, p.x[0])] + ([] if p.last else [(loops.c.index, p.x[1])])
    place = Affine(0, (*outer, *((i, s) for i, _, s in inner)))
    clear: list[Statement] = [Store(gx, place, Constant(p.type, 0.0))]
    for k, (index, extent, _) in reversed(list(enumerate(inner))):
        kind = Kind.LANES if k == len(inner) - 1 else Kind.SERIAL
        clear = [Loop(index, extent, clear, kind)]
    around = nest if p.last else nest.body[0]  # the innermost shared loop
    assert isinstance(around, Loop)
    rest = [
        Loop(one.index, one.extent, one.body, Kind.SERIAL if one.kind is Kind.PARALLEL
             else one.kind) if isinstance(one, Loop) else one for one in around.body
    ]  # fmt: skip
    shared = Loop(around.index, around.extent, [*clear, *rest], Kind.PARALLEL)
    return shared if p.last else Loop(nest.index, nest.extent, [shared], Kind.PARALLEL)


def averages(p: Pooling, divisor: float | None) -> Kernel:
    """Buffers x, y: sums of windows over `divisor`; where None, over a third one (oh, ow)."""
    x, y, divisors = (Buffer(p.type, name) for name in ("x", "y", "divisors"))
    loops = _Loops(p, p.output)
    total = Accumulator(Fold.SUM, p.type)
    body: list[Statement] = [Begin(total)]
    for offsets in _entries(p):
        body.append(Update(total, _met(p, loops, x, offsets, 0.0)[0]))
    by: Expression = Load(divisors, loops.at((0, 0, p.output[1], 1))) if divisor is None \
        else Constant(p.type, divisor)  # fmt: skip
    body.append(Store(y, loops.at(p.y), Apply(Scalar.DIV, (total, by), p.type)))
    return Kernel("average_pool", [x, *([divisors] if divisor is None else []), y],
                  [loops.nest(body)], p.sizes)  # fmt: skip


def averages_backward(p: Pooling, divisor: float | None) -> Kernel:
    """Buffers gy, (divisors,) gx: each element adds up the shares of the windows that it is in.

    Positions that are congruent modulo the stride meet the same entries of their windows.
    """
    gy, gx, divisors = (Buffer(p.type, name) for name in ("gy", "gx", "divisors"))
    body: list[Statement] = []
    for phase in product(range(p.stride[0]), range(p.stride[1])):
        counts = [-(-(n - r) // s) for n, r, s in zip(p.spatial, phase, p.stride, strict=True)]
        if not prod(counts):
            continue
        loops = _Loops(p, counts)
        total = Accumulator(Fold.SUM, p.type)
        one: list[Statement] = [Begin(total)]
        for offsets in _meeting(p, phase):
            mask = loops.inside((1, 1), offsets, p.output)
            share: Expression = Load(gy, loops.at(p.y, (1, 1), offsets), mask=mask)
            if divisor is None:
                at = loops.at((0, 0, p.output[1], 1), (1, 1), offsets)
                by: Expression = Load(divisors, at, mask=mask)
                if mask is not None:
                    by = Apply(Scalar.WHERE, (mask, by, Constant(p.type, 1.0)), p.type)
            else:
                by = Constant(p.type, divisor)
            one.append(Update(total, Apply(Scalar.DIV, (share, by), p.type)))
        one.append(Store(gx, loops.at(p.x, p.stride, phase), total))
        body.append(loops.nest(one))
    buffers = [gy, *([divisors] if divisor is None else []), gx]
    return Kernel("average_pool_backward", buffers, body, p.sizes)


def _meeting(p: Pooling, phase: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """The windows that hold an element of a phase, from the phase's own number on."""
    found = [
        [(r + q - i * d) // s for i in range(k) if (r + q - i * d) % s == 0]
        for r, q, d, s, k in zip(phase, p.padding, p.dilation, p.stride, p.kernel, strict=True)
    ]
    return product(*found)  # type: ignore[return-value]
