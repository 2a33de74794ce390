"""How a contraction with several row or depth axes is cut: register tiles, units, panels, blocks.

Everything here is decided before a line of code is emitted, from extents and strides alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import gcd, prod

from ...loop_ir.ir import (
    Affine, Apply, Axis, Constant, Contract, Expression, Index, IndexValue, Load, Scalar, Type,
)
from ...target.load_balance import utilization
from ...target.machine import Target
from ..llvm.types import sum_type

L1, L2 = 32 << 10, 1 << 20  # bytes that may be counted on
EVEN = 0.88  # of the time that threads should be at work
_STREAM = 2.5  # cycles that a vector of b takes to come from the L2 cache


class Unsupported(Exception):
    """A contraction that this file does not cut; the emitter's plain loops run it."""


# ------------------------------------------------------------------------ the window of a load


@dataclass(frozen=True)
class Line:
    """A coordinate of `a`: offset + the sum of coefficient * index, inside [0, extent).

    `extent` None: always inside. `stride` is what a step of it moves in memory, in elements.
    """

    terms: tuple[tuple[Index, int], ...]
    offset: int
    extent: int | None
    stride: int


def _bounds(mask: Expression | None) -> Iterator[tuple[Affine, Scalar, int]]:
    """The comparisons of positions with numbers that a mask is the conjunction of."""
    if mask is None:
        return
    if isinstance(mask, Apply) and mask.operation is Scalar.AND:
        for one in mask.operands:
            yield from _bounds(one)
        return
    if isinstance(mask, Apply) and mask.operation in (Scalar.GE, Scalar.LT):
        left, right = mask.operands
        if isinstance(left, IndexValue) and isinstance(right, Constant):
            yield left.value, mask.operation, int(right.value)
            return
    raise Unsupported("a mask that is not a window")


def whole(value: object) -> int:
    """An extent or stride that must be known while emitting."""
    if not isinstance(value, int):
        raise Unsupported("run-time extents")
    return value


def _terms(position: Affine, extents: dict[Index, int]) -> tuple[tuple[Index, int], ...]:
    """The terms along axes longer than 1."""
    return tuple((i, whole(s)) for i, s in position.terms if extents.get(i, 1) > 1)


def window(a: Load, extents: dict[Index, int]) -> list[Line]:
    """The coordinates of a load, the padded ones first; empty where nothing is masked."""
    limits: dict[tuple[tuple[Index, int], ...], list[int]] = {}
    for position, operation, value in _bounds(a.mask):
        terms = _terms(position, extents)
        low = sum(min(0, c * (extents[i] - 1)) for i, c in terms)
        high = 1 + sum(max(0, c * (extents[i] - 1)) for i, c in terms)
        held = limits.setdefault(terms, [low, high])
        if operation is Scalar.GE:
            held[0] = max(held[0], value - position.base)
        else:
            held[1] = min(held[1], value - position.base)
    if limits.get((), [0, 1]) == [0, 1]:
        limits.pop((), None)  # one position, which is inside
    lines = [_line(a.at, terms, low, high) for terms, (low, high) in limits.items()]
    taken = [i for line in lines for i, _ in line.terms]
    if len(set(taken)) < len(taken):
        raise Unsupported("a window across axes")
    if not lines:
        return []
    for index, stride in _terms(a.at, extents):
        if index not in taken:
            lines.append(Line(((index, 1),), 0, None, stride))
    return lines


