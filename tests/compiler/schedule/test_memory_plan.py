"""Where values lie: in memory that was freed last, without overlap and with little waste."""

from __future__ import annotations

import random

from flambeau.compiler.schedule.memory_plan import _FreeList


def test_memory_freed_last_is_taken_first() -> None:
    arena = _FreeList()
    at = [arena.allocate(100) for _ in range(6)]
    arena.free_stretch(at[0], 100)
    arena.free_stretch(at[4], 100)
    arena.free_stretch(at[2], 100)
    assert [arena.allocate(96), arena.allocate(100), arena.allocate(90)] == [at[2], at[4], at[0]]
    assert arena.size == 600


def test_a_small_value_does_not_break_a_large_stretch() -> None:
    arena = _FreeList()
    at = [arena.allocate(n) for n in (100, 10, 1000, 10)]
    arena.free_stretch(at[0], 100)
    arena.free_stretch(at[2], 1000)
    assert arena.allocate(40) == at[0]


def test_neighbours_that_are_free_are_one() -> None:
    arena = _FreeList()
    at = [arena.allocate(100) for _ in range(4)]
    for k in (0, 2, 1):
        arena.free_stretch(at[k], 100)
    assert arena.allocate(300) == at[0] and arena.size == 400


def test_what_is_alive_never_overlaps() -> None:
    draw, arena = random.Random(3), _FreeList()
    alive: list[tuple[int, int]] = []
    for _ in range(600):
        if alive and draw.random() < 0.5:
            arena.free_stretch(*alive.pop(draw.randrange(len(alive))))
            continue
        size = 64 * draw.randint(1, 30)
        at = arena.allocate(size)
        assert all(at + size <= a or a + n <= at for a, n in alive)
        assert at >= 0 and at + size <= arena.size
        alive.append((at, size))
