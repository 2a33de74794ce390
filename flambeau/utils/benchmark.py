"""torch.utils.benchmark: time a statement as PyTorch's Timer does."""

from __future__ import annotations

import importlib
import statistics
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from ..tensor.absent import lacking
from ..native.runtime import thread_pool

__all__ = ["Measurement", "Timer", "timer"]

_NAMES = ("CallgrindStats", "Compare", "CopyIfCallgrind", "FunctionCounts", "Fuzzer", "TaskSpec")

__getattr__ = lacking(__name__, _NAMES)

timer: Callable[[], float] = perf_counter


@dataclass
class Measurement:
    """Timings in seconds of several blocks of `number_per_run` runs each."""

    number_per_run: int
    raw_times: list[float]
    title: str

    @property
    def times(self) -> list[float]:
        """Seconds per run, block by block."""
        return [seconds / self.number_per_run for seconds in self.raw_times]

    @property
    def median(self) -> float:
        """Median of `times`."""
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        """Mean of `times`."""
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """Interquartile range of `times`."""
        if len(self.times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    def __repr__(self) -> str:
        seconds, unit = self.median, "s"
        for smaller, name in ((1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")):
            if seconds < 1:
                seconds, unit = self.median / smaller, name
        blocks = len(self.raw_times)
        return (f"<torch.utils.benchmark.Measurement of {self.title}>\n  {seconds:.2f} {unit}\n"
                f"  {blocks} measurement{'s' * (blocks > 1)}, {self.number_per_run} runs each, "
                f"{thread_pool.threads()} threads")


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
        self._timer = timeit.Timer(stmt, setup, timer, names)
        self._title = " ".join(item for item in (label or stmt, sub_label, description) if item)
        self._threads = num_threads

    def timeit(self, number: int = 1000000) -> Measurement:
        """Time one block of `number` runs, after a warm-up."""
        return self._blocks(number, lambda: [self._run(number)])

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

        return self._blocks(number, blocks)

    def adaptive_autorange(
        self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
        callback: Any = None,
    ) -> Measurement:
        """Add blocks until the IQR is below `threshold` times the median or time is up."""
        result = self.blocked_autorange(min_run_time=min_run_time)
        while len(result.raw_times) < 4 or result.iqr > threshold * result.median:
            result.raw_times.append(self._run(result.number_per_run))
            if sum(result.raw_times) > max_run_time:
                break
        return result

    def _run(self, number: int) -> float:
        before = thread_pool.threads()
        thread_pool.set_threads(self._threads)
        try:
            return self._timer.timeit(number)
        finally:
            thread_pool.set_threads(before)

    def _blocks(self, number: int, run: Callable[[], list[float]]) -> Measurement:
        self._run(max(number // 100, 2))
        return Measurement(number, run(), self._title)
