"""Blocking of direct convolutions: register tiles, units of rows, panels and depth blocks.

All choices are made before code is emitted, from extents and strides alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import gcd, prod

from ...loop_ir.ir import (
    Affine, Apply, Axis, Constant, Contract, Expression, Index, IndexValue, Load, Scalar, Type,
)
from ...target.cost_model import (
    ASSUMED_L2_BYTES, DECODED_LOAD_PAIRS_PER_CYCLE, L2_TO_REGISTER_CYCLES, MAX_CONV_BLOCK_STEPS,
    MAX_CONV_REGION_BYTES, MAX_CONV_SCRATCH_BYTES, MAX_CONV_TILE_VECTORS,
    MIN_CONFLICTING_STEP_BYTES, MIN_CONV_UTILIZATION, MIN_CONV_UTILIZATION_GAIN,
    MIN_TILE_STEP_CYCLES, PADDED_STRIDE_BYTES, PORTS, SET_CONFLICT_PADDING_BYTES,
    SET_CONFLICT_STRIDE_BYTES, SMALL_CONV_REGION_BYTES, TILE_KIND_PENALTY, TILE_SETUP_CYCLES,
    TILE_SUM_CYCLES,
)
from ...target.load_balance import utilization
from ...target.machine import Target
from ..llvm.types import sum_type


class Unsupported(Exception):
    """A contraction that this file cannot plan; the emitter uses plain loops instead."""


# ------------------------------------------------------------------------ the window of a load


@dataclass(frozen=True)
class PaddedCoordinate:
    """A coordinate of `a`: offset + the sum of coefficient * index, inside [0, extent).

    `extent` None: always inside. `stride`: elements that one step moves in memory.
    """

    terms: tuple[tuple[Index, int], ...]
    offset: int
    extent: int | None
    stride: int


def _mask_bounds(mask: Expression | None) -> Iterator[tuple[Affine, Scalar, int]]:
    """Yield the comparisons (position, operation, number) whose conjunction is a mask."""
    if mask is None:
        return
    if isinstance(mask, Apply) and mask.operation is Scalar.AND:
        for operand in mask.operands:
            yield from _mask_bounds(operand)
        return
    if isinstance(mask, Apply) and mask.operation in (Scalar.GE, Scalar.LT):
        left, right = mask.operands
        if isinstance(left, IndexValue) and isinstance(right, Constant):
            yield left.value, mask.operation, int(right.value)
            return
    raise Unsupported("a mask that is not a window")


def require_static(value: object) -> int:
    """Return an extent or stride, which must be known at compile time."""
    if not isinstance(value, int):
        raise Unsupported("run-time extents")
    return value


def _list_terms(position: Affine, extents: dict[Index, int]) -> tuple[tuple[Index, int], ...]:
    """The terms along axes longer than 1."""
    return tuple((i, require_static(s)) for i, s in position.terms if extents.get(i, 1) > 1)


def match_window(a: Load, extents: dict[Index, int]) -> list[PaddedCoordinate]:
    """Return the coordinates of a load, padded ones first; empty if nothing is masked."""
    limits: dict[tuple[tuple[Index, int], ...], list[int]] = {}
    for position, operation, value in _mask_bounds(a.mask):
        terms = _list_terms(position, extents)
        low = sum(min(0, c * (extents[i] - 1)) for i, c in terms)
        high = 1 + sum(max(0, c * (extents[i] - 1)) for i, c in terms)
        limits_of_terms = limits.setdefault(terms, [low, high])
        if operation is Scalar.GE:
            limits_of_terms[0] = max(limits_of_terms[0], value - position.base)
        else:
            limits_of_terms[1] = min(limits_of_terms[1], value - position.base)
    if limits.get((), [0, 1]) == [0, 1]:
        limits.pop((), None)  # a constant position, which is inside
    lines = [
        _match_padded_coordinate(a.at, terms, low, high) for terms, (low, high) in limits.items()
    ]
    matched = [i for line in lines for i, _ in line.terms]
    if len(set(matched)) < len(matched):
        raise Unsupported("a window across axes")
    if not lines:
        return []
    for index, stride in _list_terms(a.at, extents):
        if index not in matched:
            lines.append(PaddedCoordinate(((index, 1),), 0, None, stride))
    return lines


def _pair_axes(plan: ConvPlan, extents: dict[Index, int]) -> list[PaddedCoordinate]:
    """Return coordinates of an unpadded `a`: a row axis and a depth axis share one if their
    strides are nearly multiples. Any pairing is correct; a good one has small extents."""
    terms = dict(_list_terms(plan.contract.a.at, extents))
    if any(stride <= 0 for stride in terms.values()):
        return []
    candidates = sorted((i for a in plan.rows if (i := a.index) in terms), key=lambda i: -terms[i])
    lines: list[PaddedCoordinate] = []
    for axis in sorted(plan.depth, key=lambda a: -terms.get(a.index, 0)):
        stride = terms.get(axis.index)
        if stride is None:
            continue
        coordinate_terms: tuple[tuple[Index, int], ...] = ((axis.index, 1),)
        for other in candidates:
            step = min(stride, terms[other])
            if max(stride, terms[other]) in (step, 2 * step, 3 * step, 4 * step):
                coordinate_terms, stride = (
                    ((axis.index, stride // step), (other, terms[other] // step)),
                    step,
                )
                candidates.remove(other)
                break
        lines.append(PaddedCoordinate(coordinate_terms, 0, None, stride))
    return [*lines, *(PaddedCoordinate(((i, 1),), 0, None, terms[i]) for i in candidates)]


def _match_padded_coordinate(
    at: Affine, terms: tuple[tuple[Index, int], ...], low: int, high: int
) -> PaddedCoordinate:
    """Return a padded coordinate whose indices move `at` proportionally."""
    if not terms or high <= low:
        raise Unsupported("a mask that is all or nothing")
    strides = {divmod(require_static(at.stride(i)), c) for i, c in terms}
    if len(strides) > 1 or any(rest for _, rest in strides):
        raise Unsupported("a window across axes")
    return PaddedCoordinate(terms, -low, high - low, strides.pop()[0])


# --------------------------------------------------------------------------------- tile shapes


@dataclass(frozen=True)
class TileExtents:
    """A register tile: extents along the row axes, and vectors of columns.

    Axes after `axis` are whole in each tile, `axis` is cut into tiles, axes before it have extent
    one. `rest` is the extent of the last tile along `axis` if it is smaller.
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


