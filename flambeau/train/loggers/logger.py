"""Base class of loggers: open a log, write a row per epoch and per n steps, close it."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

from ..events.order import Band
from ..events.scope import epoch, step
from ..state.formatting import read_epoch_numbers, read_step_numbers
from ..state.ranks import writes_files


class Logger:
    """Log the metrics of each epoch, and with `every=n` those of every n-th step.

    Subclasses define `open`, `write_epoch`, `write_step` and `close`, which also runs after a
    failure. A resumed run continues the same log and drops the rows that it repeats (see
    `should_log`).
    """

    band = Band.IO

    def __init__(self, every: int | None = None) -> None:
        if every is not None and (type(every) is not int or every < 1):
            class_name = type(self).__name__
            raise ValueError(f"{class_name}: every must be at least 1 step, not {every!r}")
        self.every = every

    def __call__(self, run: Any) -> Generator[Any, Any, None]:
        """Log until the run ends, in the process that writes files."""
        if not writes_files():
            return
        moments = epoch.end if self.every is None else epoch.end | step.end(every=self.every)
        self.open(run)
        try:
            while True:
                event = yield moments
                if event is epoch.end:
                    self.write_epoch(run.state.epoch, run.state.step, read_epoch_numbers(run))
                else:
                    self.write_step(run.state.epoch, run.state.step, read_step_numbers(run))
        except Exception as error:
            self.failed(error)
            raise
        finally:
            self.close()

    def open(self, run: Any) -> None:
        """Start the log, or continue it at `run.state`."""

    def write_epoch(self, epoch: int, step: int, numbers: dict[str, float]) -> None:
        """Log an epoch."""

    def write_step(self, epoch: int, step: int, numbers: dict[str, float]) -> None:
        """Log a step."""

    def failed(self, error: Exception) -> None:
        """Note the exception that ends the run."""

    def close(self) -> None:
        """Close files and connections; also called after `failed`."""


def is_resuming(run: Any) -> bool:
    """Whether the starting run continues an earlier one."""
    return run.state.step > 0 or bool(run.history)


def should_log(run: Any, row: dict[str, Any]) -> bool:
    """Whether a row of the earlier run stays: whether it precedes the saved position."""
    if row.get("kind") == "step":
        return int(row["step"]) <= run.state.step
    return int(row["epoch"]) in {entry["epoch"] for entry in run.history}


def as_json_number(value: float) -> float | str:
    """Return a number as JSON; NaN and infinities as strings."""
    return value if math.isfinite(value) else str(value)
