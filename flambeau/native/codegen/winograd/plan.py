"""Which convolutions use Winograd's algorithm F(2 x 2, 3 x 3), and their blocking.

Tiles of 2 x 2 outputs take 16 multiplications of 4 x 4 inputs instead of 36, with sums of up to
four values before and after, whose rounding errors are of the size of the products'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ...loop_ir.ir import Axis, Contract, Index, Load, Type
from ...target.cost_model import (
    ASSUMED_L2_BYTES, MAX_SPREAD_INPUT_BYTES, MAX_WIDE_WINOGRAD_CHANNELS,
    MAX_WINOGRAD_RELATIVE_COST, MAX_WINOGRAD_WASTE_RATIO, SET_CONFLICT_PADDING_BYTES,
    SET_CONFLICT_STRIDE_BYTES,
)
from ...target.machine import Target
from ..conv.direct_blocking import PaddedCoordinate, Unsupported, match_window, require_static
from ..conv.direct_tile import runs_along_rows

PLACES = 16  # products of a tile


@dataclass(frozen=True)
class ImageAxis:
    """One axis of the image: outputs along `row`, taps along `tap`.

    Tile i reads positions 2 * i to 2 * i + 3, which are `stride` elements apart; those outside of
    [low, high) are zero. `turned`: the taps run backwards.
    """

    row: Axis
    tap: Axis
    stride: int
    turned: bool
    low: int
    high: int

    @property
    def extent(self) -> int:
        """How many outputs."""
        return require_static(self.row.extent)

    @property
    def tiles(self) -> int:
        """How many tiles they are."""
        return -(-self.extent // 2)

    @property
    def shift(self) -> int:
        """Positions from the first one to where row and tap are 0."""
        return 2 if self.turned else 0


@dataclass(frozen=True)
class WinogradPlan:
    """A blocked convolution: tiles are numbered through all images and taken `batch` at a time.

    `rows` x `vectors` is the register tile, `panels` the number of column panels computed together.
    """

    contract: Contract
    sides: tuple[ImageAxis, ImageAxis]
    others: tuple[Axis, ...]
    channel: Axis
    lanes: int
    type: Type
    rows: int
    vectors: int
    panels: int
    batch: int
    once: bool  # inputs are spread for all the tiles at the beginning
    turned: bool  # outputs have their rows innermost

    @property
    def channels(self) -> int:
        return require_static(self.channel.extent)

    @property
    def columns(self) -> int:
        return require_static(self.contract.column.extent)

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes

    @property
    def count(self) -> int:
        """Panels in all."""
        return -(-self.columns // self.width)

    @property
    def tiles(self) -> int:
        """Tiles in all."""
        return count_tiles(self.sides, self.others)

    @property
    def packed(self) -> bool:
        """Whether images are transposed first, since their rows are innermost."""
        return self.contract.a.at.stride(self.channel.index) != 1

    @property
    def images(self) -> int:
        """Images per unit if units are whole images, else 0."""
        tiles = self.sides[0].tiles * self.sides[1].tiles
        return max(1, self.batch // tiles) if self.packed or self.turned else 0

    @property
    def span(self) -> int:
        """Tiles of a unit."""
        tiles = self.sides[0].tiles * self.sides[1].tiles
        return self.images * tiles if self.images else self.batch

    @property
    def units(self) -> int:
        """The units of work that threads take: batches of tiles, or images."""
        return -(-self.tiles // self.span)

    @property
    def line(self) -> int:
        """Bytes from one tile's channels to the next one's."""
        return pad_line_bytes(self.channels, self.lanes, self.type.size)

    @property
    def inputs_plane(self) -> int:
        """Bytes of the inputs for one of the products: a batch's, or all."""
        tiles = self.units * self.batch if self.once else self.batch
        return tiles * self.line + SET_CONFLICT_PADDING_BYTES

    @property
    def sums_plane(self) -> int:
        """Bytes of a batch's sums over one panel for one of the products."""
        return self.batch * self.width * self.type.size + SET_CONFLICT_PADDING_BYTES

    @property
    def weights(self) -> int:
        """Bytes of one panel's weights for one of the products."""
        return self.channels * self.width * self.type.size


def count_tiles(sides: tuple[ImageAxis, ImageAxis], others: Sequence[Axis]) -> int:
    """Tiles of all images."""
    return prod(require_static(a.extent) for a in others) * sides[0].tiles * sides[1].tiles