def _split_axis(total: int, part: int) -> list[tuple[int, int]]:
    """Split an axis into pieces of `part`; return (count, extent) pairs."""
    full, rest = divmod(total, part)
    return [(n, e) for n, e in ((full, part), (1 if rest else 0, rest)) if n]


def _estimate_tile_cycles(rows: int, vectors: int, depth: int) -> float:
    """Estimate a tile's cycles, counting only cache and decoder limits."""
    multiply_adds, loads = rows * vectors, rows + vectors
    step = max(
        multiply_adds / PORTS, loads / PORTS, L2_TO_REGISTER_CYCLES * vectors, MIN_TILE_STEP_CYCLES)
    step += loads / PORTS / DECODED_LOAD_PAIRS_PER_CYCLE
    return step * depth + TILE_SUM_CYCLES * multiply_adds + TILE_SETUP_CYCLES


def _iterate_tiles(
    extents: Sequence[int], across: int, registers: int
) -> Iterator[TileExtents]:
    """Yield the tiles whose sums fit the registers: all of the inner row axes, and an equal part
    of the next one."""
    for vectors in range(1, min(MAX_CONV_TILE_VECTORS, across) + 1):
        max_rows = (registers - 1 - vectors) // vectors
        inner = 1
        for axis in reversed(range(len(extents))):
            for extent in _split_evenly(extents[axis]):
                if extent * inner > max_rows:
                    continue
                yield TileExtents(axis, extent, inner, vectors, extents[axis] % extent)
                if extent <= 2:
                    break
            inner *= extents[axis]
            if inner > max_rows:
                break


