"""Winograd transforms of inputs, weights and outputs, and access to the numbered tiles of images.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from ...loop_ir.ir import Affine, Axis, Index, Load
from ..llvm.address import constant, multiply, offset_bytes
from ..llvm.builder import Builder
from ..llvm.types import Number
from ..llvm.vectors import load_vector, splat, store_vector
from ..loops.context import Context
from .plan import ImageAxis

Square = list[list[ir.Value]]


def transform_input(b: Builder, d: Square) -> Square:
    """B^T d B of a 4 x 4 input tile."""
    return transform_both_axes(d, lambda x: [
        b.fsub(x[0], x[2]), b.fadd(x[1], x[2]), b.fsub(x[2], x[1]), b.fsub(x[1], x[3])
    ])


def transform_weight(b: Builder, g: Square) -> Square:
    """G g G^T of 3 x 3 taps."""
    def line(x: Sequence[ir.Value]) -> list[ir.Value]:
        kind = x[0].type
        half = ir.Constant(kind, [0.5] * kind.count)
        outer, inner = b.fmul(b.fadd(x[0], x[2]), half), b.fmul(x[1], half)
        return [x[0], b.fadd(outer, inner), b.fsub(outer, inner), x[2]]

    return transform_both_axes(g, line)


def transform_output(b: Builder, m: Square) -> Square:
    """A^T m A: 2 x 2 outputs of the sixteen sums."""
    return transform_both_axes(m, lambda x: [
        b.fadd(b.fadd(x[0], x[1]), x[2]), b.fsub(b.fsub(x[1], x[2]), x[3])
    ])


def transform_both_axes(square: Square, line: object) -> Square:
    """Apply a one-dimensional transform to the columns, then to the rows."""
    assert callable(line)
    columns = [line([row[j] for row in square]) for j in range(len(square[0]))]
    return [line([column[i] for column in columns]) for i in range(len(columns[0]))]


class InputTiles:
    """Numbered tiles of a convolution's images: their addresses and loads."""

    def __init__(self, context: Context, load: Load, sides: tuple[ImageAxis, ImageAxis],
                 others: Sequence[Axis], channels: int) -> None:
        self.context, self.sides, self.others, self.load = context, sides, others, load
        self.channels = channels
        self.b: Builder = context.builder

    def place(self, number: ir.Value) -> dict[Index, ir.Value]:
        """The rows' indices of a tile's first output."""
        b, indices = self.b, {}
        for side in reversed(self.sides):
            tile = b.srem(number, constant(side.tiles))
            number = b.sdiv(number, constant(side.tiles))
            indices[side.row.index] = b.mul(tile, constant(2))
        for k, axis in reversed(list(enumerate(self.others))):
            indices[axis.index] = b.srem(number, constant(axis.extent)) if k else number
            number = b.sdiv(number, constant(axis.extent)) if k else number
        return indices

    def within(self, number: ir.Value) -> list[ir.Value]:
        """The image, row and column of a tile numbered within some images."""
        place = self.place(number)
        return [place[a.index] for a in (self.others[0], *(side.row for side in self.sides))]

    def address(self, load: Load, bindings: dict[Index, ir.Value]) -> ir.Value:
        """The address that a load has where all indices that are not known are at 0."""
        known = {**self.context.bindings, **bindings}
        terms = tuple([term for term in load.at.terms if term[0] in known])
        return self.context.address(load.buffer, Affine(load.at.base, terms), bindings)

    def spread(self, number: ir.Value, channels: Number, lanes: int, target: ir.Value, plane: int,
               known: dict[Index, ir.Value] | None = None) -> None:
        """Write a tile's channels in the sixteen places, `plane` bytes apart; the first of so
        many channels is where `known` is."""
        b, place = self.b, self.place(number)
        start = self.address(self.load, {**place, **(known or {})})
        for side in self.sides:
            start = offset_bytes(b, start, -side.shift * side.stride * 4)
        inside = [self._test_inside(side, place[side.row.index]) for side in self.sides]
        is_inside = None
        for side, masks in zip(self.sides, inside, strict=True):
            if any(position_mask is not None for position_mask in masks):
                h = place[side.row.index]
                is_inside = b.and_masks(is_inside,
                                        b.and_masks(b.icmp_signed(">=", h, constant(side.low)),
                               b.icmp_signed("<=", h, constant(side.high - 4))))
        strides = (self.sides[0].stride * 4, self.sides[1].stride * 4)
        if is_inside is None:
            self.channelwise(start, strides, channels, lanes, target, plane)
            return
        with b.if_else(is_inside) as (interior, border):
            with interior:
                self.channelwise(start, strides, channels, lanes, target, plane)
            with border:
                self.channelwise(start, strides, channels, lanes, target, plane, inside)

    def _test_inside(self, side: ImageAxis, first: ir.Value) -> list[ir.Value | None]:
        """Whether each of a tile's four positions is inside; None if always."""
        b, last = self.b, 2 * side.tiles - 2
        masks: list[ir.Value | None] = []
        for i in range(4):
            if side.low <= i and last + i < side.high:
                masks.append(None)
                continue
            position = b.add(first, constant(i - side.low))
            masks.append(b.icmp_unsigned("<", position, constant(side.high - side.low)))
        return masks

    def channelwise(self, start: ir.Value, strides: tuple[int, int], channels: Number, lanes: int,
                    target: ir.Value, plane: int,
                    inside: Sequence[Sequence[ir.Value | None]] | None = None) -> None:
        """The channels of a tile that begins at `start`; `strides`: bytes from place
        to place.
        """
        b = self.b
        masks = (
            None
            if inside is None
            else [
                [
                    None if (mask := b.and_masks(x, y)) is None else splat(b, mask, lanes)
                    for y in inside[1]
                ]
                for x in inside[0]
            ]
        )

        def vector(c: ir.Value, rest: ir.Value | None) -> None:
            source = offset_bytes(b, start, multiply(b, c, 4))
            tile = [
                [
                    load_vector(
                        b,
                        offset_bytes(b, source, i * strides[0] + j * strides[1]),
                        self.load.type,
                        lanes,
                        b.and_masks(rest, None if masks is None else masks[i][j]),
                    )
                    for j in range(4)
                ]
                for i in range(4)
            ]
            into = offset_bytes(b, target, multiply(b, c, 4))
            for k, transformed in enumerate(
                value for row in transform_input(b, tile) for value in row
            ):
                store_vector(b, transformed, offset_bytes(b, into, k * plane), 4)

        self.by_vectors(channels, self.channels, lanes, vector)

    def by_vectors(self, count: Number, extent: int, lanes: int,
                   body: Callable[[ir.Value, ir.Value | None], None]) -> None:
        """body(the first, a mask) for vectors of `count` elements, of `extent` in all.

        A part of them, but the last, is whole vectors; so there is a smaller one only where
        `extent` is not whole vectors.
        """
        b = self.b
        full = b.and_(constant(count), constant(-lanes))
        with b.counted_loop(constant(0), full, lanes) as first:
            body(first, None)
        if extent % lanes:
            with b.if_then(b.icmp_signed("<", full, constant(count))):
                body(full, b.first_lanes(extent % lanes, lanes))
