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
from typing import NamedTuple

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
from .pool import all_of, compare

MAX_TILE_ELEMENTS = {4: 6144, 8: 3584}  # of a block of x with its padding, by bytes per element
MAX_BLOCK_ELEMENTS = {4: 4096, 8: 2560}  # of a block of results, by bytes per element


class DepthwiseSizes(NamedTuple):
    """A kernel's size arguments, in order; 0 for those that it does not use.

    Strides and starts are in elements. y has `channels` * `outputs_each` channels, x `channels` *
    `inputs_each`; one of the two factors is 1.
    """

    # Loops
    images: int
    groups: int  # of images
    group_images: int
    channels: int
    outputs_each: int
    inputs_each: int
    blocks_down: int  # of an image's results
    blocks_across: int
    block_rows: int
    flat_vectors: int  # of FLAT_LANES, in a block
    taps: int
    # x
    x_group_stride: int
    x_image_stride: int
    x_channel_stride: int
    x_input_stride: int  # of the channels that one output channel sums
    x_row_stride: int
    x_block_row_stride: int
    x_block_column_stride: int
    x_start: int  # the first block's first element; negative in the padding
    # The tile: a block of x, in parts of rows interleaved by the stride
    tile_parts: int
    part_stride: int
    part_rows: int
    part_vectors: int  # of LANES, in a row
    tile_pitch: int
    row_step: int  # rows of x between two rows of a part
    row_stride: int  # elements between them: of x, or of the tile if a gradient is spread
    column_stride: int  # the convolution's stride along rows
    vector_stride: int  # LANES * column_stride
    spread_start: int  # the tile's index of a spread gradient's first element
    tile_columns: int  # columns that are spread, or of a gradient's block
    zero_vectors: int  # of FLAT_LANES, that clear the tile before
    tile_stride: int  # between the tiles of two images
    # Rows and columns of x count from the padding's first: those of a block, those inside x
    block_row_step: int
    block_column_step: int
    row_low: int
    row_high: int
    column_low: int
    column_high: int
    # The weight
    w_channel_stride: int
    w_output_stride: int
    w_input_stride: int
    # y
    y_group_stride: int
    y_image_stride: int
    y_channel_stride: int
    y_output_stride: int
    y_row_stride: int
    y_block_row_stride: int
    y_block_columns: int
    y_rows: int
    y_columns: int
    y_vectors: int  # of LANES, in a block's row
    results_stride: int  # between the blocks of results of two images: FLAT_LANES * flat_vectors


_UPPER_BOUNDS = {
    "taps": MAX_DEPTHWISE_TAPS,
    "flat_vectors": MAX_BLOCK_ELEMENTS[4] // FLAT_LANES,
    "group_images": MAX_DEPTHWISE_IMAGES,
}


