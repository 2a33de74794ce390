"""Recognizes windowed image loads whose extents, strides and padding are run-time sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llvmlite import ir

from ...loop_ir.ir import (
    Affine, Apply, Axis, Constant, Contract, Expression, IndexValue, Load, Scalar, Size, SizeValue,
)
from ..llvm.address import multiply
from .direct_blocking import Unsupported

_Terms = tuple[Any, Any]


@dataclass(frozen=True)
class WindowAxis:
    """A coordinate of an image: output * stride + entry * dilation - padding, in [0, extent).

    `apart`: bytes that one step moves in memory.
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
class WindowedImage:
    """An image read by windows: axes of images and channels, strides in bytes, coordinates."""

    load: Load
    image: Axis
    channel: Axis
    images: ir.Value
    channels: ir.Value
    image_apart: ir.Value
    channel_apart: ir.Value
    rows: WindowAxis
    columns: WindowAxis
    start: ir.Value


def match_image(
    context: Any, statement: Contract, outputs: Sequence[Axis], entries: Sequence[Axis]
) -> WindowedImage:
    """Return the image whose windows a dynamic Contract reads. Raises Unsupported for other loads.

    `outputs`: the axes of images and of the windows' positions; `entries`: those of channels and
    of places in a window.
    """
    if not all(isinstance(a.extent, Size) for a in (*outputs, statement.column, *entries)):
        raise Unsupported("known extents")
    image = _build_image(context, statement.a, outputs, entries)
    if len(outputs) != 3 or len(entries) != 3 or len(statement.body) != 1:
        raise Unsupported("axes that are not a convolution's")
    return image


def _build_image(
    context: Any, load: Load, outputs: Sequence[Axis], entries: Sequence[Axis]
) -> WindowedImage:
    if load.at.base or len(load.indirect) != 2:
        raise Unsupported("not windows of an image")
    limits = dict(_mask_limits(load.mask))
    lines = []
    for place, stride in load.indirect:
        if place not in limits:
            raise Unsupported("not the mask of a window")
        lines.append(
            _match_window_axis(context, place, limits[place], (outputs, entries), (load, stride))
        )
    size, inner = load.type.size, [axis.index for axis in (*outputs, *entries)]
    around = replace(load.at, terms=tuple([t for t in load.at.terms if t[0] not in inner]))
    (image, image_apart), (channel, channel_apart) = (
        _find_single_term(load.at, axes) for axes in (outputs, entries)
    )
    return WindowedImage(
        load, image, channel, context.extent(image.extent), context.extent(channel.extent),
        multiply(context.builder, context.extent(image_apart), size),
        multiply(context.builder, context.extent(channel_apart), size), lines[0], lines[1],
        context.address(load.buffer, around, {}),
    )


def _mask_limits(mask: Expression | None) -> Iterator[tuple[Expression, Size]]:
    """Yield each position that a mask restricts to [0, size), and the size."""
    bounds: dict[tuple[Expression, Scalar], Expression] = {}
    stack = [mask]
    while stack:
        condition = stack.pop()
        if not isinstance(condition, Apply):
            raise Unsupported("a mask that is not a window")
        if condition.operation is Scalar.AND:
            stack += condition.operands
        else:
            bounds[condition.operands[0], condition.operation] = condition.operands[1]
    for (place, operation), limit in bounds.items():
        lower = bounds.get((place, Scalar.GE))
        if operation is Scalar.LT and isinstance(limit, SizeValue):
            if not isinstance(lower, Constant) or lower.value != 0:
                raise Unsupported("a mask that is not a window")
            yield place, limit.size
        elif operation is not Scalar.GE:
            raise Unsupported("a mask that is not a window")


def _find_single_term(at: Affine, axes: Sequence[Axis]) -> tuple[Axis, Any]:
    """Return the axis that a position moves along, and its stride."""
    strides = dict(at.terms)
    terms = [(axis, strides[axis.index]) for axis in axes if axis.index in strides]
    if len(terms) != 1:
        raise Unsupported("a position along other axes")
    return terms[0]


def _match_window_axis(
    context: Any, place: Expression, extent: Size, axes: tuple[Sequence[Axis], Sequence[Axis]],
    memory: tuple[Load, Any],
) -> WindowAxis:
    if not (isinstance(place, Apply) and place.operation is Scalar.SUB):
        raise Unsupported("not a coordinate of a window")
    moved, padding = place.operands
    if not (isinstance(moved, IndexValue) and isinstance(padding, SizeValue)) or moved.value.base:
        raise Unsupported("not a coordinate of a window")
    (output, stride), (entry, dilation) = (_find_single_term(moved.value, axes) for axes in axes)
    if moved.value.terms[0][0] is not output.index:  # a swapped match is also valid, but not meant
        raise Unsupported("a window with swapped positions and taps")
    load, apart = memory
    size = context.extent
    return WindowAxis(
        output, entry, size(output.extent), size(entry.extent), size(stride), size(dilation),
        size(padding.size), size(extent), multiply(context.builder, size(apart), load.type.size),
    )
