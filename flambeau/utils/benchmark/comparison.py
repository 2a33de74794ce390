"""Tables that compare measurements, with a row per task and a column per description."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable
from typing import Any

from .measurement import Measurement, select_unit

_NAMES = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}
_BOLD, _END = "\033[1m", "\033[0m"
_BEST, _GOOD, _BAD, _VERY_BAD = "\033[92m", "\033[34m", "\033[2m\033[91m", "\033[31m"


class Colorize(enum.Enum):
    """Whether a table colors times, ranked by column or by row."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """Text tables of measurements, one per label.

    results: the measurements. Raises ValueError for objects of other classes.

    >>> timer = torch.utils.benchmark.Timer("1 + 1", label="sum", description="python")
    >>> table = torch.utils.benchmark.Compare([timer.timeit(100)])
    >>> "python" in str(table)
    True
    """

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._colors = Colorize.NONE
        self._trims = self._warns = False

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements. Raise ValueError for objects of other classes."""
        results = list(results)
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError("Expected an instance of `Measurement`, "
                                 f"got {type(result)} instead.")
        self._results += results

    def trim_significant_figures(self) -> None:
        """Show only digits that are significant given the measurements' spread."""
        self._trims = True

    def colorize(self, rowwise: bool = False) -> None:
        """Color the best and worst times of each column, or of each row."""
        self._colors = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Show the spread of measurements whose IQR exceeds 10% of the median."""
        self._warns = True

    def print(self) -> None:
        """Write the tables to standard output."""
        print(str(self))

    def __str__(self) -> str:
        groups: dict[Any, list[Measurement]] = {}
        for result in Measurement.merge(self._results):
            groups.setdefault(result.label, []).append(result)
        return "\n".join(
            _Table(group, self._colors, self._trims, self._warns).render()
            for group in groups.values()
        )


class _Table:
    """The table of one label."""

    def __init__(
        self, results: list[Measurement], colors: Colorize, trims: bool, warns: bool
    ) -> None:
        self.results, self.colors, self.trims = results, colors, trims
        self.warns = warns and any(result.has_warnings for result in results)
        self.unit, self.scale = select_unit(min(result.median for result in results))
        self.rows = list(dict.fromkeys(_find_row(result) for result in results))
        self.rows.sort(key=lambda row: (row[0], row[1] or ""))
        self.columns = list(dict.fromkeys(result.description for result in results))
        self.cells = {(_find_row(result), result.description): result for result in results}
        self.has_environments = len({result.env for result in results}) > 1

    def render(self) -> str:
        """Return the table as text."""
        columns = [self._name_rows()] + [self._write_column(column) for column in self.columns]
        headings = ["", *[column or "" for column in self.columns]]
        widths = [max(len(head), *map(len, column))
                  for head, column in zip(headings, columns, strict=True)]
        lines = ["  |  ".join(head.center(w) for head, w in zip(headings, widths, strict=True))]
        width, threads = len(lines[0]), None
        for k, row in enumerate(self.rows):
            if row[0] != threads:
                threads = row[0]
                lines.append(f"{threads} threads: ".ljust(width, "-"))
            cells = [self._paint(rendered[k].center(w), row, column) for rendered, w, column in
                     zip(columns[1:], widths[1:], self.columns, strict=True)]
            lines.append("  |  ".join([columns[0][k].ljust(widths[0]), *cells]))
        title = f" {self.results[0].label or ''} ".center(width - 2, "-")
        footnote = "(! XX%) Measurement has high variance, where XX is the IQR / median * 100.\n"
        return "\n".join([f"[{title}]", *lines, "",
                          f"Times are in {_NAMES[self.unit]}s ({self.unit}).",
                          footnote if self.warns else ""])

    def _name_rows(self) -> list[str]:
        names, last = [], None
        room = max(len(row[1] or "") for row in self.rows) + 4 if self.has_environments else 4
        for threads, environment, name in self.rows:
            shown = self.has_environments and (threads, environment) != last
            last = threads, environment
            names.append("  " + (f"({environment})" if shown else "").ljust(room) + name)
        return names

    def _write_column(self, column: str | None) -> list[str]:
        cells = [self.cells.get((row, column)) for row in self.rows]
        measurements = [cell for cell in cells if cell is not None]
        digits = [math.ceil(math.log10(cell.median / self.scale)) for cell in measurements]
        decimals = 1
        if self.trims:
            decimals = min(max(cell.significant_figures - n, 0)
                           for cell, n in zip(measurements, digits, strict=True))
        length = max(digits) + decimals + (1 if decimals else 0)
        return [self._write(cell, length, decimals) for cell in cells]

    def _write(self, cell: Measurement | None, length: int, decimals: int) -> str:
        width = 7 if self.warns else 0
        if cell is None:
            return " " * (max(length, 1) + width)
        value = cell.median / self.scale
        if self.trims:
            value = _round(value, cell.significant_figures)
        spread = f" (! {cell.iqr / cell.median * 100:.0f}%)" \
            if self.warns and cell.has_warnings else ""
        return f"{value:>{max(length, 0)}.{decimals}f}{spread:>{width}}"

    def _paint(self, text: str, row: Any, column: str | None) -> str:
        cell = self.cells.get((row, column))
        if self.colors is Colorize.NONE or cell is None:
            return text
        rivals = [other.median for (other_row, name), other in self.cells.items()
                  if (other_row == row if self.colors is Colorize.ROWWISE
                      else name == column and other_row[0] == row[0])]
        best, value = min(rivals), cell.median
        if value <= best * 1.01 or value <= best + 100e-9:
            return f"{_BEST}{_BOLD}{text}{_END}{_END}"
        if value <= best * 1.1:
            return f"{_GOOD}{_BOLD}{text}{_END}{_END}"
        if value >= best * 5:
            return f"{_VERY_BAD}{_BOLD}{text}{_END}{_END}"
        return f"{_BAD}{text}{_END}" if value >= best * 2 else text


def _find_row(result: Measurement) -> tuple[int, str | None, str]:
    return result.num_threads, result.env, result.as_row_name


def _round(value: float, digits: int) -> float:
    decimals = digits - math.ceil(math.log10(value))
    return round(value, decimals)