def pad_line_bytes(channels: int, lanes: int, size: int) -> int:
    """Of vectors of channels; not a multiple of what would make lines share a set of the cache."""
    line = -(-channels // lanes) * lanes * size
    return line + (SET_CONFLICT_PADDING_BYTES if line % SET_CONFLICT_STRIDE_BYTES == 0 else 0)


def plan_winograd(contract: Contract, target: Target) -> WinogradPlan:
    """Plan a convolution's blocking. Raises Unsupported for other forms and if it does not pay.
    """
    if contract.a.type is not Type.F32 or contract.b.type is not Type.F32:
        raise Unsupported("types")
    sides, others, channel = match_geometry(contract.a, contract.rows, contract.depth)
    lanes = target.lanes(Type.F32)
    columns, channels = require_static(contract.column.extent), require_static(channel.extent)
    if channels < lanes or columns < lanes:
        raise Unsupported("few channels")
    is_wide = channels <= MAX_WIDE_WINOGRAD_CHANNELS and target.vector_registers >= 32
    max_vectors = 4 if is_wide else 2
    vectors = _choose_vectors(-(-columns // lanes), max_vectors)
    tiles = count_tiles(sides, others)
    rows = _choose_rows(tiles, (target.vector_registers - 1 - vectors) // vectors, vectors)
    panel = PLACES * channels * vectors * lanes * 4
    panels = max(1, min(-(-columns // (vectors * lanes)), ASSUMED_L2_BYTES // panel))
    tile_bytes = PLACES * pad_line_bytes(channels, lanes, 4)
    batch = _choose_batch(tiles, rows, tile_bytes, contract.shares)
    once = (
        panels * vectors * lanes < columns
        and -(-tiles // rows) * rows * tile_bytes <= MAX_SPREAD_INPUT_BYTES
    )
    turned = runs_along_rows(contract, sides[1].row.index)
    if turned and len(others) != 1:
        raise Unsupported("rows apart")
    once = once and not turned and contract.a.at.stride(channel.index) == 1
    cut = WinogradPlan(
        contract, sides, others, channel, lanes, Type.F32, rows, vectors, panels, batch, once,
        turned,
    )
    if _estimate_winograd_cycles(cut) > MAX_WINOGRAD_RELATIVE_COST * _estimate_direct_cycles(cut):
        raise Unsupported("a direct convolution is as fast")
    return cut


def match_geometry(a: Load, rows: Sequence[Axis], depth: Sequence[Axis]
                  ) -> tuple[tuple[ImageAxis, ImageAxis], tuple[Axis, ...], Axis]:
    """The two sides of the image, the other rows, and the channels.

    `rows` are what `a` slides over, `depth` its taps and channels.
    """
    if a.indirect:
        raise Unsupported("gathers")
    extents = {axis.index: require_static(axis.extent) for axis in (*rows, *depth)}
    if not prod(extents.values()):
        raise Unsupported("nothing to do")
    reaches = _map_window_coordinates(a, rows, depth, extents)
    sides: list[ImageAxis] = []
    candidates, others = [axis for axis in depth if axis.extent != 1], []
    for row in rows:
        stride = require_static(a.at.stride(row.index))
        taps = [
            t for t in candidates if abs(require_static(a.at.stride(t.index))) == stride
            and t.extent == 3
        ]
        if stride < 1 or row.extent == 1 or not taps:
            others.append(row)
            continue
        candidates.remove(taps[0])
        turned = require_static(a.at.stride(taps[0].index)) < 0
        low, high = 0, require_static(row.extent) + 2
        line = reaches.pop(frozenset((row.index, taps[0].index)), None)
        if line is not None and line.extent is not None:
            if line.stride != stride:
                raise Unsupported("rows that go down")
            first = line.offset - (2 if turned else 0)
            low, high = max(low, -first), min(high, line.extent - first)
        sides.append(ImageAxis(row, taps[0], stride, turned, low, high))
    if len(sides) != 2 or len(candidates) != 1:
        raise Unsupported("not three by three over images")
    if a.at.stride(candidates[0].index) != 1 and (sides[1].stride != 1 or len(others) != 1):
        raise Unsupported("neither channels nor rows are innermost")
    if any(line.extent is not None for line in reaches.values()):
        raise Unsupported("a mask over other axes")
    return (sides[0], sides[1]), tuple(others), candidates[0]


def _map_window_coordinates(
    a: Load, rows: Sequence[Axis], depth: Sequence[Axis], extents: dict[Index, int]
) -> dict[frozenset[Index], PaddedCoordinate]:
    """The lines of a load's window by their indices; steps along them are of one element."""
    lines = match_window(a, extents)
    if any(abs(c) != 1 for line in lines for _, c in line.terms if line.extent is not None):
        raise Unsupported("strides or dilation")
    return {frozenset(i for i, _ in line.terms): line for line in lines}


def _choose_rows(tiles: int, max_rows: int, vectors: int) -> int:
    """Rows of the register tile: about as many as fit, and few too many for the last of them."""
    return min(range(max(1, max_rows - 3), max_rows + 1),
               key=lambda n: -(-tiles // n) * (n * vectors / 2 + 0.7))


def _choose_vectors(across: int, max_vectors: int) -> int:
    """Vectors of a panel: as many as waste none."""
    return min(range(1, max_vectors + 1), key=lambda v: (-(-across // v) * v, -v))


def _choose_batch(tiles: int, rows: int, tile_bytes: int, shares: int) -> int:
    """Return the tiles per batch: whole register tiles, at least a few, as many as the caches hold,
    with about as many batches as the threads can share."""
    min_tiles = 4 * rows
    max_tiles = max(min_tiles, min(12 * rows, (3 * ASSUMED_L2_BYTES // 4) // tile_bytes))
    sizes = range(min_tiles, max_tiles + 1, rows)
    rounding = 1 if shares == 2 else shares
    waste = {n: -(-tiles // (n * rounding)) * rounding * n for n in sizes}
    max_waste = MAX_WINOGRAD_WASTE_RATIO * min(waste.values())
    return min(sizes, key=lambda n: (waste[n] > max_waste, -n))


def _estimate_winograd_cycles(cut: WinogradPlan) -> float:
    """The cycles of the convolution on one thread."""
    across, deep = cut.count * cut.vectors, -(-cut.channels // cut.lanes)
    groups = -(-cut.count // cut.panels)
    tiles = cut.units * (-(-cut.span // cut.batch) * cut.batch)
    products = PLACES * tiles * across * (cut.channels / 2 + 8)
    around = tiles * (50 * deep * (1 if cut.once else groups) + 45 * across)
    around += tiles * 40 * ((deep * groups if cut.packed else 0) + (across if cut.turned else 0))
    return products + around + 2 * 45 * cut.channels * across


def _estimate_direct_cycles(cut: WinogradPlan) -> float:
    """The cycles of a direct convolution on one thread."""
    outputs = prod(require_static(a.extent) for a in cut.contract.rows)
    return 9 * outputs * (cut.channels + 2) * -(-cut.columns // cut.lanes) / 2
