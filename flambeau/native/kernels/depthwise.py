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

from ..loop_ir.ir import (
    Accumulator,
    Affine,
    Apply,
    Begin,
    Buffer,
    Constant,
    Expression,
    Extent,
    If,
    Index,
    IndexValue,
    Kernel,
    Load,
    Loop,
    LoopKind,
    ReduceOp,
    Scalar,
    Size,
    SizeValue,
    Statement,
    Store,
    Type,
    Update,
)
from ..target.eager_costs import DEPTHWISE_COPY_LANES as LANES
from ..target.eager_costs import DEPTHWISE_FLAT_LANES as FLAT_LANES
from ..target.eager_costs import MAX_DEPTHWISE_IMAGES, MAX_DEPTHWISE_TAPS
from .pool import and_conditions, compare

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


def _at(*terms: tuple[Index, Extent]) -> Affine:
    return Affine(0, terms)


def _position(*terms: tuple[Index, Extent]) -> IndexValue:
    return IndexValue(_at(*terms))


def _is_below(position: Expression, limit: Size) -> Expression:
    return compare(Scalar.LT, position, SizeValue(limit))


def _is_within(position: Expression, low: Size, high: Size) -> Expression:
    return and_conditions(compare(Scalar.GE, position, SizeValue(low)), _is_below(position, high))


