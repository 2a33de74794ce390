"""Splits tiles among threads: in one sequence, or on a grid of row groups by column panels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from ..llvm.address import constant
from ..llvm.types import I64, Number
from .context import Context

_GRID = "flambeau_grid"


@dataclass(frozen=True)
class TileRange:
    """The tiles of one thread: half-open ranges of row groups and column panels."""

    first_group: Number
    last_group: Number
    first_panel: Number
    last_panel: Number


def _declare_grid(module: ir.Module) -> ir.Function:
    """Declare i64(threads, groups, panels, tile, panel, group): how many threads to place along
    the panels so that the slowest one has the least work. The last three are the costs of a tile,
    and of loading a panel's columns and a group's rows.
    """
    declared = module.globals.get(_GRID)
    if declared is not None:
        return declared
    grid = ir.Function(module, ir.FunctionType(I64, [I64] * 6), _GRID)
    grid.linkage = "internal"
    grid.attributes.add("noinline")
    threads, groups, panels, tile, panel, group = grid.args
    entry, attempt, done = (grid.append_basic_block(name) for name in ("entry", "try", "done"))
    b = ir.IRBuilder(entry)
    b.branch(attempt)
    b.position_at_end(attempt)
    across, best, least = b.phi(I64), b.phi(I64), b.phi(I64)
    down = b.udiv(threads, across)
    unit = constant(1)

    def most(count: ir.Value, parts: ir.Value) -> ir.Value:
        return b.udiv(b.add(count, b.sub(parts, unit)), parts)

    rows, columns = most(groups, down), most(panels, across)
    near = b.add(b.mul(columns, panel), b.mul(rows, group))
    work = b.add(b.mul(b.mul(rows, columns), tile), near)
    better = b.icmp_unsigned("<", work, least)
    now, less = b.select(better, across, best), b.select(better, work, least)
    fewer = b.sub(across, unit)
    for phi, first, later in ((across, threads, fewer), (best, unit, now),
                              (least, constant((1 << 62) - 1), less)):
        phi.add_incoming(first, entry)
        phi.add_incoming(later, attempt)
    b.cbranch(b.icmp_unsigned(">", fewer, constant(0)), attempt, done)
    b.position_at_end(done)
    b.ret(now)
    return grid


def split_tiles(
    b: ir.IRBuilder, tid: ir.Value, threads: ir.Value, groups: Number, panels: Number,
    costs: Sequence[int] = (1, 0, 0),
) -> TileRange:
    """The tiles of thread `tid`; empty for surplus threads.

    `costs`: of a tile, and of loading a panel of columns and a group of rows.
    """
    if isinstance(groups, int) and isinstance(panels, int) and groups * panels <= 1:
        mine = b.zext(b.icmp_signed("==", tid, constant(0)), I64)
        return TileRange(0, b.mul(mine, constant(groups)), 0, panels)
    before = b.block
    several, done = b.append_basic_block("share"), b.append_basic_block("shared")
    b.cbranch(b.icmp_signed(">", threads, constant(1)), several, done)
    b.position_at_end(several)
    across = b.call(
        _declare_grid(b.module),
        [constant(argument) for argument in (threads, groups, panels, *costs)],
    )
    down = b.udiv(threads, across)
    row, column = b.udiv(tid, across), b.urem(tid, across)
    is_partial = b.icmp_signed("<", row, down)
    cut = []
    for count, part, parts in ((groups, row, down), (panels, column, across)):
        count = constant(count)
        first = b.udiv(b.mul(part, count), parts)
        last = b.udiv(b.mul(b.add(part, constant(1)), count), parts)
        cut += [first, b.select(is_partial, last, first)]
    after = b.block
    b.branch(done)
    b.position_at_end(done)
    out = []
    for bound, mine in zip((0, groups, 0, panels), cut, strict=True):
        phi = b.phi(I64)
        phi.add_incoming(constant(bound), before)
        phi.add_incoming(mine, after)
        out.append(phi)
    return TileRange(*out)


def split_units(b: ir.IRBuilder, context: Context, total: int) -> tuple[ir.Value, ir.Value]:
    """Return this thread's first unit out of `total`, and the end of its range."""
    if context.parallel:
        return constant(0), constant(total)
    low = b.sdiv(b.mul(context.tid, constant(total)), context.threads)
    following = b.add(context.tid, constant(1))
    return low, b.sdiv(b.mul(following, constant(total)), context.threads)
