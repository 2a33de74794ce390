"""Depthwise convolutions as kernels: every output channel reads one input channel.

Rows are innermost in memory and run in lanes; the taps are written out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from ..loops import (
    Accumulator, Affine, Apply, Begin, Buffer, Expression, Extent, Fold, Index, Kernel, Kind, Load,
    Loop, Scalar, Size, Statement, Store, Update,
)  # fmt: skip
from .conv import Geometry, image, taps


class _Loops:
    """Images, input channels, output channels of each, and two axes of places."""

    def __init__(self, g: Geometry, extents: Sequence[int]) -> None:
        self.g, self.extents = g, extents
        self.n, self.c, self.m, self.h, self.w = (Index(name) for name in "ncmhw")

    @property
    def inputs(self) -> list[tuple[Index, int]]:
        """Where an image and a channel are in x."""
        return [(self.n, self.g.x[0]), (self.c, self.g.x[1])]

    @property
    def outputs(self) -> list[tuple[Index, int]]:
        """Where an image and a channel are in y."""
        y = self.g.y
        return [(self.n, y[0]), (self.c, y[1] * self.g.outputs_each), (self.m, y[1])]

    def weight(self, tap: tuple[int, int]) -> Affine:
        """A tap's place."""
        each, (o, _, h, w) = self.g.outputs_each, self.g.weight
        return Affine(tap[0] * h + tap[1] * w, ((self.c, o * each), (self.m, o)))

    def place(self, others: Sequence[tuple[Index, int]], strides: Sequence[int],
              steps: Sequence[int] = (1, 1), offsets: Sequence[int] = (0, 0)
              ) -> Affine:  # fmt: skip
        """A place of an image."""
        base = offsets[0] * strides[2] + offsets[1] * strides[3]
        return Affine(base, (*others, (self.h, strides[2] * steps[0]),
                             (self.w, strides[3] * steps[1])))  # fmt: skip

    def met(self, buffer: Buffer, others: Sequence[tuple[Index, int]], strides: Sequence[int],
            steps: Sequence[int], offsets: Sequence[int], extents: Sequence[int]
            ) -> Load:  # fmt: skip
        """What is `steps` and `offsets` away in an image; zero outside of it."""
        ends = [o + s * (n - 1) for o, s, n in zip(offsets, steps, self.extents, strict=True)]
        masked = min(offsets) < 0 or any(e >= n for e, n in zip(ends, extents, strict=True))
        where = [[(self.h, steps[0])], [(self.w, steps[1])]]
        n, c, h, w = strides
        return image(buffer, (n, c, h, w), others, where, offsets, extents, masked)

    def places(self, body: list[Statement]) -> Statement:
        """All places of an image."""
        lanes = Loop(self.w, self.extents[1], body, Kind.LANES)
        return Loop(self.h, self.extents[0], [lanes])

    def channels(self, body: Statement, outputs: bool) -> Statement:
        """All channels, shared out."""
        if outputs:
            body = Loop(self.m, self.g.outputs_each, [body])
        return Loop(self.c, self.g.groups, [body], Kind.PARALLEL)


def _taps(g: Geometry) -> list[tuple[tuple[int, int], list[int]]]:
    """Each tap, and how far from the first place of its window it is."""
    high, wide = g.kernel
    return [
        (tap, [i * d - p for i, d, p in zip(tap, g.dilation, g.padding, strict=True)])
        for tap in product(range(high), range(wide))
    ]  # fmt: skip


def _product(g: Geometry, x: Expression, y: Expression) -> Expression:
    return Apply(Scalar.MUL, (x, y), g.type)


def forward(g: Geometry, bias: bool = False, images: Size | None = None) -> Kernel:
    """Buffers x, weight, (bias,) y. `images`: for any number of images."""
    x, weight, shift, y = (Buffer(g.type, name) for name in ("x", "weight", "bias", "y"))
    loops, total = _Loops(g, g.output), Accumulator(Fold.SUM, g.type)
    body: list[Statement] = [Begin(total)]
    for tap, offsets in _taps(g):
        read = loops.met(x, loops.inputs, g.x, g.stride, offsets, g.spatial)
        body.append(Update(total, _product(g, read, Load(weight, loops.weight(tap)))))
    value: Expression = total
    if bias:
        at = Affine(0, ((loops.c, g.outputs_each), (loops.m, 1)))
        value = Apply(Scalar.ADD, (total, Load(shift, at)), g.type)
    body.append(Store(y, loops.place(loops.outputs, g.y), value))
    nest = loops.channels(loops.places(body), True)
    buffers = [x, weight, *([shift] if bias else []), y]
    return Kernel("depthwise", buffers, [_whole(images or g.batch, loops, nest)], _sizes(images))


def backward_data(g: Geometry, images: Size | None = None) -> Kernel:
    """Buffers gy, weight, gx: the gradient of the input, phase by phase of the stride."""
    gy, weight, gx = (Buffer(g.type, name) for name in ("gy", "weight", "gx"))
    statements: list[Statement] = []
    for phase in product(*map(range, g.stride)):
        counts = [-(-(n - p) // s) for n, p, s in zip(g.spatial, phase, g.stride, strict=True)]
        if not prod(counts):
            continue
        loops, total = _Loops(g, counts), Accumulator(Fold.SUM, g.type)
        meets = [taps(g, axis, phase[axis]) for axis in (0, 1)]
        sums: list[Statement] = []
        for i, j in product(*(range(len(meet)) for meet, _, _ in meets)):
            offsets = [start - less * k for k, (_, start, less) in zip((i, j), meets, strict=True)]
            read = loops.met(gy, loops.outputs, g.y, (1, 1), offsets, g.output)
            factor = Load(weight, loops.weight((meets[0][0][i], meets[1][0][j])))
            sums.append(Update(total, _product(g, read, factor)))
        if sums:
            sums = [Loop(loops.m, g.outputs_each, sums)]
        place = loops.place(loops.inputs, g.x, g.stride, phase)
        nest = loops.places([Begin(total), *sums, Store(gx, place, total)])
        statements.append(_whole(images or g.batch, loops, loops.channels(nest, False)))
    return Kernel("depthwise_data", [gy, weight, gx], statements, _sizes(images))


def backward_weight(g: Geometry, images: Size | None = None) -> Kernel:
    """Buffers x, gy, gw: the gradient of the weight."""
    x, gy, gw = (Buffer(g.type, name) for name in ("x", "gy", "gw"))
    loops = _Loops(g, g.output)
    found = _taps(g)
    totals = [Accumulator(Fold.SUM, g.type) for _ in found]
    share = Load(gy, loops.place(loops.outputs, g.y))
    updates: list[Statement] = []
    for (_, offsets), total in zip(found, totals, strict=True):
        read = loops.met(x, loops.inputs, g.x, g.stride, offsets, g.spatial)
        updates.append(Update(total, _product(g, read, share)))
    sums = Loop(loops.n, images or g.batch, [loops.places(updates)])
    stores = [Store(gw, loops.weight(tap), total)
              for (tap, _), total in zip(found, totals, strict=True)]  # fmt: skip
    body: list[Statement] = [*map(Begin, totals), sums, *stores]
    each = Loop(loops.m, g.outputs_each, body)
    shared = Loop(loops.c, g.groups, [each], Kind.PARALLEL)
    return Kernel("depthwise_weight", [x, gy, gw], [shared], _sizes(images))


def _sizes(images: Size | None) -> list[Size]:
    return [] if images is None else [images]


def _whole(images: Extent, loops: _Loops, nest: Statement) -> Statement:
    return Loop(loops.n, images, [nest], Kind.PARALLEL)
