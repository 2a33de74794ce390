"""TimeLimit: stop a run after a given time, such as a cluster job's limit."""

from __future__ import annotations

import datetime
import re
import sys
import time
from typing import Any

from ..events.order import Band
from ..state.formatting import format_duration

_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_PART = re.compile(
    r"(\d+\.?\d*)(d(?:ays?)?|h(?:ours?)?|m(?:in(?:utes?)?)?|s(?:ec(?:onds?)?)?)(?![a-z])"
)


def parse_seconds(limit: float | str | datetime.timedelta) -> float:
    """Return a time in seconds. `limit` is a number, a timedelta, or "1h30m", "90 s", "2:30:00".

    >>> [parse_seconds(limit) for limit in (5, "1h30m", "2:30:00", "1.5h")]
    [5.0, 5400.0, 9000.0, 5400.0]
    """
    if isinstance(limit, datetime.timedelta):
        return limit.total_seconds()
    if isinstance(limit, str):
        text = limit.replace(" ", "").lower()
        if re.fullmatch(r"\d+(:\d+){1,2}", text):
            fields = [int(field) for field in text.split(":")]
            return float(sum(field * 60**i for i, field in enumerate(reversed(fields))))
        amounts = _PART.findall(text)
        if not amounts or _PART.sub("", text):
            raise ValueError(f"a time limit must be a number of seconds, '1h30m' or '1:30:00', "
                             f"not {limit!r}")
        return float(sum(float(number) * _UNITS[unit[0]] for number, unit in amounts))
    return float(limit)


class TimeLimit:
    """Stop the run at the end of the first step after `limit`; `end` events fire as usual.

    The time counts from the start of the run in this process: a resumed run gets the full limit.

    >>> from flambeau.train import Loop
    >>> batches = iter(range(10 ** 9))
    >>> history = Loop(lambda batch: None, callbacks=[TimeLimit(0.01)]).run(batches)
    >>> next(batches) < 10 ** 9 - 1  # the run left some
    True
    """

    band = Band.CONTROL

    def __init__(self, limit: float | str | datetime.timedelta) -> None:
        self.seconds = parse_seconds(limit)
        if self.seconds <= 0:
            raise ValueError(f"a time limit must be positive, not {limit!r}")
        self._deadline = 0.0

    def on_run_start(self) -> None:
        """Start the clock."""
        self._deadline = time.monotonic() + self.seconds

    def on_step_end(self, run: Any) -> None:
        """Stop once the limit has passed."""
        if time.monotonic() >= self._deadline:
            self._stop(run)

    on_valid_batch_end = on_step_end

    def _stop(self, run: Any) -> None:
        if not run.stopping:
            state = run.state
            print(f"time limit of {format_duration(self.seconds)} reached: the run stops in epoch "
                  f"{state.epoch} after step {state.step}", file=sys.stderr)
            run.stop()
