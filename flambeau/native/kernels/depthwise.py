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
    Accumulator, Affine, Apply, Begin, Buffer, Constant, Expression, Extent, If, Index, IndexValue,
    Kernel, Load, Loop, LoopKind, ReduceOp, Scalar, Size, SizeValue, Statement, Store, Type, Update,
)
from ..target.eager_costs import DEPTHWISE_COPY_LANES as LANES
from ..target.eager_costs import DEPTHWISE_FLAT_LANES as FLAT_LANES
from ..target.eager_costs import MAX_DEPTHWISE_IMAGES, MAX_DEPTHWISE_TAPS
from .pool import all_of, compare

MAX_TILE_ELEMENTS = {4: 6144, 8: 3584}  # of a block of x with its padding, by bytes per element
MAX_BLOCK_ELEMENTS = {4: 4096, 8: 2560}  # of a block of results, by bytes per element


class DepthwiseSizes(NamedTuple):
    """The sizes of a kernel, in its order; what one has no use for is 0.

    y has `images` of `channels` times `each` channels, x so many times `sums`. Images are made in
    `groups` of `group`. Blocks are `block` rows, `down` and `across` of them; FLAT of their places
    are made `flats` times, with `taps`.
    """

    images: int
    groups: int
    group: int
    channels: int
    each: int
    sums: int
    down: int
    across: int
    block: int
    flats: int
    taps: int
    # x: between groups, images, channels, those of a sum, rows, blocks; in elements
    x_group: int
    x_n: int
    x_c: int
    x_m: int
    x_row: int
    x_down: int
    x_across: int
    before: int  # the first block's first element
    # A block of x: parts of rows, in each `rows` of LANES `vectors` times
    parts: int
    part: int
    rows: int
    vectors: int
    pitch: int
    row_step: int
    row_apart: int  # step times what a row counts in x, or in the block that is spread
    column_step: int
    lanes_apart: int  # LANES times the step
    start: int  # where the first element is spread to
    wide: int  # columns that are spread, or of a gradient's block
    blank: int  # times FLAT zeros before
    tile: int  # between images' blocks
    # Rows and columns of x are counted by block, from before the padding; those inside of x
    at_down: int
    at_across: int
    h_low: int
    h_high: int
    w_low: int
    w_high: int
    w_c: int
    w_k: int
    w_m: int
    y_group: int
    y_n: int
    y_c: int
    y_k: int
    y_row: int
    y_down: int
    y_across: int
    height: int
    width: int
    y_vectors: int
    room: int  # FLAT times `flats`