class _BlockNest:
    """Loops over images, channels and blocks, and the thread's local memory.

    `step`: the stride along a row, 1 or 2; None if it is an argument.
    """

    def __init__(self, type: Type, step: int | None) -> None:
        self.type, self.step = type, step
        self.sizes = {name: Size(name, _UPPER_BOUNDS.get(name)) for name in DepthwiseSizes._fields}
        self.n, self.g, self.c, self.k, self.m, self.down, self.across, self.u, self.lane = (
            Index(name) for name in ("n", "g", "c", "k", "m", "down", "across", "u", "lane")
        )
        self.x, self.weight, self.y = (Buffer(type, name) for name in ("x", "weight", "y"))
        self.offsets = Buffer(Type.I64, "offsets")
        self.tile = Buffer(type, "tile", MAX_TILE_ELEMENTS[type.size] + 2 * FLAT_LANES)
        self.padded_block = Buffer(type, "padded", MAX_BLOCK_ELEMENTS[type.size] + 2 * FLAT_LANES)
        self.zero = Constant(type, 0.0)

    def kernel(self, name: str, buffers: list[Buffer], body: list[Statement]) -> Kernel:
        return Kernel(name, buffers, body, list(self.sizes.values()))

    def at(self, *terms: tuple[Index, Extent | str]) -> Affine:
        return Affine(0, tuple([(i, self.sizes[s] if isinstance(s, str) else s) for i, s in terms]))

    def position(self, *terms: tuple[Index, Extent | str]) -> IndexValue:
        return IndexValue(self.at(*terms))

    def below(self, at: Expression, name: str) -> Expression:
        return compare(Scalar.LT, at, SizeValue(self.sizes[name]))

    def within(self, at: Expression, axis: str) -> Expression:
        """Return whether a row or column lies inside x."""
        low = compare(Scalar.GE, at, SizeValue(self.sizes[f"{axis}_low"]))
        return all_of(low, self.below(at, f"{axis}_high"))

    def loop(
        self,
        index: Index,
        extent: Extent | str,
        body: Sequence[Statement],
        kind: LoopKind = LoopKind.SERIAL,
    ) -> Loop:
        stop = self.sizes[extent] if isinstance(extent, str) else extent
        return Loop(index, stop, list(body), kind)

    def nest(
        self,
        loops: Sequence[tuple[Index, Extent | str]],
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
        columns: str,
        r: Index,
        rows: str,
        lane: Index,
        statement: Statement,
        there: Expression | None = None,
    ) -> Statement:
        """Loop over LANES columns at a time, then over existing rows, to reuse masks."""
        body: list[Statement] = [self.loop(lane, LANES, [statement], LoopKind.VECTORIZED)]
        if there is not None:
            body = [If(there, body)]
        return self.nest([(v, columns), (r, rows)], body)

    def strided_terms(
        self, v: Index, lane: Index, step: int | None
    ) -> list[tuple[Index, Extent | str]]:
        """Return the terms of columns that are `step` apart; None: an argument."""
        if step is None:
            return [(v, "vector_stride"), (lane, "column_stride")]
        return [(v, LANES * step), (lane, step)]

    def each_image(self, *body: Statement) -> Statement:
        """Loop over the images of a group."""
        there = self.below(self.position((self.n, "group_images"), (self.g, 1)), "images")
        return self.loop(self.g, "group_images", [If(there, list(body))])

    def flat(self, *body: Statement) -> Statement:
        """Loop over all positions of a block."""
        return self.loop(
            self.u, "flat_vectors", [self.loop(self.lane, FLAT_LANES, body, LoopKind.VECTORIZED)]
        )

    def block_position(self, apart: str) -> Affine:
        """Return a position in a block."""
        return self.at((self.g, apart), (self.u, FLAT_LANES), (self.lane, 1))

    @property
    def source(self) -> list[tuple[Index, Extent | str]]:
        """Terms of the index of x's block."""
        return [
            (self.n, "x_group_stride"),
            (self.g, "x_image_stride"),
            (self.c, "x_channel_stride"),
            (self.m, "x_input_stride"),
            (self.down, "x_block_row_stride"),
            (self.across, "x_block_column_stride"),
        ]

    @property
    def result(self) -> list[tuple[Index, Extent | str]]:
        """Terms of the index of y's block."""
        return [
            (self.n, "y_group_stride"),
            (self.g, "y_image_stride"),
            (self.c, "y_channel_stride"),
            (self.k, "y_output_stride"),
            (self.down, "y_block_row_stride"),
            (self.across, "y_block_columns"),
        ]

    def fill_block(self) -> Statement:
        """Copy the block of x with its padding, one part of the stride at a time."""
        p, r, v, lane = (Index(name) for name in ("p", "r", "v", "lane"))
        row = self.position((self.down, "block_row_step"), (p, 1), (r, "row_step"))
        column = self.position((self.across, "block_column_step"), (v, LANES), (lane, 1))
        inside = all_of(self.within(row, "row"), self.within(column, "column"))
        source = self.at(
            *self.source, (p, "x_row_stride"), (r, "row_stride"), (v, LANES), (lane, 1)
        )
        value = Load(self.x, source, ((SizeValue(self.sizes["x_start"]), 1),), inside)
        place = self.at(
            (self.g, "tile_stride"), (p, "part_stride"), (r, "tile_pitch"), (v, LANES), (lane, 1)
        )
        known = self.below(self.position((v, LANES), (lane, 1)), "tile_pitch")
        store = Store(self.tile, place, value, mask=known)
        return self.loop(
            p, "tile_parts", [self.rows(v, "part_vectors", r, "part_rows", lane, store)]
        )

    def spread_gradient(self) -> list[Statement]:
        """Copy the block of a gradient, with zeros between its elements."""
        z, r, v, lane = (Index(name) for name in ("z", "r", "v", "lane"))
        blank = Store(
            self.tile, self.at((self.g, "tile_stride"), (z, FLAT_LANES), (lane, 1)), self.zero
        )
        clear = self.loop(
            z, "zero_vectors", [self.loop(lane, FLAT_LANES, [blank], LoopKind.VECTORIZED)]
        )
        row = self.position((self.down, "block_row_step"), (r, 1))
        column = self.position((self.across, "block_column_step"), (v, LANES), (lane, 1))
        inside = all_of(self.within(row, "row"), self.within(column, "column"))
        source = self.at(*self.source, (r, "x_row_stride"), (v, LANES), (lane, 1))
        value = Load(self.x, source, ((SizeValue(self.sizes["x_start"]), 1),), inside)
        place = self.at(
            (self.g, "tile_stride"), (r, "row_stride"), *self.strided_terms(v, lane, self.step)
        )
        known = self.below(self.position((v, LANES), (lane, 1)), "tile_columns")
        store = Store(self.tile, place, value, ((SizeValue(self.sizes["spread_start"]), 1),), known)
        return [clear, self.rows(v, "part_vectors", r, "part_rows", lane, store)]

    def clear_tile(self) -> Statement:
        """Fill the tile with zeros: elements behind a block are multiplied by zero, so they must be
        finite."""
        z, lane = Index("z"), Index("lane")
        store = Store(self.tile, self.at((z, FLAT_LANES), (lane, 1)), self.zero)
        vectors = MAX_TILE_ELEMENTS[self.type.size] // FLAT_LANES + 2
        return self.loop(z, vectors, [self.loop(lane, FLAT_LANES, [store], LoopKind.VECTORIZED)])

    def accumulate_taps(self) -> Statement:
        """Add the taps' products to the block's results."""
        t, total = Index("t"), Accumulator(ReduceOp.SUM, self.type)
        factor = Load(
            self.weight,
            self.at(
                (self.c, "w_channel_stride"),
                (self.k, "w_output_stride"),
                (self.m, "w_input_stride"),
                (t, 1),
            ),
        )
        met = Load(
            self.tile,
            self.block_position("tile_stride"),
            ((Load(self.offsets, self.at((t, 1))), 1),),
        )
        each = self.loop(t, "taps", [Update(total, Apply(Scalar.MUL, (met, factor), self.type))])
        place = self.block_position("results_stride")
        return self.flat(
            Begin(total, Load(self.padded_block, place)),
            each,
            Store(self.padded_block, place, total),
        )

    def store_results(self, bias: Buffer, step: int | None) -> Statement:
        """Store the block's results, which are `step` apart, plus the channel's bias."""
        r, v, lane = (Index(name) for name in ("r", "v", "lane"))
        there = self.below(self.position((self.down, "block_rows"), (r, 1)), "y_rows")
        known = self.below(
            self.position((self.across, "y_block_columns"), (v, LANES), (lane, 1)), "y_columns"
        )
        column = self.strided_terms(v, lane, step)
        value = Load(
            self.padded_block, self.at((self.g, "results_stride"), (r, "tile_pitch"), *column)
        )
        shift = Load(bias, self.at((self.c, "outputs_each"), (self.k, 1)))
        place = self.at(*self.result, (r, "y_row_stride"), (v, LANES), (lane, 1))
        store = Store(self.y, place, Apply(Scalar.ADD, (value, shift), self.type), mask=known)
        return self.rows(v, "y_vectors", r, "block_rows", lane, store, there)

    def place_gradient(self) -> list[Statement]:
        """Copy y's gradient to the results' positions, with zeros elsewhere."""
        r, v, lane = (Index(name) for name in ("r", "v", "lane"))
        there = self.below(self.position((self.down, "block_rows"), (r, 1)), "y_rows")
        known = all_of(
            self.below(
                self.position((self.across, "y_block_columns"), (v, LANES), (lane, 1)), "y_columns"
            ),
            self.below(self.position((v, LANES), (lane, 1)), "tile_columns"),
        )
        value = Load(
            self.y, self.at(*self.result, (r, "y_row_stride"), (v, LANES), (lane, 1)), mask=known
        )
        place = self.at(
            (self.g, "results_stride"), (r, "tile_pitch"), *self.strided_terms(v, lane, self.step)
        )
        store = Store(self.padded_block, place, value, mask=known)
        clear = self.flat(
            Store(self.padded_block, self.block_position("results_stride"), self.zero)
        )
        return [clear, self.rows(v, "y_vectors", r, "block_rows", lane, store, there)]


