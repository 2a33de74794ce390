"""`flambeau --profile[=PAGE] PROGRAM`: show where a program spends its time.

Runs the program under `torch.profiler`, prints the slowest operators to standard error, and writes
a flame graph as a self-contained page. Each operator call takes about a kilobyte: of a long
training, profile a few steps.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self

_ROWS = 20
_PAGE = "profile.html"


class Profiled:
    """The context around the program."""

    def __init__(self, page: str) -> None:
        self.page = page

    def __enter__(self) -> Self:
        from ..profiler import profile

        self._began = time.perf_counter()
        self._profile: Any = profile(with_modules=True)
        self._profile.start()
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        from ..profiler import write_flame_graph

        self._profile.stop()
        seconds = time.perf_counter() - self._began
        averages = self._profile.key_averages()
        print(averages.table(sort_by="self_cpu_time_total", row_limit=_ROWS), file=sys.stderr)
        write_flame_graph(self._profile, self.page)
        print(f"{seconds:.2f} s; flame graph: {self.page}", file=sys.stderr)


def parse(option: str) -> Profiled:
    """`--profile` or `--profile=PAGE`. ValueError for anything else."""
    name, equals, page = option.partition("=")
    if name != "--profile" or (equals and not page):
        raise ValueError("--profile, or --profile=PAGE with the file for the flame graph")
    return Profiled(page or _PAGE)
