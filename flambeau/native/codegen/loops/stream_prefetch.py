"""Streams: memory that a loop in lanes goes through once, line by line, asked for ahead of it.

The processor's own fetching stops at each page and takes a while to begin anew; with arrays beyond
the second cache a pointwise loop spends a third of its time there. What the last cache cannot hold
comes from further away, and is asked for sooner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Any

from ...loop_ir.ir import (
    Affine, Buffer, Contract, Index, Kind, Load, Loop, Statement, Store, statements,
)
from .epilogue_prefetch import prefetch
from .vectorization import touched
from ...target.cache_sizes import LINE_BYTES

DISTANCE, FAR_DISTANCE = 2048, 8192  # bytes ahead; of what fills the last cache
LEAST = 1 << 20  # bytes of all streams of a loop; less is near by itself
SPREAD = 16 << 20  # bytes from which on they are far in any last cache: a great one has many places
WINDOW = 9  # elements of a window that a loop folds, each of which is a stream


@dataclass
class _Around:
    """The loops around a loop, and the streams that were gone through in there before."""

    loops: tuple[Loop, ...] = ()
    seen: set = field(default_factory=set)


@dataclass(frozen=True)
class Streams:
    """The places whose memory a loop asks for, and whether each is written; the loops around that
    one, and itself."""

    places: tuple[tuple[Load | Store, bool], ...] = ()
    loops: tuple[Loop, ...] = ()

    @property
    def bytes(self) -> int:
        """Of all places, in one round."""
        return sum(place.buffer.type.size for place, _ in self.places)


NONE = Streams()


def streams(body: Sequence[Statement], lanes: dict[Loop, int]) -> dict[Loop, Streams]:
    """What loops in lanes are to ask for."""
    found = dict(_each(body, lanes, _Around()))
    return {loop: one for loop, one in found.items() if one.places}


def _each(body: Sequence[Statement], lanes: dict[Loop, int], around: _Around
          ) -> Iterator[tuple[Loop, Streams]]:  # fmt: skip
    for one in body:
        if not isinstance(one, Loop):
            continue
        loops = (*around.loops, one)
        if one not in lanes:
            # Rounds of a parallel loop go over other memory; those of others may go over it again.
            parallel = one.kind is Kind.PARALLEL
            if parallel and not any(isinstance(s, Contract) for s in statements([one])):
                yield from _each(one.body, lanes, _Around(loops, set(around.seen)))
        elif one.kind is Kind.PARALLEL or around.loops:
            places = _places(one, loops, around.seen if around.loops else set())
            yield one, Streams(tuple(places), loops)


def _places(loop: Loop, loops: tuple[Loop, ...], seen: set) -> list[tuple[Load | Store, bool]]:
    """The streams of one loop, but for those that an earlier one has brought near."""
    inside = list(statements(loop.body))
    windows = {one.index: one.extent for one in inside if isinstance(one, Loop)}
    if any(isinstance(one, Contract) for one in inside):
        return []
    if not all(isinstance(extent, int) and extent <= WINDOW for extent in windows.values()):
        return []
    around = [one.index for one in loops]
    found: dict[Any, tuple[Load | Store, bool]] = {}
    for place in touched(inside):
        if place.indirect or place.buffer.local is not None or place.at.stride(loop.index) != 1:
            continue
        if any(place.at.stride(index) == 0 for index in around):
            continue  # the same for all rounds of a loop
        for one in _spread(place, windows):
            key = _key(one.buffer, one, loop.index)
            if key not in seen:
                found[key] = (one, isinstance(one, Store) or (key in found and found[key][1]))
    if not _far(loops, [place for place, _ in found.values()]):
        return []
    seen.update(found)
    return list(found.values())


def _spread(place: Load | Store, windows: dict[Index, Any]) -> list[Load | Store]:
    """The places in a window that is folded; none where they are too many."""
    steps: list[tuple[int, int]] = []  # how many, how far apart
    for index, stride in place.at.terms:
        if index in windows:
            if not isinstance(stride, int):
                return []
            steps.append((windows[index], stride))
    if prod(extent for extent, _ in steps) > WINDOW:
        return []
    outer = tuple([term for term in place.at.terms if term[0] not in windows])
    found: list[Load | Store] = []
    for at in product(*(range(extent) for extent, _ in steps)):
        moved = sum(i * stride for i, (_, stride) in zip(at, steps, strict=True))
        found.append(replace(place, at=Affine(place.at.base + moved, outer)))
    return found


def _key(buffer: Buffer, place: Load | Store, lane: Index) -> tuple:
    rest = frozenset(term for term in place.at.terms if term[0] is not lane)
    return (buffer, place.at.base, rest)


def _far(loops: tuple[Loop, ...], places: Sequence[Load | Store]) -> bool:
    """Whether the places are too much memory to be near, as far as is known."""
    total = sum(place.buffer.type.size for place in places)
    for loop in loops:
        if not isinstance(loop.extent, int):
            return total > 0
        total *= loop.extent
    return total >= LEAST


def ask(context: Any, scope: Any, streams: Streams, lanes: int) -> None:
    """Asks for the lines that come a distance behind those of this round."""
    b = context.builder
    far = _far_away(context, streams) if streams.places else False
    for place, written in streams.places:
        type = place.buffer.type
        near, beyond = (b.integer(n // type.size) for n in (DISTANCE, FAR_DISTANCE))
        ahead = (beyond if far else near) if isinstance(far, bool) else b.select(far, beyond, near)
        first = b.moved(context.pointer(place.buffer, place.at, scope), ahead, type)
        for line in range(max(1, lanes * type.size // LINE_BYTES)):
            at = b.moved(first, b.integer(line * LINE_BYTES // type.size), type) if line else first
            prefetch(b, at, written)


def _far_away(context: Any, streams: Streams) -> Any:
    """Whether all rounds go through what the last cache does not hold beside the rest, or holds
    far away: known beforehand, or an i1."""
    b, total, unknown = context.builder, streams.bytes, []
    for loop in streams.loops:
        if isinstance(loop.extent, int):
            total *= loop.extent
        else:
            unknown.append(loop.extent)
    most = min(context.target.last * 3 // 4, SPREAD)
    if not unknown:
        return total >= most
    size = b.integer(total)
    for extent in unknown:
        size = b.mul(size, context.extent(extent))
    return b.icmp_signed(">=", size, b.integer(most))
