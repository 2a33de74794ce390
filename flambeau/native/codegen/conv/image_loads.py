"""Windows of an image, as a load says them whose extents, strides and padding are sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llvmlite import ir

from ...loop_ir.ir import (
    Affine, Apply, Axis, Constant, Contract, Expression, IndexValue, Load, Scalar, Size, SizeValue,
)
from .direct_blocking import Unsupported
from ..llvm.address import multiply

_Terms = tuple[Any, Any]


@dataclass(frozen=True)
class Line:
    """A coordinate of an image: output * stride + entry * dilation - padding, in [0, extent).

    `apart` is what a step of it moves in memory, in bytes.
    """

    output: Axis
    entry: Axis
    outputs: ir.Value
    entries: ir.Value
    stride: ir.Value
    dilation: ir.Value
    padding: ir.Value
    extent: ir.Value
    apart: ir.Value


@dataclass(frozen=True)
class Image:
    """What windows are taken of: axes of images and channels, strides in bytes, coordinates."""

    load: Load
    image: Axis
    channel: Axis
    images: ir.Value
    channels: ir.Value
    image_apart: ir.Value
    channel_apart: ir.Value
    rows: Line
    columns: Line
    start: ir.Value


def image_of(
    context: Any, statement: Contract, outputs: Sequence[Axis], entries: Sequence[Axis]
) -> Image:
    """The image that a Contract of any size reads windows of; raises Unsupported where it is none.

    `outputs`: the axes of images and of the windows' positions; `entries`: those of channels and
    of places in a window.
    """
    if not all(isinstance(a.extent, Size) for a in (*outputs, statement.column, *entries)):
        raise Unsupported("known extents")
    image = _image(context, statement.a, outputs, entries)
    if len(outputs) != 3 or len(entries) != 3 or len(statement.body) != 1:
        raise Unsupported("other axes than a convolution's")
    return image


def _image(context: Any, load: Load, outputs: Sequence[Axis], entries: Sequence[Axis]) -> Image:
    if load.at.base or len(load.indirect) != 2:
        raise Unsupported("no windows of an image")
    limits = dict(_limits(load.mask))
    lines = []
    for place, apart in load.indirect:
        if place not in limits:
            raise Unsupported("no mask of a window")
        lines.append(_line(context, place, limits[place], (outputs, entries), (load, apart)))
    size, own = load.type.size, [axis.index for axis in (*outputs, *entries)]
    around = replace(load.at, terms=tuple([t for t in load.at.terms if t[0] not in own]))
    (image, image_apart), (channel, channel_apart) = (
        _term(load.at, axes) for axes in (outputs, entries)
    )
    return Image(
        load, image, channel, context.extent(image.extent), context.extent(channel.extent),
        multiply(context.builder, context.extent(image_apart), size),
        multiply(context.builder, context.extent(channel_apart), size), lines[0], lines[1],
        context.address(load.buffer, around, {}),
    )  # fmt: skip


def _limits(mask: Expression | None) -> Iterator[tuple[Expression, Size]]:
    """Each place that a mask keeps in [0, size), and the size."""
    found: dict[tuple[Expression, Scalar], Expression] = {}
    stack = [mask]
    while stack:
        one = stack.pop()
        if not isinstance(one, Apply):
            raise Unsupported("a mask that is no window")
        if one.operation is Scalar.AND:
            stack += one.operands
        else:
            found[one.operands[0], one.operation] = one.operands[1]
    for (place, operation), limit in found.items():
        least = found.get((place, Scalar.GE))
        if operation is Scalar.LT and isinstance(limit, SizeValue):
            if not isinstance(least, Constant) or least.value != 0:
                raise Unsupported("a mask that is no window")
            yield place, limit.size
        elif operation is not Scalar.GE:
            raise Unsupported("a mask that is no window")


def _term(at: Affine, axes: Sequence[Axis]) -> tuple[Axis, Any]:
    """The one of the axes that a position moves along, and its stride."""
    strides = dict(at.terms)
    found = [(axis, strides[axis.index]) for axis in axes if axis.index in strides]
    if len(found) != 1:
        raise Unsupported("a position along other axes")
    return found[0]


def _line(
    context: Any, place: Expression, extent: Size, axes: tuple[Sequence[Axis], Sequence[Axis]],
    memory: tuple[Load, Any],
) -> Line:  # fmt: skip
    if not (isinstance(place, Apply) and place.operation is Scalar.SUB):
        raise Unsupported("no coordinate of a window")
    moved, padding = place.operands
    if not (isinstance(moved, IndexValue) and isinstance(padding, SizeValue)) or moved.value.base:
        raise Unsupported("no coordinate of a window")
    (output, stride), (entry, dilation) = (_term(moved.value, some) for some in axes)
    if moved.value.terms[0][0] is not output.index:  # either way is right: they say which is meant
        raise Unsupported("positions and entries of a window, the other way round")
    load, apart = memory
    size = context.extent
    return Line(
        output, entry, size(output.extent), size(entry.extent), size(stride), size(dilation),
        size(padding.size), size(extent), multiply(context.builder, size(apart), load.type.size),
    )  # fmt: skip