def _split_evenly(extent: int) -> Iterator[int]:
    """Yield the distinct extents of an axis cut into 1, 2, ... nearly equal parts."""
    last = 0
    for parts in range(1, extent + 1):
        part = -(-extent // parts)
        if part != last:
            yield part
        last = part


def _estimate_cycles(tile: TileExtents, extents: Sequence[int], across: int, depth: int) -> float:
    """Estimate the cycles of all tiles of a contraction, the smaller ones at the edges included."""
    down, right = _split_axis(extents[tile.axis], tile.extent), _split_axis(across, tile.vectors)
    cycles = 0.0
    for n, extent in down:
        for m, vectors in right:
            cycles += n * m * _estimate_tile_cycles(extent * tile.inner, vectors, depth)
    return cycles * prod(extents[: tile.axis]) * (1 + TILE_KIND_PENALTY * (len(down) + len(right)))


def choose_tile_extents(
    extents: Sequence[int], columns: int, depth: int, lanes: int, registers: int
) -> TileExtents:
    """Return the fastest tile by a simple cycle estimate; the first of several."""
    across = -(-columns // lanes)
    return min(
        _iterate_tiles(extents, across, registers),
        key=lambda tile: _estimate_cycles(tile, extents, across, depth),
    )


# ----------------------------------------------------------------------------- the blocking


@dataclass
class ConvPlan:
    """The blocking of a contraction, for direct.py to emit.

    `rows`, `depth`: axes. `shape`: the register tile. `unit`: extents of a unit of rows, a
    thread's unit of work (1 on axes before `first`). `block`: extents of a depth block.
    `panels`: column panels packed at a time. `local`: if `a` is packed, each coordinate's extent
    in scratch and elements per step; else empty.
    """

    contract: Contract
    rows: list[Axis]
    depth: list[Axis]
    columns: int
    lanes: int
    type: Type
    shape: TileExtents
    lines: list[PaddedCoordinate]
    first: int = 0
    unit: list[int] = field(default_factory=list)
    block: list[int] = field(default_factory=list)
    panels: int = 1
    units_at_once: int = 1  # units whose sums stay in scratch across depth blocks
    local: list[tuple[int, int]] = field(default_factory=list)
    scratch: int = 0  # elements of a packed `a`
    once: bool = False  # `a` is packed for all rows at the beginning

    @property
    def row_extents(self) -> list[int]:
        return [require_static(a.extent) for a in self.rows]

    @property
    def depth_extents(self) -> list[int]:
        return [require_static(a.extent) for a in self.depth]

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
        """Depth blocks; the last along the split axis may be smaller."""
        blocks = zip(self.depth_extents, self.block, strict=True)
        return prod(-(-extent // n) for extent, n in blocks)

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

    def reach(self, line: PaddedCoordinate) -> tuple[int, int]:
        """Return a line's extent over one unit and block, and the common step of its values."""
        spans = self.spans()
        step = gcd(*(c for _, c in line.terms)) or 1
        return 1 + sum(abs(c) * (spans[i] - 1) for i, c in line.terms) // step, step

    def spans(self) -> dict[Index, int]:
        """Return the extents of all axes that one packing of `a` covers."""
        if self.blocks > 1 or self.once:  # the packed weight serves all rows
            spans = {a.index: require_static(a.extent) for a in self.rows}
        else:
            spans = {a.index: n for a, n in zip(self.rows, self.unit, strict=True)}
        spans.update({a.index: n for a, n in zip(self.depth, self.block, strict=True)})
        return spans

    def region(self) -> int:
        """The elements of `a` that a unit and block read."""
        return prod(self.reach(line)[0] for line in self.lines)


def plan_direct_conv(contract: Contract, target: Target, alone: bool = False) -> ConvPlan:
    """Plan a contraction's blocking, for one thread if `alone`. Raises Unsupported if its
    extents, strides or types are not supported.
    """
    type = sum_type(contract.a.type)
    if contract.a.type is not contract.b.type or type not in (Type.F32, Type.F64):
        raise Unsupported("types")
    if contract.a.indirect or contract.b.indirect or contract.b.mask is not None:
        raise Unsupported("gathers")
    rows = [a for a in contract.rows if a.extent != 1] or [contract.rows[-1]]
    depth = [a for a in contract.depth if a.extent != 1] or [contract.depth[-1]]
    extents = {a.index: require_static(a.extent) for a in (*rows, *depth)}
    if not prod(extents.values()) or not require_static(contract.column.extent):
        raise Unsupported("nothing to do")
    columns, lanes = require_static(contract.column.extent), target.lanes(type)
    steps = prod(require_static(a.extent) for a in depth)
    shape = choose_tile_extents(
        [require_static(a.extent) for a in rows], columns, steps, lanes, target.vector_registers)
    if not alone:
        shape = _narrow_for_threads(shape, require_static(rows[0].extent), columns, lanes)
    lines = sorted(match_window(contract.a, extents), key=lambda line: -abs(line.stride))
    plan = ConvPlan(contract, rows, depth, columns, lanes, type, shape, lines)
    _cut_rows(plan)
    plan.block = plan.depth_extents
    size = type.size
    if lines:
        _shorten_unit(plan)
    largest = max(plan.steps * plan.width, plan.region() if lines else 0)
    if largest * size > ASSUMED_L2_BYTES or not lines and _do_steps_share_cache_sets(plan):
        if not lines:
            lines = plan.lines = sorted(_pair_axes(plan, extents), key=lambda line: -line.stride)
        _cut_depth(plan)
    shares = 1 if alone else contract.shares
    if lines:
        _pack_once(plan)
        _grow_unit(plan, 4 * max(shares, 2))
    _choose_panels(plan, shares)
    if plan.blocks > 1:
        unit_bytes = plan.tiles * plan.shape.rows * plan.width * size * plan.panels
        plan.units_at_once = max(1, min(plan.units, ASSUMED_L2_BYTES // unit_bytes))
    _place_local(plan)
    return plan


def _do_steps_share_cache_sets(plan: ConvPlan) -> bool:
    """Whether many depth steps are multiples of a large power of two apart in memory."""
    stride = require_static(plan.contract.a.at.stride(plan.depth[-1].index))
    step_bytes = stride * plan.type.size
    return (plan.steps > MAX_CONV_BLOCK_STEPS and step_bytes >= MIN_CONFLICTING_STEP_BYTES
            and step_bytes % SET_CONFLICT_STRIDE_BYTES == 0)


def _choose_panels(plan: ConvPlan, shares: int) -> None:
    """Choose how many panels to pack at a time, and units to divide among the threads."""
    limit = ASSUMED_L2_BYTES if plan.blocks == 1 else ASSUMED_L2_BYTES // 4
    panel = plan.steps * plan.width * plan.type.size
    plan.panels = max(1, min(plan.count, limit // panel))
    if plan.units == 1 and shares > 1:
        plan.panels = 1  # panels are the only work to divide among threads
    if shares > 2:
        _balance_units(plan, shares)


def _narrow_for_threads(shape: TileExtents, rows: int, columns: int, lanes: int) -> TileExtents:
    """Halve the width if there is a single tile, so that two threads have work."""
    if shape.axis or shape.extent < rows or not lanes < columns <= shape.vectors * lanes:
        return shape
    return replace(shape, vectors=-(-shape.vectors // 2))


def _cut_rows(plan: ConvPlan) -> None:
    """Units: a line of tiles."""
    extents, shape = plan.row_extents, plan.shape
    plan.first = shape.axis
    plan.unit = [1] * shape.axis + extents[shape.axis :]
    if shape.axis < len(extents) - 1:
        plan.unit[shape.axis] = shape.extent


def _shorten_unit(plan: ConvPlan) -> None:
    """Cut long lines of tiles until the part of `a` that one reads fits the caches.

    Only for lines along which windows slide; in others the depth is the long axis.
    """
    k, step = plan.first, plan.shape.extent
    index = plan.rows[k].index
    if not any(len(n.terms) > 1 and any(i is index for i, _ in n.terms) for n in plan.lines):
        return
    while plan.region() * plan.type.size > MAX_CONV_REGION_BYTES and plan.unit[k] > step:
        plan.unit[k] = -(-plan.unit[k] // (2 * step)) * step


def _pack_once(plan: ConvPlan) -> None:
    """Pack `a` once if many panels would pack it again, and all of it fits into scratch."""
    panel_bytes = plan.steps * plan.width * plan.type.size
    if plan.blocks == 1 and plan.count > 2 * (ASSUMED_L2_BYTES // panel_bytes):
        plan.once = True  # spans(), and so region(), depend on it
        needed = plan.region() * plan.type.size + max(panel_bytes, ASSUMED_L2_BYTES)
        plan.once = needed <= MAX_CONV_SCRATCH_BYTES


def _balance_units(plan: ConvPlan, threads: int) -> None:
    """Shrink units if the threads could not split them evenly."""
    k, step, groups = plan.first, plan.shape.extent, -(-plan.count // plan.panels)
    if k != plan.shape.axis:
        step = 1
    largest, best, best_utilization = plan.unit[k], plan.unit[k], 0.0
    for extent in range(-(-largest // step) * step, 0, -step):
        plan.unit[k] = min(extent, largest)
        current = utilization(groups * plan.units, threads)
        if current > best_utilization + MIN_CONV_UTILIZATION_GAIN:
            best, best_utilization = plan.unit[k], current
        if best_utilization >= MIN_CONV_UTILIZATION:
            break
    plan.unit[k] = best


def _grow_unit(plan: ConvPlan, min_units: int) -> None:
    """Grow a unit's rows while its packed part of `a` stays small and `min_units` remain."""
    if plan.blocks > 1 or plan.once:
        return
    extents, size = plan.row_extents, plan.type.size
    while plan.region() * size < SMALL_CONV_REGION_BYTES:
        k = plan.first
        step = plan.shape.extent if k == plan.shape.axis else 1
        previous = k, list(plan.unit)
        if plan.unit[k] < extents[k]:
            plan.unit[k] = min(extents[k], plan.unit[k] + step)
        elif k:
            plan.first, plan.unit[k - 1] = k - 1, min(2, extents[k - 1])
        else:
            return
        if plan.region() * size > MAX_CONV_REGION_BYTES or plan.units < min_units:
            plan.first, plan.unit = previous
            return


def _cut_depth(plan: ConvPlan) -> None:
    """Choose depth blocks of a few hundred steps whose operands stay in cache."""
    size, extents = plan.type.size, plan.depth_extents
    for axis, extent in enumerate(extents):
        for parts in range(1, extent + 1):
            part = -(-extent // parts)
            if parts > 1 and part == -(-extent // (parts - 1)):
                continue
            divisors = [d for d in range(part, part // 2, -1) if extent % d == 0]
            plan.block = [1] * axis + [divisors[0] if divisors else part] + extents[axis + 1 :]
            is_small = not plan.lines or plan.region() * size <= ASSUMED_L2_BYTES // 4
            if plan.blocks > 1 and plan.steps <= MAX_CONV_BLOCK_STEPS and is_small:
                return


def _place_local(plan: ConvPlan) -> None:
    """Lay out a packed `a` in scratch: coordinates in order, the last contiguous.

    Large strides become an odd number of cache lines, or a tile's rows would share a cache set.
    """
    stride, padding = 1, SET_CONFLICT_PADDING_BYTES // plan.type.size
    for line in reversed(plan.lines):
        extent = plan.reach(line)[0]
        plan.local.insert(0, (extent, stride))
        stride *= extent
        stride_bytes = stride * plan.type.size
        if stride_bytes >= SET_CONFLICT_STRIDE_BYTES and stride_bytes % PADDED_STRIDE_BYTES == 0:
            stride += padding
    plan.scratch = stride
