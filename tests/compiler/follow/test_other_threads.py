"""Threads beside a followed call: what they take of it has values, and what they write counts."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import flambeau as torch


def both(step: Any, calls: int = 8) -> None:
    """Compares a followed step with the eager one."""
    followed = torch.compile(step, options={"mode": "now", "follow": True}, backend="evaluate")
    for i in range(calls):
        x = torch.full((3,), float(i))
        actual = [t.tolist() for t in followed(x.clone())]
        assert actual == [t.tolist() for t in step(x)]
    assert "is followed" in followed.explain()


def test_a_thread_that_reads_a_result_sees_its_values() -> None:
    seen: list[float] = []

    def step(x):
        y = x * 2
        thread = threading.Thread(target=lambda: seen.append(float((y + 1).sum())))
        thread.start()
        thread.join()
        return y, y + 1

    both(step)
    assert seen[::2] == seen[1::2] == [6.0 * i + 3 for i in range(8)]


def test_a_thread_that_writes_comes_after_what_was_listed_before_and_before_the_rest() -> None:
    with ThreadPoolExecutor(1) as pool:
        def step(x):
            a = x * 1
            b = a + 1
            pool.submit(lambda: (a.add_(5), None)[1]).result()
            return a, b, a * 2

        both(step)


def test_a_thread_with_tensors_of_its_own_ends_nothing() -> None:
    apart: list[float] = []
    with ThreadPoolExecutor(1) as pool:
        def step(x):
            y = x * 2
            apart.append(pool.submit(lambda: torch.ones(3).sum().item()).result())
            return y, y + 1

        followed = torch.compile(step, options={"mode": "now", "follow": True}, backend="evaluate")
        for _ in range(8):
            followed(torch.ones(3))
    assert apart == [3.0] * 8
    assert "1 program, run" in followed.explain()
