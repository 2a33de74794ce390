"""A process that makes code for a step, and falls: the step stays eager, and says where it was."""

from __future__ import annotations

import os
import signal

import pytest

import flambeau as torch
from flambeau.native.jit import kernel_function, worker_pool


@pytest.mark.skipif(os.name != "posix", reason="ends a process by a signal")
def test_a_fall_of_llvm_leaves_the_step_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAMBEAU_CACHE_SIZE", "0")
    monkeypatch.setattr(kernel_function, "_functions", {})
    monkeypatch.setattr(worker_pool, "choose_worker_count", lambda work, threads, aside: threads)
    monkeypatch.setattr(worker_pool, "WORKERS", worker_pool.WorkerPool())
    ask = worker_pool._Worker.ask

    def fall(self: worker_pool._Worker, *rest: object) -> object:
        os.kill(self.process.pid, signal.SIGABRT)
        self.process.wait()
        return ask(self, *rest)

    monkeypatch.setattr(worker_pool._Worker, "ask", fall)
    # Nothing is made here while makers begin.
    monkeypatch.setattr(worker_pool.WorkerPool, "_withdraw", lambda self, done, threads: None)

    @torch.compile(mode="now")
    def step(x):
        return (x * 3).tanh().sum()

    x = torch.linspace(-1, 2, 50)
    with pytest.warns(UserWarning, match="stays eager: compiling failed in emit: .*LLVM gave up"):
        results = [step(x) for _ in range(3)]
    assert all(torch.equal(step(x), y) for y in results)
    worker_pool.WORKERS.close()
