"""Depthwise convolution kernels of any size: forward, and gradients of input and weight.

Every output channel reads one input channel. A thread copies a block of an image with its padding
to local memory, with separate parts for rows interleaved by the stride. There each tap is at a
constant offset from the result's position (from a table), so vectors run through all rows of the
block, and the values they compute between two results are dropped. Several images are done at
a time, because just-stored data cannot be reloaded at other offsets at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Generic, NamedTuple, TypeVar

from ..loop_ir.expression_builder import Value, constant
from ..loop_ir.index_notation import (
    create_indices, create_sizes, load, nest, repeat, store, update, value_of, vectorize,
)
from ..loop_ir.ir import (
    Accumulator, Affine, Begin, Buffer, Extent, If, Index, Kernel, LoopKind, ReduceOp, Size,
    Statement, Type,
)
from ..target.eager_costs import DEPTHWISE_COPY_LANES as LANES
from ..target.eager_costs import DEPTHWISE_FLAT_LANES as FLAT_LANES
from ..target.eager_costs import MAX_DEPTHWISE_IMAGES, MAX_DEPTHWISE_TAPS

MAX_TILE_ELEMENTS = {4: 6144, 8: 3584}  # of a block of x with its padding, by bytes per element
MAX_BLOCK_ELEMENTS = {4: 4096, 8: 2560}  # of a block of results, by bytes per element

T = TypeVar("T", int, Size)


class DepthwiseSizes(NamedTuple, Generic[T]):
    """A kernel's size parameters, or a call's arguments for them: 0 for those that it does not use.

    Strides and starts are in elements. y has `channels` * `outputs_each` channels, x `channels` *
    `inputs_each`; one of the two factors is 1.
    """

    # Loops
    images: T
    groups: T  # of images
    group_images: T
    channels: T
    outputs_each: T
    inputs_each: T
    blocks_down: T  # of an image's results
    blocks_across: T
    block_rows: T
    flat_vectors: T  # of FLAT_LANES, in a block
    taps: T
    # x
    x_group_stride: T
    x_image_stride: T
    x_channel_stride: T
    x_input_stride: T  # of the channels that one output channel sums
    x_row_stride: T
    x_block_row_stride: T
    x_block_column_stride: T
    x_start: T  # the first block's first element; negative in the padding
    # The tile: a block of x, in parts of rows interleaved by the stride
    tile_parts: T
    part_stride: T
    part_rows: T
    part_vectors: T  # of LANES, in a row
    tile_pitch: T
    row_step: T  # rows of x between two rows of a part
    row_stride: T  # elements between them: of x, or of the tile if a gradient is spread
    column_stride: T  # the convolution's stride along rows
    vector_stride: T  # LANES * column_stride
    spread_start: T  # the tile's index of a spread gradient's first element
    tile_columns: T  # columns that are spread, or of a gradient's block
    zero_vectors: T  # of FLAT_LANES, that clear the tile before
    tile_stride: T  # between the tiles of two images
    # Rows and columns of x count from the padding's first: those of a block, those inside x
    block_row_step: T
    block_column_step: T
    row_low: T
    row_high: T
    column_low: T
    column_high: T
    # The weight
    w_channel_stride: T
    w_output_stride: T
    w_input_stride: T
    # y
    y_group_stride: T
    y_image_stride: T
    y_channel_stride: T
    y_output_stride: T
    y_row_stride: T
    y_block_row_stride: T
    y_block_columns: T
    y_rows: T
    y_columns: T
    y_vectors: T  # of LANES, in a block's row
    results_stride: T  # between the blocks of results of two images: FLAT_LANES * flat_vectors


_UPPER_BOUNDS = {
    "taps": MAX_DEPTHWISE_TAPS,
    "flat_vectors": MAX_BLOCK_ELEMENTS[4] // FLAT_LANES,
    "group_images": MAX_DEPTHWISE_IMAGES,
}


def _is_below(position: Affine, limit: Size) -> Value:
    return value_of(position) < value_of(limit)


def _is_within(position: Affine, low: Size, high: Size) -> Value:
    return (value_of(position) >= value_of(low)) & _is_below(position, high)


class _BlockNest:
    """Loops over images, channels and blocks, and the thread's local memory.

    `step`: the stride along a row, 1 or 2; None if it is an argument.
    """

    def __init__(self, type: Type, step: int | None) -> None:
        self.type, self.step = type, step
        self.sizes: DepthwiseSizes[Size] = create_sizes(DepthwiseSizes, _UPPER_BOUNDS)
        self.n, self.g, self.c, self.k, self.m, self.down, self.across, self.vector, self.lane = \
            create_indices("n g c k m down across u lane")
        self.r, self.v, self.column = create_indices("r v column")  # of rows being copied
        self.strip = self.v * LANES + self.column
        self.x, self.weight, self.y = (Buffer(type, name) for name in ("x", "weight", "y"))
        self.offsets = Buffer(Type.I64, "offsets")
        self.tile = Buffer(type, "tile", MAX_TILE_ELEMENTS[type.size] + 2 * FLAT_LANES)
        self.padded_block = Buffer(type, "padded", MAX_BLOCK_ELEMENTS[type.size] + 2 * FLAT_LANES)
        self.zero = constant(0.0, type)

    def kernel(self, name: str, buffers: list[Buffer], body: list[Statement]) -> Kernel:
        return Kernel(name, buffers, body, list(self.sizes))

    def rows(self, columns: Size, rows: Size, statement: Statement,
             exists: Value | None = None) -> Statement:
        """Loop over LANES columns at a time, then over existing rows, to reuse masks."""
        body: Statement = vectorize(self.column, LANES, statement)
        if exists is not None:
            body = If(exists.expression, [body])
        return nest([body], (self.v, columns), (self.r, rows), kind=LoopKind.SERIAL)

    def strided_strip(self, step: int | None) -> Affine:
        """Return the position of a column, where columns are `step` apart; None: an argument."""
        if step is None:
            return self.v * self.sizes.vector_stride + self.column * self.sizes.column_stride
        return self.v * (LANES * step) + self.column * step

    def each_image(self, *body: Statement) -> Statement:
        """Loop over the images of a group."""
        s = self.sizes
        exists = _is_below(self.n * s.group_images + self.g, s.images)
        return repeat(self.g, s.group_images, If(exists.expression, list(body)))

    def flat(self, *body: Statement) -> Statement:
        """Loop over all positions of a block."""
        vector = vectorize(self.lane, FLAT_LANES, *body)
        return repeat(self.vector, self.sizes.flat_vectors, vector)

    def block_position(self, stride: Extent) -> Affine:
        """Return a position in a block."""
        return self.g * stride + self.vector * FLAT_LANES + self.lane

    def clear(self, first: Affine | int, vectors: Extent) -> Statement:
        """Fill vectors of the tile with zeros."""
        z, lane = create_indices("z lane")
        cleared = store(self.tile, first + z * FLAT_LANES + lane, self.zero)
        return repeat(z, vectors, vectorize(lane, FLAT_LANES, cleared))

    @property
    def source(self) -> Affine:
        """The index of x's block."""
        s = self.sizes
        return self.n * s.x_group_stride + self.g * s.x_image_stride + self.c * s.x_channel_stride \
            + self.m * s.x_input_stride + self.down * s.x_block_row_stride \
            + self.across * s.x_block_column_stride

    @property
    def result_row(self) -> Affine:
        """The index of a strip in a row of y's block."""
        s = self.sizes
        return self.n * s.y_group_stride + self.g * s.y_image_stride + self.c * s.y_channel_stride \
            + self.k * s.y_output_stride + self.down * s.y_block_row_stride \
            + self.across * s.y_block_columns + self.r * s.y_row_stride + self.strip

    @property
    def result_row_exists(self) -> Value:
        """Whether a row of y's block exists."""
        s = self.sizes
        return _is_below(self.down * s.block_rows + self.r, s.y_rows)

    @property
    def result_exists(self) -> Value:
        """Whether a column of y's block exists."""
        s = self.sizes
        return _is_below(self.across * s.y_block_columns + self.strip, s.y_columns)

    def load_source(self, row: Affine, at: Affine) -> Value:
        """Return an element of x's block; 0 in the padding."""
        s = self.sizes
        row = self.down * s.block_row_step + row
        column = self.across * s.block_column_step + self.strip
        inside = _is_within(row, s.row_low, s.row_high) \
            & _is_within(column, s.column_low, s.column_high)
        return load(self.x, self.source + at + self.strip, (value_of(s.x_start), 1), mask=inside)

    def fill_block(self) -> Statement:
        """Copy the block of x with its padding, one part of the stride at a time."""
        s, (p,) = self.sizes, create_indices("p")
        value = self.load_source(p * 1 + self.r * s.row_step,
                                 p * s.x_row_stride + self.r * s.row_stride)
        place = self.g * s.tile_stride + p * s.part_stride + self.r * s.tile_pitch + self.strip
        copy = store(self.tile, place, value, mask=_is_below(self.strip, s.tile_pitch))
        return repeat(p, s.tile_parts, self.rows(s.part_vectors, s.part_rows, copy))

    def spread_gradient(self) -> list[Statement]:
        """Copy the block of a gradient, with zeros between its elements."""
        s = self.sizes
        value = self.load_source(self.r * 1, self.r * s.x_row_stride)
        place = self.g * s.tile_stride + self.r * s.row_stride + self.strided_strip(self.step)
        copy = store(self.tile, place, value, (value_of(s.spread_start), 1),
                     mask=_is_below(self.strip, s.tile_columns))
        return [self.clear(self.g * s.tile_stride, s.zero_vectors),
                self.rows(s.part_vectors, s.part_rows, copy)]

    def clear_tile(self) -> Statement:
        """Fill the tile with zeros: elements behind a block are multiplied by zero, so they must be
        finite."""
        return self.clear(0, MAX_TILE_ELEMENTS[self.type.size] // FLAT_LANES + 2)

    def tap_value(self, tap: Index) -> Value:
        """Return the element of the tile that a tap meets."""
        return load(self.tile, self.block_position(self.sizes.tile_stride),
                    (load(self.offsets, tap), 1))

    def accumulate_taps(self) -> Statement:
        """Add the taps' products to the block's results."""
        s, (t,), total = self.sizes, create_indices("t"), Accumulator(ReduceOp.SUM, self.type)
        factor = load(self.weight, self.c * s.w_channel_stride + self.k * s.w_output_stride
                      + self.m * s.w_input_stride + t)
        place = self.block_position(s.results_stride)
        return self.flat(
            Begin(total, load(self.padded_block, place).expression),
            repeat(t, s.taps, update(total, self.tap_value(t) * factor)),
            store(self.padded_block, place, Value(total)))

    def store_results(self, bias: Buffer, step: int | None) -> Statement:
        """Store the block's results, which are `step` apart, plus the channel's bias."""
        s = self.sizes
        value = load(self.padded_block,
                     self.g * s.results_stride + self.r * s.tile_pitch + self.strided_strip(step))
        shifted = value + load(bias, self.c * s.outputs_each + self.k)
        stored = store(self.y, self.result_row, shifted, mask=self.result_exists)
        return self.rows(s.y_vectors, s.block_rows, stored, self.result_row_exists)

    def place_gradient(self) -> list[Statement]:
        """Copy y's gradient to the results' positions, with zeros elsewhere."""
        s = self.sizes
        is_inside = self.result_exists & _is_below(self.strip, s.tile_columns)
        place = self.g * s.results_stride + self.r * s.tile_pitch + self.strided_strip(self.step)
        copy = store(self.padded_block, place, load(self.y, self.result_row, mask=is_inside),
                     mask=is_inside)
        return [self.clear_results(),
                self.rows(s.y_vectors, s.block_rows, copy, self.result_row_exists)]

    def clear_results(self) -> Statement:
        """Fill the block of results with zeros."""
        return self.flat(store(self.padded_block, self.block_position(self.sizes.results_stride),
                               self.zero))


def _convolve_blocks(
    name: str, b: _BlockNest, fill: Sequence[Statement], result_step: int | None
) -> Kernel:
    """Build a kernel that fills each block's tile, sums the taps and stores the results."""
    s, bias = b.sizes, Buffer(b.type, "bias")
    body = [
        b.each_image(b.clear_results()),
        repeat(b.m, s.inputs_each, b.each_image(*fill), b.each_image(b.accumulate_taps())),
        b.each_image(b.store_results(bias, result_step)),
    ]
    blocks = nest(body, (b.k, s.outputs_each), (b.down, s.blocks_down),
                  (b.across, s.blocks_across), kind=LoopKind.SERIAL)
    images = nest([blocks], (b.n, s.groups), (b.c, s.channels))
    return b.kernel(name, [b.x, b.offsets, b.weight, bias, b.y], [images])


@cache
def build_forward(type: Type, step: int | None) -> Kernel:
    """Build y = bias + sum over a window of x * weight. Buffers: x, offsets, weight, bias, y."""
    b = _BlockNest(type, step)
    return _convolve_blocks("depthwise_windows", b, [b.fill_block()], step)


@cache
def build_strided_input_gradient(type: Type, step: int | None) -> Kernel:
    """Build a strided convolution's input gradient. Buffers: gy, offsets, weight, zeros, gx."""
    b = _BlockNest(type, step)
    return _convolve_blocks("depthwise_spread", b, b.spread_gradient(), 1)


@cache
def build_weight_gradient(type: Type, step: int | None) -> Kernel:
    """Build the gradient of the weight. Buffers: x, offsets, gy, gw."""
    b = _BlockNest(type, step)
    s, (t,) = b.sizes, create_indices("t")
    total, gw = Accumulator(ReduceOp.SUM, type), Buffer(type, "gw")
    product = b.tap_value(t) * load(b.padded_block, b.block_position(s.results_stride))
    place = b.c * s.w_channel_stride + b.k * s.w_output_stride + t
    taps = repeat(t, s.taps, Begin(total), b.each_image(b.flat(update(total, product))),
                  store(gw, place, Value(total), add=True))
    blocks = nest(
        [b.each_image(b.fill_block(), *b.place_gradient()), taps],
        (b.n, s.groups), (b.m, s.inputs_each), (b.down, s.blocks_down),
        (b.across, s.blocks_across), kind=LoopKind.SERIAL)
    body = nest([b.clear_tile(), repeat(t, s.taps, store(gw, place, b.zero)), blocks],
                (b.c, s.channels), (b.k, s.outputs_each))
    return b.kernel("depthwise_weight", [b.x, b.offsets, b.y, gw], [body])
