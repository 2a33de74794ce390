"""Software prefetch for vectorized loops that stream through memory.

The hardware prefetcher stops at page boundaries and needs time to restart: beyond L2 a pointwise
loop spends a third of its time there. Data that exceeds the last-level cache comes from DRAM and is
prefetched from further ahead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Any

from ...loop_ir.ir import (
    Affine, Buffer, Contract, Index, Load, Loop, LoopKind, Statement, Store, iterate_statements,
)
from ...target.cache_sizes import LINE_BYTES
from ...target.cost_model import (
    FAR_PREFETCH_DISTANCE_BYTES, MAX_STREAMED_WINDOW_ELEMENTS, MIN_DRAM_STREAM_BYTES,
    MIN_STREAM_BYTES, PREFETCH_DISTANCE_BYTES,
)
from .epilogue_prefetch import emit_prefetch
from .vectorization import collect_accesses


@dataclass
class _Around:
    """The loops around a loop, and the streams that earlier loops in them have read."""

    loops: tuple[Loop, ...] = ()
    seen: set = field(default_factory=set)


@dataclass(frozen=True)
class Streams:
    """The accesses that a loop prefetches (with whether each is written), and the loops around it,
    itself included.
    """

    places: tuple[tuple[Load | Store, bool], ...] = ()
    loops: tuple[Loop, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes of all accesses in one iteration."""
        return sum(place.buffer.type.size for place, _ in self.places)


NO_STREAMS = Streams()


def find_streams(body: Sequence[Statement], lanes: dict[Loop, int]) -> dict[Loop, Streams]:
    """The streams that each vectorized loop prefetches."""
    by_loop = dict(_iterate_loops(body, lanes, _Around()))
    return {loop: stream for loop, stream in by_loop.items() if stream.places}


def _iterate_loops(body: Sequence[Statement], lanes: dict[Loop, int], around: _Around
                   ) -> Iterator[tuple[Loop, Streams]]:
    for statement in body:
        if not isinstance(statement, Loop):
            continue
        loops = (*around.loops, statement)
        if statement not in lanes:
            # Iterations of a parallel loop access different memory; those of others may reuse it.
            parallel = statement.kind is LoopKind.PARALLEL
            if parallel and not any(isinstance(s, Contract) for s
                                    in iterate_statements([statement])):
                yield from _iterate_loops(statement.body, lanes, _Around(loops, set(around.seen)))
        elif statement.kind is LoopKind.PARALLEL or around.loops:
            accesses = _list_streams(statement, loops, around.seen if around.loops else set())
            yield statement, Streams(tuple(accesses), loops)


def _list_streams(
    loop: Loop, loops: tuple[Loop, ...], seen: set
) -> list[tuple[Load | Store, bool]]:
    """The streams of one loop, without those that an earlier loop has brought into L2."""
    inside = list(iterate_statements(loop.body))
    windows = {
        statement.index: statement.extent for statement in inside if isinstance(statement, Loop)
    }
    if any(isinstance(statement, Contract) for statement in inside):
        return []
    if not all(
        isinstance(extent, int) and extent <= MAX_STREAMED_WINDOW_ELEMENTS
        for extent in windows.values()
    ):
        return []
    around = [loop.index for loop in loops]
    by_line: dict[Any, tuple[Load | Store, bool]] = {}
    for place in collect_accesses(inside):
        if place.indirect or place.buffer.local is not None or place.at.stride(loop.index) != 1:
            continue
        if any(place.at.stride(index) == 0 for index in around):
            continue  # the same in all iterations of a loop
        for access in _spread(place, windows):
            key = _make_key(access.buffer, access, loop.index)
            if key not in seen:
                by_line[key] = (
                    access,
                    isinstance(access, Store) or (key in by_line and by_line[key][1]),
                )
    if not _exceeds_l2(loops, [place for place, _ in by_line.values()]):
        return []
    seen.update(by_line)
    return list(by_line.values())


def _spread(place: Load | Store, windows: dict[Index, Any]) -> list[Load | Store]:
    """The accesses of an unrolled window; none if there are too many."""
    steps: list[tuple[int, int]] = []  # (count, stride)
    for index, stride in place.at.terms:
        if index in windows:
            if not isinstance(stride, int):
                return []
            steps.append((windows[index], stride))
    if prod(extent for extent, _ in steps) > MAX_STREAMED_WINDOW_ELEMENTS:
        return []
    outer = tuple([term for term in place.at.terms if term[0] not in windows])
    accesses: list[Load | Store] = []
    for combination in product(*(range(extent) for extent, _ in steps)):
        moved = sum(i * stride for i, (_, stride) in zip(combination, steps, strict=True))
        accesses.append(replace(place, at=Affine(place.at.base + moved, outer)))
    return accesses


def _make_key(buffer: Buffer, place: Load | Store, lane: Index) -> tuple:
    rest = frozenset(term for term in place.at.terms if term[0] is not lane)
    return (buffer, place.at.base, rest)


def _exceeds_l2(loops: tuple[Loop, ...], accesses: Sequence[Load | Store]) -> bool:
    """Whether the accesses cover too much memory to stay in L2, as far as is known."""
    total = sum(place.buffer.type.size for place in accesses)
    for loop in loops:
        if not isinstance(loop.extent, int):
            return total > 0
        total *= loop.extent
    return total >= MIN_STREAM_BYTES


def prefetch_streams(context: Any, scope: Any, streams: Streams, lanes: int) -> None:
    """Prefetch the lines at a fixed distance ahead of this iteration's."""
    b = context.builder
    far = _exceeds_last_level(context, streams) if streams.places else False
    for place, written in streams.places:
        type = place.buffer.type
        near, beyond = (
            b.integer(n // type.size)
            for n in (PREFETCH_DISTANCE_BYTES, FAR_PREFETCH_DISTANCE_BYTES)
        )
        ahead = (beyond if far else near) if isinstance(far, bool) else b.select(far, beyond, near)
        first = b.offset_elements(context.pointer(place.buffer, place.at, scope), ahead, type)
        for line in range(max(1, lanes * type.size // LINE_BYTES)):
            address = (
                b.offset_elements(first, b.integer(line * LINE_BYTES // type.size), type)
                if line
                else first
            )
            emit_prefetch(b, address, written)


def _exceeds_last_level(context: Any, streams: Streams) -> Any:
    """Whether all iterations together exceed what the last-level cache holds, or holds nearby:
    known at compile time, or an i1."""
    b, total, unknown = context.builder, streams.bytes, []
    for loop in streams.loops:
        if isinstance(loop.extent, int):
            total *= loop.extent
        else:
            unknown.append(loop.extent)
    most = min(context.target.llc_bytes * 3 // 4, MIN_DRAM_STREAM_BYTES)
    if not unknown:
        return total >= most
    size = b.integer(total)
    for extent in unknown:
        size = b.mul(size, context.extent(extent))
    return b.icmp_signed(">=", size, b.integer(most))