def _paired(made: Plan, extents: dict[Index, int]) -> list[Line]:
    """Coordinates of an `a` without padding: a row axis and a depth axis whose strides are near
    multiples of one another move along one of them. Any pairing is right, a good one is small."""
    terms = dict(_terms(made.contract.a.at, extents))
    if any(stride <= 0 for stride in terms.values()):
        return []
    left = sorted((i for a in made.rows if (i := a.index) in terms), key=lambda i: -terms[i])
    lines: list[Line] = []
    for axis in sorted(made.depth, key=lambda a: -terms.get(a.index, 0)):
        stride = terms.get(axis.index)
        if stride is None:
            continue
        one: tuple[tuple[Index, int], ...] = ((axis.index, 1),)
        for other in left:
            step = min(stride, terms[other])
            if max(stride, terms[other]) in (step, 2 * step, 3 * step, 4 * step):
                one, stride = ((axis.index, stride // step), (other, terms[other] // step)), step
                left.remove(other)
                break
        lines.append(Line(one, 0, None, stride))
    return [*lines, *(Line(((i, 1),), 0, None, terms[i]) for i in left)]


def _line(at: Affine, terms: tuple[tuple[Index, int], ...], low: int, high: int) -> Line:
    """A padded coordinate, whose indices move `at` in proportion."""
    if not terms or high <= low:
        raise Unsupported("a mask that is all or nothing")
    strides = {divmod(whole(at.stride(i)), c) for i, c in terms}
    if len(strides) > 1 or any(rest for _, rest in strides):
        raise Unsupported("a window across axes")
    return Line(terms, -low, high - low, strides.pop()[0])


# --------------------------------------------------------------------------------- tile shapes


@dataclass(frozen=True)
class Shape:
    """A register tile: extents along the row axes, and vectors of columns.

    Axes after `axis` are whole in each tile; `axis` is cut into tiles; before it, tiles are one
    row. `rest` is the extent of the last tile along `axis` where it is a smaller one, else 0.
    """

    axis: int
    extent: int
    inner: int  # rows along the axes after `axis`
    vectors: int
    rest: int

    @property
    def rows(self) -> int:
        """Rows of a full tile."""
        return self.extent * self.inner


def _pieces(total: int, each: int) -> list[tuple[int, int]]:
    """(how many, of what extent) that an axis falls into."""
    full, rest = divmod(total, each)
    return [(n, e) for n, e in ((full, each), (1 if rest else 0, rest)) if n]


def _cycles(rows: int, vectors: int, depth: int) -> float:
    """Cycles of one tile, were caches and decoders no limit but for what is counted here."""
    loads = (rows + vectors) / 2
    step = max(rows * vectors / 2, loads, _STREAM * vectors, 2.0) + loads / 6
    return step * depth + rows * vectors * 2 + 20


def tile_shape(extents: Sequence[int], columns: int, depth: int, lanes: int, registers: int
               ) -> Shape:  # fmt: skip
    """The tile that a simple count of cycles likes best."""
    best: tuple[float, Shape] | None = None
    across = -(-columns // lanes)
    for vectors in range(1, min(6, across) + 1):
        limit = (registers - 1 - vectors) // vectors
        inner = 1
        for axis in reversed(range(len(extents))):
            extent = extents[axis]
            for parts in range(1, extent + 1):
                each = -(-extent // parts)
                if each * inner > limit or (parts > 1 and -(-extent // (parts - 1)) == each):
                    continue
                cost = 0.0
                for n, e in _pieces(extent, each):
                    for m, v in _pieces(across, vectors):
                        cost += n * m * _cycles(e * inner, v, depth)
                cost *= prod(extents[:axis])
                cost *= 1 + 0.002 * (len(_pieces(extent, each)) + len(_pieces(across, vectors)))
                if best is None or cost < best[0]:
                    best = cost, Shape(axis, each, inner, vectors, extent % each)
                if each <= 2:
                    break
            inner *= extent
            if inner > limit:
                break
    assert best is not None
    return best[1]


# -------------------------------------------------------------------------------- the whole cut


@dataclass
class Plan:
    """A contraction cut: what conv.py emits.

    `rows`, `depth`: axes. `shape`: the register tile. `unit`: extents of a unit of rows, which
    a thread takes as a whole (from `first` on; axes before it: one). `block`: extents of a block
    of the depth; `panels`: how many panels of columns are packed at a time. `local`: with a
    packed `a`, each coordinate's extent in scratch and elements a step, else empty.
    """

    contract: Contract
    rows: list[Axis]
    depth: list[Axis]
    columns: int
    lanes: int
    type: Type
    shape: Shape
    lines: list[Line]
    first: int = 0
    unit: list[int] = field(default_factory=list)
    block: list[int] = field(default_factory=list)
    panels: int = 1
    held: int = 1  # units whose sums are kept while the depth's blocks pass
    local: list[tuple[int, int]] = field(default_factory=list)
    scratch: int = 0  # elements that a packed `a` takes
    once: bool = False  # `a` is packed for all rows at the beginning

    @property
    def row_extents(self) -> list[int]:
        return [whole(a.extent) for a in self.rows]

    @property
    def depth_extents(self) -> list[int]:
        return [whole(a.extent) for a in self.depth]

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.shape.vectors * self.lanes

    @property
    def count(self) -> int:
        """Panels in all."""
        return -(-self.columns // self.width)

    @property
    def last(self) -> int:
        """Columns of the last panel."""
        return self.columns - (self.count - 1) * self.width

    @property
    def steps(self) -> int:
        """Steps of a block of the depth."""
        return prod(self.block)

    @property
    def blocks(self) -> int:
        """Blocks of the depth; along the axis that is cut the last may be a smaller one."""
        each = zip(self.depth_extents, self.block, strict=True)
        return prod(-(-extent // n) for extent, n in each)

    @property
    def units(self) -> int:
        """Units of rows in all."""
        return prod(self.row_extents[: self.first]) * -(
            -self.row_extents[self.first] // self.unit[self.first]
        )

    @property
    def tiles(self) -> int:
        """Tiles of a unit."""
        k = self.shape.axis
        return prod(self.unit[self.first : k]) * -(-self.unit[k] // self.shape.extent)

    def reach(self, line: Line) -> tuple[int, int]:
        """A line's extent over one unit and block, and the step that all its values share."""
        spans = self.spans()
        step = gcd(*(c for _, c in line.terms)) or 1
        return 1 + sum(abs(c) * (spans[i] - 1) for i, c in line.terms) // step, step

    def spans(self) -> dict[Index, int]:
        """The extents of every axis that one packing of `a` covers."""
        if self.blocks > 1 or self.once:  # what is packed is for all the rows
            spans = {a.index: whole(a.extent) for a in self.rows}
        else:
            spans = {a.index: n for a, n in zip(self.rows, self.unit, strict=True)}
        spans.update({a.index: n for a, n in zip(self.depth, self.block, strict=True)})
        return spans

    def region(self) -> int:
        """Elements of `a` that one unit and block read."""
        return prod(self.reach(line)[0] for line in self.lines)


def plan(contract: Contract, target: Target, alone: bool = False) -> Plan:
    """Cuts a contraction, for one thread where it is `alone`. Unsupported where its extents,
    strides or types are not for this."""
    type = sum_type(contract.a.type)
    if contract.a.type is not contract.b.type or type not in (Type.F32, Type.F64):
        raise Unsupported("types")
    if contract.a.indirect or contract.b.indirect or contract.b.mask is not None:
        raise Unsupported("gathers")
    rows = [a for a in contract.rows if a.extent != 1] or [contract.rows[-1]]
    depth = [a for a in contract.depth if a.extent != 1] or [contract.depth[-1]]
    extents = {a.index: whole(a.extent) for a in (*rows, *depth)}
    if not prod(extents.values()) or not whole(contract.column.extent):
        raise Unsupported("nothing to do")
    columns, lanes = whole(contract.column.extent), target.lanes(type)
    steps = prod(whole(a.extent) for a in depth)
    shape = tile_shape([whole(a.extent) for a in rows], columns, steps, lanes,
                       target.vector_registers)  # fmt: skip
    shape = shape if alone else _shared(shape, whole(rows[0].extent), columns, lanes)
    lines = sorted(window(contract.a, extents), key=lambda line: -abs(line.stride))
    made = Plan(contract, rows, depth, columns, lanes, type, shape, lines)
    _cut_rows(made)
    made.block = made.depth_extents
    size = type.size
    if lines:
        _shorten_unit(made)
    apart = whole(contract.a.at.stride(depth[-1].index)) * size
    crowded = not lines and made.steps > 512 and apart >= 1024 and apart % 512 == 0
    if crowded or made.steps * made.width * size > L2 or (lines and made.region() * size > L2):
        if not lines:  # steps of the depth may be far apart, and share sets of the caches
            lines = made.lines = sorted(_paired(made, extents), key=lambda line: -line.stride)
        _cut_depth(made)
    shares = 1 if alone else contract.shares
    if lines:
        _pack_once(made)
        _grow_unit(made, 4 * max(shares, 2))
    _choose_panels(made, shares)
    if made.blocks > 1:
        each = made.tiles * made.shape.rows * made.width * size * made.panels
        made.held = max(1, min(made.units, L2 // each))
    _place_local(made)
    return made


def _choose_panels(made: Plan, shares: int) -> None:
    """How many panels are packed at a time, and units that so many threads can share."""
    limit = L2 if made.blocks == 1 else L2 // 4
    panel = made.steps * made.width * made.type.size
    made.panels = max(1, min(made.count, limit // panel))
    if made.units == 1 and shares > 1:
        made.panels = 1  # threads have nothing but panels to share
    if shares > 2:
        _even_out(made, shares)


def _shared(shape: Shape, rows: int, columns: int, lanes: int) -> Shape:
    """Half as wide where one tile would be all there is, for one thread: two have a panel each."""
    if shape.axis or shape.extent < rows or not lanes < columns <= shape.vectors * lanes:
        return shape
    return replace(shape, vectors=-(-shape.vectors // 2))


def _cut_rows(made: Plan) -> None:
    """Units: a line of tiles."""
    extents, shape = made.row_extents, made.shape
    made.first = shape.axis
    made.unit = [1] * shape.axis + extents[shape.axis :]
    if shape.axis < len(extents) - 1:
        made.unit[shape.axis] = shape.extent


def _shorten_unit(made: Plan) -> None:
    """Cuts long lines of tiles, until what one reads of `a` fits into the caches.

    Only where windows slide along the line: in other lines the depth is what is long.
    """
    k, step = made.first, made.shape.extent
    index = made.rows[k].index
    if not any(len(n.terms) > 1 and any(i is index for i, _ in n.terms) for n in made.lines):
        return
    while made.region() * made.type.size > 8 * L1 and made.unit[k] > step:
        made.unit[k] = -(-made.unit[k] // (2 * step)) * step


def _pack_once(made: Plan) -> None:
    """Where `a` would be packed again for many panels, and all of it fits into scratch."""
    panel = made.steps * made.width * made.type.size
    if made.blocks == 1 and made.count > 2 * (L2 // panel):
        made.once = True
        made.once = made.region() * made.type.size + max(panel, L2) <= 7 * L2 // 2


def _even_out(made: Plan, threads: int) -> None:
    """Smaller units, where so many threads could not share those that there are evenly."""
    k, step, groups = made.first, made.shape.extent, -(-made.count // made.panels)
    if k != made.shape.axis:
        step = 1
    largest, best, even = made.unit[k], made.unit[k], 0.0
    for each in range(-(-largest // step) * step, 0, -step):
        made.unit[k] = min(each, largest)
        now = utilization(groups * made.units, threads)
        if now > even + 0.03:
            best, even = made.unit[k], now
        if even >= EVEN:
            break
    made.unit[k] = best


def _grow_unit(made: Plan, least: int) -> None:
    """Takes more rows into a unit while what it packs of `a` stays small, and so many are left."""
    if made.blocks > 1 or made.once:
        return
    extents, size = made.row_extents, made.type.size
    while made.region() * size < 5 * L1:
        k = made.first
        step = made.shape.extent if k == made.shape.axis else 1
        kept = k, list(made.unit)
        if made.unit[k] < extents[k]:
            made.unit[k] = min(extents[k], made.unit[k] + step)
        elif k:
            made.first, made.unit[k - 1] = k - 1, min(2, extents[k - 1])
        else:
            return
        if made.region() * size > 8 * L1 or made.units < least:
            made.first, made.unit = kept
            return


def _cut_depth(made: Plan) -> None:
    """Blocks of the depth of a few hundred steps, of which what is read stays in the caches."""
    size, extents = made.type.size, made.depth_extents
    for axis, extent in enumerate(extents):
        for parts in range(1, extent + 1):
            each = -(-extent // parts)
            if parts > 1 and each == -(-extent // (parts - 1)):
                continue
            even = [d for d in range(each, each // 2, -1) if extent % d == 0]
            made.block = [1] * axis + [even[0] if even else each] + extents[axis + 1 :]
            small = not made.lines or made.region() * size <= L2 // 4
            if made.blocks > 1 and made.steps <= 512 and small:
                return


def _place_local(made: Plan) -> None:
    """Where a packed `a` lies in scratch: lines in order, the last one contiguous.

    Strides of many cache lines are made odd ones, or a tile's rows would share a set of the cache.
    """
    stride, line_elements = 1, 64 // made.type.size
    for line in reversed(made.lines):
        extent = made.reach(line)[0]
        made.local.insert(0, (extent, stride))
        stride *= extent
        if stride * made.type.size >= 512 and stride * made.type.size % 128 == 0:
            stride += line_elements
    made.scratch = stride
