"""Pooling kernels of any size, for images with channels innermost in memory.

Lanes run over channels. Tables list the rows of x that the windows of each result row reach, and
the columns that those of each result column reach; -1 in the padding.
"""

from __future__ import annotations

from functools import cache
from math import inf
from typing import Generic, NamedTuple, TypeVar

from ..loop_ir.expression_builder import Value, constant, where
from ..loop_ir.index_notation import (
    create_indices, create_sizes, load, nest, store, update, value_of, vectorize,
)
from ..loop_ir.ir import (
    Accumulator, Affine, Begin, Buffer, Kernel, Loop, LoopKind, ReduceOp, Size, Statement, Store,
    Type,
)
from ..target.cost_model import MAX_POOL_WINDOW_EXTENT
from ..target.eager_costs import POOLED_LANES
from .pool import NO_PLACE, first_of_equals

T = TypeVar("T", int, Size)


class PoolNhwcSizes(NamedTuple, Generic[T]):
    """A kernel's size arguments, in order.

    Results have `rows` * `columns` pixels of `channels`, in `vectors` of POOLED_LANES. Windows have
    `window_rows` * `window_columns` elements; an image of x has `image_pixels`. Strides are in
    elements.
    """

    images: T
    rows: T
    columns: T
    window_rows: T
    window_columns: T
    vectors: T
    channels: T
    image_pixels: T
    x_image_stride: T
    y_image_stride: T
    y_row_stride: T
    weight_row_stride: T


class Pixels:
    """Loops over result pixels, and loads of the elements that windows read.

    `bounds`: upper bounds of further sizes.
    """

    def __init__(self, type: Type, **bounds: int) -> None:
        self.type = type
        self.sizes: PoolNhwcSizes[Size] = create_sizes(PoolNhwcSizes, {
            "window_rows": MAX_POOL_WINDOW_EXTENT, "window_columns": MAX_POOL_WINDOW_EXTENT,
            **bounds})
        z = self.sizes
        self.image, self.row, self.column, self.vector, self.lane, self.tap_row, self.tap_column = \
            create_indices("image r q v lane i j")
        self.x, self.y = Buffer(type, "x"), Buffer(type, "y")
        self.rows, self.columns = Buffer(Type.I64, "rows"), Buffer(Type.I64, "columns")
        self.x_row = load(self.rows, self.row * z.window_rows + self.tap_row)
        self.x_column = load(self.columns, self.column * z.window_columns + self.tap_column)
        self.is_inside = (self.x_row >= 0) & (self.x_column >= 0)
        self.channel = self.vector * POOLED_LANES + self.lane
        self.lane_mask = value_of(self.channel) < value_of(z.channels)

    def kernel(self, name: str, buffers: list[Buffer], body: Statement) -> Kernel:
        return Kernel(name, buffers, [body], list(self.sizes))

    @property
    def weight_index(self) -> Affine:
        """The index of a weight of the window."""
        z = self.sizes
        return self.tap_row * z.weight_row_stride + self.tap_column * z.channels + self.channel

    @property
    def result_index(self) -> Affine:
        """The index of an element of the result."""
        z = self.sizes
        return self.image * z.y_image_stride + self.row * z.y_row_stride \
            + self.column * z.channels + self.channel

    @property
    def x_element(self) -> Value:
        """The element under the window."""
        return load(self.x, self.image * self.sizes.x_image_stride + self.channel,
                    (self.x_row, 1), (self.x_column, 1), mask=self.is_inside & self.lane_mask)

    @property
    def x_element_or_lowest(self) -> Value:
        """The element under the window; -inf in the padding."""
        return where(self.is_inside, self.x_element, -inf)

    def load(self, buffer: Buffer, at: Affine) -> Value:
        """Return the element of an existing channel."""
        return load(buffer, at, mask=self.lane_mask)

    def store(self, buffer: Buffer, at: Affine, value: Value, add: bool = False) -> Store:
        """Store a value if its channel exists."""
        return store(buffer, at, value, mask=self.lane_mask, add=add)

    def windows(self, *body: Statement) -> Statement:
        """Loop over the elements of a window."""
        z = self.sizes
        return nest(body, (self.tap_row, z.window_rows), (self.tap_column, z.window_columns),
                    kind=LoopKind.SERIAL)

    def lanes(self, *body: Statement) -> Statement:
        return vectorize(self.lane, POOLED_LANES, *body)

    def each_pixel(self, *body: Statement) -> Statement:
        """Loop over all pixels of the result, parallel over images and rows."""
        z = self.sizes
        pixels = nest([self.lanes(*body)], (self.column, z.columns), (self.vector, z.vectors),
                      kind=LoopKind.SERIAL)
        return nest([pixels], (self.image, z.images), (self.row, z.rows))


@cache
def sums(type: Type) -> Kernel:
    """Build sums of windows, divided by by_row[r] * by_column[q].

    Buffers: x, rows, columns, by_row, by_column, y.
    """
    p, total = Pixels(type), Accumulator(ReduceOp.SUM, type)
    by_row, by_column = Buffer(type, "by_row"), Buffer(type, "by_column")
    divisor = load(by_row, p.row) * load(by_column, p.column)
    body = p.each_pixel(
        Begin(total), p.windows(update(total, p.x_element)),
        p.store(p.y, p.result_index, Value(total) / divisor))
    return p.kernel("pool_sums_last", [p.x, p.rows, p.columns, by_row, by_column, p.y], body)


@cache
def maxima(type: Type) -> Kernel:
    """Build maxima of windows; NaN is the greatest. Buffers: x, rows, columns, y."""
    p, top = Pixels(type), Accumulator(ReduceOp.MAXIMUM, type)
    body = p.each_pixel(
        Begin(top), p.windows(update(top, p.x_element_or_lowest)),
        p.store(p.y, p.result_index, Value(top)))
    return p.kernel("pool_maxima_last", [p.x, p.rows, p.columns, p.y], body)


@cache
def maxima_backward(type: Type) -> Kernel:
    """Add each window's gradient at the position of its maximum.

    Buffers: x, rows, columns, y, gy, gx. Parallel over images and channels only, because windows
    may overlap.
    """
    p, place = Pixels(type), Accumulator(ReduceOp.MINIMUM, Type.I32, "place")
    gy, gx, (pixel,), zero = Buffer(type, "gy"), Buffer(type, "gx"), create_indices("z"), \
        constant(0.0, type)
    z, image = p.sizes, p.image * p.sizes.x_image_stride
    clear = Loop(pixel, z.image_pixels, [
        p.lanes(p.store(gx, image + pixel * z.channels + p.channel, zero))])
    number = (p.x_row + p.x_column).cast(Type.I32)
    first = first_of_equals(p.x_element, p.load(p.y, p.result_index), number)
    share = where(Value(place) == number, p.load(gy, p.result_index), zero)
    spread = store(gx, image + p.channel, share, (p.x_row, 1), (p.x_column, 1),
                   mask=p.is_inside & p.lane_mask, add=True)
    pixels = nest(
        [p.lanes(Begin(place), p.windows(update(place, where(p.is_inside, first, NO_PLACE))),
                 p.windows(spread))],
        (p.row, z.rows), (p.column, z.columns), kind=LoopKind.SERIAL)
    body = nest([clear, pixels], (p.image, z.images), (p.vector, z.vectors))
    return p.kernel("pool_maxima_last_backward", [p.x, p.rows, p.columns, p.y, gy, gx], body)