class _BlockNest:
    """Loops over images, channels and blocks, and the thread's local memory.

    `step`: the stride along a row, 1 or 2; None if it is an argument.
    """

    def __init__(self, type: Type, step: int | None) -> None:
        self.type, self.step = type, step
        self.sizes = DepthwiseSizes(
            *(Size(name, _UPPER_BOUNDS.get(name)) for name in DepthwiseSizes._fields)
        )
        self.n, self.g, self.c, self.k, self.m, self.down, self.across, self.vector, self.lane = (
            Index(name) for name in ("n", "g", "c", "k", "m", "down", "across", "u", "lane")
        )
        self.x, self.weight, self.y = (Buffer(type, name) for name in ("x", "weight", "y"))
        self.offsets = Buffer(Type.I64, "offsets")
        self.tile = Buffer(type, "tile", MAX_TILE_ELEMENTS[type.size] + 2 * FLAT_LANES)
        self.padded_block = Buffer(type, "padded", MAX_BLOCK_ELEMENTS[type.size] + 2 * FLAT_LANES)
        self.zero = Constant(type, 0.0)

    def kernel(self, name: str, buffers: list[Buffer], body: list[Statement]) -> Kernel:
        return Kernel(name, buffers, body, list(self.sizes))

    def loop(
        self,
        index: Index,
        extent: Extent,
        body: Sequence[Statement],
        kind: LoopKind = LoopKind.SERIAL,
    ) -> Loop:
        return Loop(index, extent, list(body), kind)

    def nest(
        self,
        loops: Sequence[tuple[Index, Extent]],
        body: Sequence[Statement],
        shared: int = 0,
    ) -> Statement:
        """Nest loops; threads share the outermost `shared` of them."""
        nest = list(body)
        for depth, (index, extent) in reversed(list(enumerate(loops))):
            kind = LoopKind.PARALLEL if depth < shared else LoopKind.SERIAL
            nest = [self.loop(index, extent, nest, kind)]
        return nest[0]

    def rows(
        self,
        v: Index,
        columns: Size,
        r: Index,
        rows: Size,
        lane: Index,
        statement: Statement,
        exists: Expression | None = None,
    ) -> Statement:
        """Loop over LANES columns at a time, then over existing rows, to reuse masks."""
        body: list[Statement] = [self.loop(lane, LANES, [statement], LoopKind.VECTORIZED)]
        if exists is not None:
            body = [If(exists, body)]
        return self.nest([(v, columns), (r, rows)], body)

    def strided_terms(
        self, v: Index, lane: Index, step: int | None
    ) -> list[tuple[Index, Extent]]:
        """Return the terms of columns that are `step` apart; None: an argument."""
        s = self.sizes
        if step is None:
            return [(v, s.vector_stride), (lane, s.column_stride)]
        return [(v, LANES * step), (lane, step)]

    def each_image(self, *body: Statement) -> Statement:
        """Loop over the images of a group."""
        s = self.sizes
        exists = _is_below(_position((self.n, s.group_images), (self.g, 1)), s.images)
        return self.loop(self.g, s.group_images, [If(exists, list(body))])

    def flat(self, *body: Statement) -> Statement:
        """Loop over all positions of a block."""
        s = self.sizes
        vector = self.loop(self.lane, FLAT_LANES, body, LoopKind.VECTORIZED)
        return self.loop(self.vector, s.flat_vectors, [vector])

    def block_position(self, stride: Extent) -> Affine:
        """Return a position in a block."""
        return _at((self.g, stride), (self.vector, FLAT_LANES), (self.lane, 1))

    @property
    def source(self) -> list[tuple[Index, Extent]]:
        """Terms of the index of x's block."""
        s = self.sizes
        return [
            (self.n, s.x_group_stride),
            (self.g, s.x_image_stride),
            (self.c, s.x_channel_stride),
            (self.m, s.x_input_stride),
            (self.down, s.x_block_row_stride),
            (self.across, s.x_block_column_stride),
        ]

    @property
    def result(self) -> list[tuple[Index, Extent]]:
        """Terms of the index of y's block."""
        s = self.sizes
        return [
            (self.n, s.y_group_stride),
            (self.g, s.y_image_stride),
            (self.c, s.y_channel_stride),
            (self.k, s.y_output_stride),
            (self.down, s.y_block_row_stride),
            (self.across, s.y_block_columns),
        ]

    def fill_block(self) -> Statement:
        """Copy the block of x with its padding, one part of the stride at a time."""
        s = self.sizes
        p, r, v, lane = (Index(name) for name in ("p", "r", "v", "lane"))
        row = _position((self.down, s.block_row_step), (p, 1), (r, s.row_step))
        column = _position((self.across, s.block_column_step), (v, LANES), (lane, 1))
        inside = and_conditions(
            _is_within(row, s.row_low, s.row_high),
            _is_within(column, s.column_low, s.column_high),
        )
        source = _at(
            *self.source, (p, s.x_row_stride), (r, s.row_stride), (v, LANES), (lane, 1)
        )
        value = Load(self.x, source, ((SizeValue(s.x_start), 1),), inside)
        place = _at(
            (self.g, s.tile_stride), (p, s.part_stride), (r, s.tile_pitch), (v, LANES), (lane, 1)
        )
        is_inside = _is_below(_position((v, LANES), (lane, 1)), s.tile_pitch)
        store = Store(self.tile, place, value, mask=is_inside)
        return self.loop(
            p, s.tile_parts, [self.rows(v, s.part_vectors, r, s.part_rows, lane, store)]
        )

    def spread_gradient(self) -> list[Statement]:
        """Copy the block of a gradient, with zeros between its elements."""
        s = self.sizes
        z, r, v, lane = (Index(name) for name in ("z", "r", "v", "lane"))
        blank = Store(
            self.tile, _at((self.g, s.tile_stride), (z, FLAT_LANES), (lane, 1)), self.zero
        )
        clear = self.loop(
            z, s.zero_vectors, [self.loop(lane, FLAT_LANES, [blank], LoopKind.VECTORIZED)]
        )
        row = _position((self.down, s.block_row_step), (r, 1))
        column = _position((self.across, s.block_column_step), (v, LANES), (lane, 1))
        inside = and_conditions(
            _is_within(row, s.row_low, s.row_high),
            _is_within(column, s.column_low, s.column_high),
        )
        source = _at(*self.source, (r, s.x_row_stride), (v, LANES), (lane, 1))
        value = Load(self.x, source, ((SizeValue(s.x_start), 1),), inside)
        place = _at(
            (self.g, s.tile_stride), (r, s.row_stride), *self.strided_terms(v, lane, self.step)
        )
        is_inside = _is_below(_position((v, LANES), (lane, 1)), s.tile_columns)
        store = Store(self.tile, place, value, ((SizeValue(s.spread_start), 1),), is_inside)
        return [clear, self.rows(v, s.part_vectors, r, s.part_rows, lane, store)]

    def clear_tile(self) -> Statement:
        """Fill the tile with zeros: elements behind a block are multiplied by zero, so they must be
        finite."""
        z, lane = Index("z"), Index("lane")
        store = Store(self.tile, _at((z, FLAT_LANES), (lane, 1)), self.zero)
        vectors = MAX_TILE_ELEMENTS[self.type.size] // FLAT_LANES + 2
        return self.loop(z, vectors, [self.loop(lane, FLAT_LANES, [store], LoopKind.VECTORIZED)])

    def accumulate_taps(self) -> Statement:
        """Add the taps' products to the block's results."""
        s = self.sizes
        t, total = Index("t"), Accumulator(ReduceOp.SUM, self.type)
        factor = Load(
            self.weight,
            _at(
                (self.c, s.w_channel_stride),
                (self.k, s.w_output_stride),
                (self.m, s.w_input_stride),
                (t, 1),
            ),
        )
        tap_value = Load(
            self.tile,
            self.block_position(s.tile_stride),
            ((Load(self.offsets, _at((t, 1))), 1),),
        )
        product = Apply(Scalar.MUL, (tap_value, factor), self.type)
        reduction = self.loop(t, s.taps, [Update(total, product)])
        place = self.block_position(s.results_stride)
        return self.flat(
            Begin(total, Load(self.padded_block, place)),
            reduction,
            Store(self.padded_block, place, total),
        )

    def store_results(self, bias: Buffer, step: int | None) -> Statement:
        """Store the block's results, which are `step` apart, plus the channel's bias."""
        s = self.sizes
        r, v, lane = (Index(name) for name in ("r", "v", "lane"))
        exists = _is_below(_position((self.down, s.block_rows), (r, 1)), s.y_rows)
        is_inside = _is_below(
            _position((self.across, s.y_block_columns), (v, LANES), (lane, 1)), s.y_columns
        )
        column = self.strided_terms(v, lane, step)
        value = Load(
            self.padded_block, _at((self.g, s.results_stride), (r, s.tile_pitch), *column)
        )
        shift = Load(bias, _at((self.c, s.outputs_each), (self.k, 1)))
        place = _at(*self.result, (r, s.y_row_stride), (v, LANES), (lane, 1))
        store = Store(self.y, place, Apply(Scalar.ADD, (value, shift), self.type), mask=is_inside)
        return self.rows(v, s.y_vectors, r, s.block_rows, lane, store, exists)

    def place_gradient(self) -> list[Statement]:
        """Copy y's gradient to the results' positions, with zeros elsewhere."""
        s = self.sizes
        r, v, lane = (Index(name) for name in ("r", "v", "lane"))
        exists = _is_below(_position((self.down, s.block_rows), (r, 1)), s.y_rows)
        is_inside = and_conditions(
            _is_below(
                _position((self.across, s.y_block_columns), (v, LANES), (lane, 1)), s.y_columns
            ),
            _is_below(_position((v, LANES), (lane, 1)), s.tile_columns),
        )
        value = Load(
            self.y, _at(*self.result, (r, s.y_row_stride), (v, LANES), (lane, 1)), mask=is_inside
        )
        place = _at(
            (self.g, s.results_stride), (r, s.tile_pitch), *self.strided_terms(v, lane, self.step)
        )
        store = Store(self.padded_block, place, value, mask=is_inside)
        clear = self.flat(
            Store(self.padded_block, self.block_position(s.results_stride), self.zero)
        )
        return [clear, self.rows(v, s.y_vectors, r, s.block_rows, lane, store, exists)]