_UPPER_BOUNDS = {
    "taps": MAX_DEPTHWISE_TAPS,
    "flats": MAX_BLOCK_ELEMENTS[4] // FLAT_LANES,
    "group": MAX_DEPTHWISE_IMAGES,
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
        return Affine(0, tuple([
            (i, self.sizes[s] if isinstance(s, str) else s) for i, s in terms]))

    def position(self, *terms: tuple[Index, Extent | str]) -> IndexValue:
        return IndexValue(self.at(*terms))

    def below(self, at: Expression, name: str) -> Expression:
        return compare(Scalar.LT, at, SizeValue(self.sizes[name]))

    def within(self, at: Expression, axis: str) -> Expression:
        """Return whether a row or column lies inside x."""
        low = compare(Scalar.GE, at, SizeValue(self.sizes[f"{axis}_low"]))
        return all_of(low, self.below(at, f"{axis}_high"))

    def loop(self, index: Index, extent: Extent | str, body: Sequence[Statement],
             kind: LoopKind = LoopKind.SERIAL) -> Loop:
        stop = self.sizes[extent] if isinstance(extent, str) else extent
        return Loop(index, stop, list(body), kind)

    def nest(self, loops: Sequence[tuple[Index, Extent | str]], body: Sequence[Statement],
             shared: int = 0) -> Statement:
        """Nest loops; threads share the outermost `shared` of them."""
        nest = list(body)
        for depth, (index, extent) in reversed(list(enumerate(loops))):
            kind = LoopKind.PARALLEL if depth < shared else LoopKind.SERIAL
            nest = [self.loop(index, extent, nest, kind)]
        return nest[0]

    def rows(self, v: Index, columns: str, r: Index, rows: str, lane: Index, statement: Statement,
             there: Expression | None = None) -> Statement:
        """Process LANES columns of all existing rows, then the next columns, to reuse masks."""
        body: list[Statement] = [self.loop(lane, LANES, [statement], LoopKind.VECTORIZED)]
        if there is not None:
            body = [If(there, body)]
        return self.nest([(v, columns), (r, rows)], body)

    def strided_terms(self, v: Index, lane: Index) -> list[tuple[Index, Extent | str]]:
        """Return the terms of columns that are one stride apart."""
        if self.step is None:
            return [(v, "lanes_apart"), (lane, "column_step")]
        return [(v, LANES * self.step), (lane, self.step)]

    def each_image(self, *body: Statement) -> Statement:
        """Loop over the images of a group."""
        there = self.below(self.position((self.n, "group"), (self.g, 1)), "images")
        return self.loop(self.g, "group", [If(there, list(body))])

    def flat(self, *body: Statement) -> Statement:
        """Loop over all positions of a block."""
        return self.loop(
            self.u, "flats", [self.loop(self.lane, FLAT_LANES, body, LoopKind.VECTORIZED)]
        )

    def block_position(self, apart: str) -> Affine:
        """Return a position in a block."""
        return self.at((self.g, apart), (self.u, FLAT_LANES), (self.lane, 1))

    @property
    def source(self) -> list[tuple[Index, Extent | str]]:
        """Terms of the index of x's block."""
        return [(self.n, "x_group"), (self.g, "x_n"), (self.c, "x_c"), (self.m, "x_m"),
                (self.down, "x_down"), (self.across, "x_across")]

    @property
    def result(self) -> list[tuple[Index, Extent | str]]:
        """Terms of the index of y's block."""
        return [(self.n, "y_group"), (self.g, "y_n"), (self.c, "y_c"), (self.k, "y_k"),
                (self.down, "y_down"), (self.across, "y_across")]

    def fill_block(self) -> Statement:
        """Copy the block of x with its padding, one part of the stride at a time."""
        p, r, v, lane = (Index(name) for name in ("p", "r", "v", "lane"))
        row = self.position((self.down, "at_down"), (p, 1), (r, "row_step"))
        column = self.position((self.across, "at_across"), (v, LANES), (lane, 1))
        inside = all_of(self.within(row, "h"), self.within(column, "w"))
        source = self.at(*self.source, (p, "x_row"), (r, "row_apart"), (v, LANES), (lane, 1))
        value = Load(self.x, source, ((SizeValue(self.sizes["before"]), 1),), inside)
        place = self.at((self.g, "tile"), (p, "part"), (r, "pitch"), (v, LANES), (lane, 1))
        known = self.below(self.position((v, LANES), (lane, 1)), "pitch")
        store = Store(self.tile, place, value, mask=known)
        return self.loop(p, "parts", [self.rows(v, "vectors", r, "rows", lane, store)])

    def spread(self) -> list[Statement]:
        """Copy the block of a gradient, with zeros between its elements."""
        z, r, v, lane = (Index(name) for name in ("z", "r", "v", "lane"))
        blank = Store(self.tile, self.at((self.g, "tile"), (z, FLAT_LANES), (lane, 1)), self.zero)
        clear = self.loop(z, "blank", [self.loop(lane, FLAT_LANES, [blank], LoopKind.VECTORIZED)])
        row = self.position((self.down, "at_down"), (r, 1))
        column = self.position((self.across, "at_across"), (v, LANES), (lane, 1))
        inside = all_of(self.within(row, "h"), self.within(column, "w"))
        source = self.at(*self.source, (r, "x_row"), (v, LANES), (lane, 1))
        value = Load(self.x, source, ((SizeValue(self.sizes["before"]), 1),), inside)
        place = self.at((self.g, "tile"), (r, "row_apart"), *self.strided_terms(v, lane))
        known = self.below(self.position((v, LANES), (lane, 1)), "wide")
        store = Store(self.tile, place, value, ((SizeValue(self.sizes["start"]), 1),), known)
        return [clear, self.rows(v, "vectors", r, "rows", lane, store)]

    def accumulate_taps(self) -> Statement:
        """Add the taps' products to the block's results."""
        t, total = Index("t"), Accumulator(ReduceOp.SUM, self.type)
        factor = Load(self.weight, self.at((self.c, "w_c"), (self.k, "w_k"), (self.m, "w_m"),
                                           (t, 1)))
        met = Load(
            self.tile, self.block_position("tile"), ((Load(self.offsets, self.at((t, 1))), 1),)
        )
        each = self.loop(t, "taps", [Update(total, Apply(Scalar.MUL, (met, factor), self.type))])
        place = self.block_position("room")
        return self.flat(Begin(total, Load(self.padded_block, place)), each,
                         Store(self.padded_block, place, total))

    def store_results(self, bias: Buffer) -> Statement:
        """Store the block's results plus the channel's bias."""
        r, v, lane = (Index(name) for name in ("r", "v", "lane"))
        there = self.below(self.position((self.down, "block"), (r, 1)), "height")
        known = self.below(self.position((self.across, "y_across"), (v, LANES), (lane, 1)), "width")
        step = [(v, LANES), (lane, 1)] if self.step == 1 else self.strided_terms(v, lane)
        value = Load(self.padded_block, self.at((self.g, "room"), (r, "pitch"), *step))
        shift = Load(bias, self.at((self.c, "each"), (self.k, 1)))
        place = self.at(*self.result, (r, "y_row"), (v, LANES), (lane, 1))
        store = Store(self.y, place, Apply(Scalar.ADD, (value, shift), self.type), mask=known)
        return self.rows(v, "y_vectors", r, "block", lane, store, there)

    def shares(self) -> list[Statement]:
        """Copy y's gradient to where the results lie, with zeros elsewhere."""
        r, v, lane = (Index(name) for name in ("r", "v", "lane"))
        there = self.below(self.position((self.down, "block"), (r, 1)), "height")
        known = all_of(
            self.below(self.position((self.across, "y_across"), (v, LANES), (lane, 1)), "width"),
            self.below(self.position((v, LANES), (lane, 1)), "wide"),
        )
        value = Load(self.y, self.at(*self.result, (r, "y_row"), (v, LANES), (lane, 1)), mask=known)
        place = self.at((self.g, "room"), (r, "pitch"), *self.strided_terms(v, lane))
        store = Store(self.padded_block, place, value, mask=known)
        clear = self.flat(Store(self.padded_block, self.block_position("room"), self.zero))
        return [clear, self.rows(v, "y_vectors", r, "block", lane, store, there)]


def _over_blocks(name: str, b: _BlockNest, fill: Sequence[Statement]) -> Kernel:
    bias = Buffer(b.type, "bias")
    clear = b.flat(Store(b.padded_block, b.block_position("room"), b.zero))
    body = [
        b.each_image(clear),
        b.loop(b.m, "sums", [b.each_image(*fill), b.each_image(b.accumulate_taps())]),
        b.each_image(b.store_results(bias)),
    ]
    loops: list[tuple[Index, Extent | str]] = [
        (b.n, "groups"), (b.c, "channels"), (b.k, "each"), (b.down, "down"), (b.across, "across"),
    ]
    return b.kernel(name, [b.x, b.offsets, b.weight, bias, b.y], [b.nest(loops, body, 2)])


@cache
def windows(type: Type, step: int | None) -> Kernel:
    """Build y = bias + sum over a window of x * weight. Buffers: x, offsets, weight, bias, y."""
    b = _BlockNest(type, step)
    return _over_blocks("depthwise_windows", b, [b.fill_block()])


@cache
def spread(type: Type, step: int | None) -> Kernel:
    """Build a strided convolution's input gradient. Buffers: gy, offsets, weight, zeros, gx."""
    b = _BlockNest(type, step)
    fill = b.spread()
    b.step = 1  # results are stored contiguously
    return _over_blocks("depthwise_spread", b, fill)


@cache
def weight(type: Type, step: int | None) -> Kernel:
    """Build the gradient of the weight. Buffers: x, offsets, gy, gw."""
    b = _BlockNest(type, step)
    t, z, lane = (Index(name) for name in ("t", "z", "lane"))
    total, gw = Accumulator(ReduceOp.SUM, type), Buffer(type, "gw")
    met = Load(b.tile, b.block_position("tile"), ((Load(b.offsets, b.at((t, 1))), 1),))
    product = Apply(Scalar.MUL, (met, Load(b.padded_block, b.block_position("room"))), type)
    place = b.at((b.c, "w_c"), (b.k, "w_k"), (t, 1))
    taps = b.loop(t, "taps", [
        Begin(total), b.each_image(b.flat(Update(total, product))),
        Store(gw, place, total, add=True),
    ])
    clear = b.loop(t, "taps", [Store(gw, place, b.zero)])
    # Elements behind a block are multiplied by zero, so they must be finite.
    blank = b.loop(
        z,
        MAX_TILE_ELEMENTS[type.size] // FLAT_LANES + 2,
        [
            b.loop(
                lane,
                FLAT_LANES,
                [Store(b.tile, b.at((z, FLAT_LANES), (lane, 1)), b.zero)],
                LoopKind.VECTORIZED,
            )
        ],
    )
    blocks = b.nest([(b.n, "groups"), (b.m, "sums"), (b.down, "down"), (b.across, "across")],
                    [b.each_image(b.fill_block(), *b.shares()), taps])
    body = b.nest([(b.c, "channels"), (b.k, "each")], [blank, clear, blocks], 2)
    return b.kernel("depthwise_weight", [b.x, b.offsets, b.y, gw], [body])
