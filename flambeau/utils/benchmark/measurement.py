"""Results of a Timer: the task and the seconds per block of runs."""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

_UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))
_MIN_CONFIDENCE_SECONDS = 25e-9  # assumed timer resolution
_MAX_DIGITS = 4
_HIGH_SPREAD, _GROSS_SPREAD = 0.1, 0.25  # IQR / median


@dataclass(frozen=True)
class TaskSpec:
    """What was timed: the statement, its setup, and its labels in tables.

    >>> torch.utils.benchmark.TaskSpec("x + 1", "pass", label="add").title
    'add'
    """

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label or else the statement, followed by the sub-label."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        if "\n" not in self.stmt:
            return self.stmt + (f": {self.sub_label}" if self.sub_label else "")
        return (f"stmt:{f' ({self.sub_label})' if self.sub_label else ''}\n"
                f"{textwrap.indent(self.stmt, '  ')}")

    def summarize(self) -> str:
        """Return the lines that describe the task in a printed measurement."""
        lines = [self.title, self.description or ""]
        if self.setup and self.setup != "pass":
            several = "\n" in self.setup
            lines.append("setup:\n" + textwrap.indent(self.setup, "  ") if several
                         else f"setup: {self.setup}")
        return "\n".join(line for line in lines if line)


_TASK_FIELDS = frozenset(field.name for field in fields(TaskSpec))


@dataclass(repr=False)
class Measurement:
    """Timings in seconds of several blocks of `number_per_run` runs each.

    >>> timer = torch.utils.benchmark.Timer("x + 1", globals={"x": torch.ones(3)})
    >>> timer.timeit(10).number_per_run
    10
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name in _TASK_FIELDS:
            return getattr(self.task_spec, name)
        raise AttributeError(f"'Measurement' object has no attribute '{name}'")

    @property
    def times(self) -> list[float]:
        """Seconds per run, for each block."""
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
        lower, upper = self._compute_quartiles()
        return upper - lower

    @property
    def significant_figures(self) -> int:
        """Number of significant digits of the median, 1 to 4.

        Estimated from the standard error of the middle half of the times.
        """
        times, n = sorted(self.times), len(self.raw_times)
        middle = times[n // 4 : math.ceil(3 * n / 4)]
        error = max(1.645 * statistics.pstdev(middle) / math.sqrt(len(middle)),
                    _MIN_CONFIDENCE_SECONDS)
        return min(max(math.floor(math.log10(self.median / error)), 1), _MAX_DIGITS)

    @property
    def has_warnings(self) -> bool:
        """Whether the interquartile range is at least 10% of the median."""
        return not self.meets_confidence()

    @property
    def title(self) -> str:
        """The task's title."""
        return self.task_spec.title

    @property
    def as_row_name(self) -> str:
        """The name of its row in a table."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def meets_confidence(self, threshold: float = _HIGH_SPREAD) -> bool:
        """Return whether the interquartile range is below `threshold` * median."""
        return self.iqr / self.median < threshold

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Merge the measurements of each task into one with all their times."""
        times: dict[TaskSpec, list[float]] = {}
        for measurement in measurements:
            times.setdefault(measurement.task_spec, []).extend(measurement.times)
        return [Measurement(1, values, task) for task, values in times.items()]

    def _compute_quartiles(self) -> tuple[float, float]:
        if len(self.raw_times) < 2:
            return self.median, self.median
        lower, _, upper = statistics.quantiles(self.times, n=4, method="inclusive")
        return lower, upper

    def __repr__(self) -> str:
        n, threads = len(self.raw_times), self.num_threads
        unit, scale = select_unit(self.median)
        lines = [object.__repr__(self), self.task_spec.summarize(),
                 f"  {'Median: ' if n > 1 else ''}{self.median / scale:.2f} {unit}"]
        if n >= 4:
            lower, upper = self._compute_quartiles()
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({lower / scale:.2f} to "
                         f"{upper / scale:.2f})")
        lines.append(f"  {n} measurement{'s' if n > 1 else ''}, {self.number_per_run} runs "
                     f"{'per measurement,' if n > 1 else ','} {threads} "
                     f"thread{'s' if threads > 1 else ''}")
        return "\n".join(lines + self._describe_spread())

    def _describe_spread(self) -> list[str]:
        if self.meets_confidence():
            return []
        cause = "could indicate system fluctuation" if self.meets_confidence(_GROSS_SPREAD) \
            else "suggests significant environmental influence"
        return [f"  WARNING: Interquartile range is {self.iqr / self.median * 100:.1f}% of the "
                "median measurement.", f"           This {cause}."]


def select_unit(seconds: float) -> tuple[str, float]:
    """Return the largest unit not above `seconds`, as (name, seconds per unit); else "ns"."""
    for unit, scale in _UNITS:
        if seconds >= scale:
            return unit, scale
    return _UNITS[-1]