def _convolve_blocks(
    name: str, b: _BlockNest, fill: Sequence[Statement], result_step: int | None
) -> Kernel:
    """Build a kernel that fills each block's tile, sums the taps and stores the results."""
    bias = Buffer(b.type, "bias")
    clear = b.flat(Store(b.padded_block, b.block_position("results_stride"), b.zero))
    body = [
        b.each_image(clear),
        b.loop(b.m, "inputs_each", [b.each_image(*fill), b.each_image(b.accumulate_taps())]),
        b.each_image(b.store_results(bias, result_step)),
    ]
    loops: list[tuple[Index, Extent | str]] = [
        (b.n, "groups"),
        (b.c, "channels"),
        (b.k, "outputs_each"),
        (b.down, "blocks_down"),
        (b.across, "blocks_across"),
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
    t = Index("t")
    total, gw = Accumulator(ReduceOp.SUM, type), Buffer(type, "gw")
    met = Load(b.tile, b.block_position("tile_stride"), ((Load(b.offsets, b.at((t, 1))), 1),))
    product = Apply(
        Scalar.MUL, (met, Load(b.padded_block, b.block_position("results_stride"))), type
    )
    place = b.at((b.c, "w_channel_stride"), (b.k, "w_output_stride"), (t, 1))
    taps = b.loop(
        t,
        "taps",
        [
            Begin(total),
            b.each_image(b.flat(Update(total, product))),
            Store(gw, place, total, add=True),
        ],
    )
    clear = b.loop(t, "taps", [Store(gw, place, b.zero)])
    blocks = b.nest(
        [
            (b.n, "groups"),
            (b.m, "inputs_each"),
            (b.down, "blocks_down"),
            (b.across, "blocks_across"),
        ],
        [b.each_image(b.fill_block(), *b.place_gradient()), taps],
    )
    body = b.nest([(b.c, "channels"), (b.k, "outputs_each")], [b.clear_tile(), clear, blocks], 2)
    return b.kernel("depthwise_weight", [b.x, b.offsets, b.y, gw], [body])
