"""torch.utils.benchmark: time a statement as PyTorch's Timer does."""

from __future__ import annotations

import importlib
import textwrap
import timeit
from collections.abc import Callable
from time import perf_counter
from typing import Any

from ...native.runtime import thread_pool
from ...tensor.absent import make_absent_getattr
from .comparison import Colorize, Compare
from .measurement import Measurement, TaskSpec, select_unit

__all__ = [
    "Colorize", "Compare", "Measurement", "TaskSpec", "Timer", "select_unit", "timer",
]

_NAMES = ("CallgrindStats", "CopyIfCallgrind", "FunctionCounts", "Fuzzer")

__getattr__ = make_absent_getattr(__name__, _NAMES)

timer: Callable[[], float] = perf_counter


class Timer:
    """Times a statement after `setup`, on `num_threads` threads.

    >>> timer = torch.utils.benchmark.Timer("x + 1", globals={"x": torch.ones(3)})
    >>> 0 < timer.timeit(100).median < 1
    True
    """

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "",
        timer: Callable[[], float] = perf_counter, globals: dict[str, Any] | None = None,
        label: str | None = None, sub_label: str | None = None, description: str | None = None,
        env: str | None = None, num_threads: int = 1, language: Any = None,
    ) -> None:
        if language not in (None, "python", "py"):
            raise NotImplementedError("torch.utils.benchmark.Timer times Python statements only")
        names = dict(globals or {})
        names.setdefault("torch", importlib.import_module("flambeau"))
        self._timer = timeit.Timer(textwrap.dedent(stmt).strip(), textwrap.dedent(setup).strip(),
                                   timer, names)
        self._task = TaskSpec(textwrap.dedent(stmt).strip(), setup, global_setup, label,
                              sub_label, description, env, num_threads)
        self._threads = num_threads

    def timeit(self, number: int = 1000000) -> Measurement:
        """Time one block of `number` runs after a warm-up."""
        return self._time_blocks(number, lambda: [self._run(number)])

    def blocked_autorange(
        self, callback: Any = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Time blocks of at least 1 ms until `min_run_time` seconds have passed."""
        number = 1
        while self._run(number) < 1e-3 and number < 1 << 30:
            number *= 2

        def blocks() -> list[float]:
            result: list[float] = []
            while not result or sum(result) < min_run_time:
                result.append(self._run(number))
            return result

        return self._time_blocks(number, blocks)

    def adaptive_autorange(
        self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
        callback: Any = None,
    ) -> Measurement:
        """Add blocks until the IQR is at most `threshold` * median or `max_run_time` is over."""
        result = self.blocked_autorange(min_run_time=min_run_time)
        while len(result.raw_times) < 4 or result.iqr > threshold * result.median:
            result.raw_times.append(self._run(result.number_per_run))
            if sum(result.raw_times) > max_run_time:
                break
        return result

    def _run(self, number: int) -> float:
        previous_threads = thread_pool.threads()
        thread_pool.set_threads(self._threads)
        try:
            return self._timer.timeit(number)
        finally:
            thread_pool.set_threads(previous_threads)

    def _time_blocks(self, number: int, run: Callable[[], list[float]]) -> Measurement:
        self._run(max(number // 100, 2))
        return Measurement(number, run(), self._task)