def _convolve_blocks(
    name: str, b: _BlockNest, fill: Sequence[Statement], result_step: int | None
) -> Kernel:
    """Build a kernel that fills each block's tile, sums the taps and stores the results."""
    s = b.sizes
    bias = Buffer(b.type, "bias")
    clear = b.flat(Store(b.padded_block, b.block_position(s.results_stride), b.zero))
    body = [
        b.each_image(clear),
        b.loop(b.m, s.inputs_each, [b.each_image(*fill), b.each_image(b.accumulate_taps())]),
        b.each_image(b.store_results(bias, result_step)),
    ]
    loops: list[tuple[Index, Extent]] = [
        (b.n, s.groups),
        (b.c, s.channels),
        (b.k, s.outputs_each),
        (b.down, s.blocks_down),
        (b.across, s.blocks_across),
    ]
    return b.kernel(name, [b.x, b.offsets, b.weight, bias, b.y], [b.nest(loops, body, 2)])


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
    s = b.sizes
    t = Index("t")
    total, gw = Accumulator(ReduceOp.SUM, type), Buffer(type, "gw")
    tap_value = Load(b.tile, b.block_position(s.tile_stride), ((Load(b.offsets, _at((t, 1))), 1),))
    product = Apply(
        Scalar.MUL, (tap_value, Load(b.padded_block, b.block_position(s.results_stride))), type
    )
    place = _at((b.c, s.w_channel_stride), (b.k, s.w_output_stride), (t, 1))
    taps = b.loop(
        t,
        s.taps,
        [
            Begin(total),
            b.each_image(b.flat(Update(total, product))),
            Store(gw, place, total, add=True),
        ],
    )
    clear = b.loop(t, s.taps, [Store(gw, place, b.zero)])
    blocks = b.nest(
        [
            (b.n, s.groups),
            (b.m, s.inputs_each),
            (b.down, s.blocks_down),
            (b.across, s.blocks_across),
        ],
        [b.each_image(b.fill_block(), *b.place_gradient()), taps],
    )
    body = b.nest([(b.c, s.channels), (b.k, s.outputs_each)], [b.clear_tile(), clear, blocks], 2)
    return b.kernel("depthwise_weight", [b.x, b.offsets, b.y, gw], [body])
