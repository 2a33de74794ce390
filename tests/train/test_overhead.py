"""What the loop costs beside a bare `for`. benchmarks/train.py measures it properly."""

from __future__ import annotations

import time

import pytest

from flambeau.train import Loop, step

STEPS = 5_000


def fastest(work):
    times = []
    for _ in range(7):
        begin = time.thread_time()
        work()
        times.append(time.thread_time() - begin)
    return min(times) / STEPS


@pytest.mark.parametrize(("handlers", "limit"), [(0, 3e-6), (5, 6e-6)])
def test_step(handlers, limit):
    loop, data = Loop(lambda run, batch: None), [0] * STEPS
    for _ in range(handlers):
        loop.attach(step.end, lambda run: None)
    assert fastest(lambda: loop.run(data)) < limit
