"""Progress of a run: a bar with rate, remaining time and running metrics, and a line per epoch."""

from __future__ import annotations

import time
from typing import Any, TextIO

from ..events.order import Band
from ..state.formatting import format_duration, list_scalars, shorten, stage_of
from .progress_bars import LogLines, choose_bar, check_kind


class Progress:
    """Show a bar while an epoch runs, then leave a line with its metrics.

    `kind` is "terminal" or "notebook", both drawn by tqdm, or "log"; None chooses. A log gets a
    line at the end of an epoch, and one a minute within long epochs. Progress costs at most 1 % of
    the steps' time: it checks the clock only every few steps, and delays drawing.

    >>> import sys
    >>> from flambeau.train import Loop, epoch
    >>> loop = Loop(lambda batch: None, callbacks=[Progress(stream=sys.stdout)])
    >>> @loop.on(epoch.end)
    ... def numbers(run):
    ...     run.log(loss=0.5, valid_loss=0.25)
    >>> _ = loop.run(range(5), epochs=2)
    epoch 1/2  ...  loss 0.5000  valid_loss 0.2500
    epoch 2/2  ...  loss 0.5000  valid_loss 0.2500
    """

    band = Band.IO
    share = 0.01  # of the time that steps take, at most

    def __init__(
        self, kind: str | None = None, *, stream: TextIO | None = None, metrics: bool = True
    ) -> None:
        check_kind(kind)
        self.kind = kind
        self.stream = stream
        self.metrics = metrics
        self._bar: LogLines | None = None
        self._run: Any = None
        self._done, self._next, self._stride = 0, 0, 1
        self._first, self._drawn, self._cost = 0, 0, 0.0
        self._began = self._epoch_began = self._looked = 0.0
        self._shown = False

    # ---- events ----

    def on_run_start(self, run: Any) -> None:
        """Create the bar."""
        self._run = run
        self._bar = choose_bar(self.kind, self.stream)

    def on_epoch_start(self, run: Any) -> None:
        """Start a bar for the epoch's training."""
        self._epoch_began = time.perf_counter()
        self._start(self._format_title(), run.state.batches, run.state.batch_number)

    def on_train_batch_end(self) -> None:
        """Count the step; check the clock only when due."""
        self._done += 1
        if self._done >= self._next:
            self._look()

    def on_valid_start(self, run: Any) -> None:
        """Start a bar for the epoch's validation."""
        self._finish()
        data = getattr(run, "_valid_data", None)
        self._start(f"{self._format_title()} valid", _measure_length(data), 0)

    def on_valid_batch_end(self) -> None:
        """Count the step; check the clock only when due."""
        self._done += 1
        if self._done >= self._next:
            self._look()

    def on_epoch_end(self, run: Any) -> None:
        """Write the epoch's line."""
        self._finish()
        duration = format_duration(time.perf_counter() - self._epoch_began)
        metrics = _format_numbers(list_scalars(run.state.metrics))
        if self._bar is not None:
            self._bar.line("  ".join(text for text in (self._format_title(), duration, metrics)
                                     if text))

    def on_run_end(self) -> None:
        """Remove the bar."""
        self._close()

    def on_run_error(self) -> None:
        """Remove the bar above the traceback."""
        self._close()

    # ---- the bar ----

    def _format_title(self) -> str:
        state = self._run.state
        epochs = str(state.epochs) if state.epochs else "?"
        return f"epoch {str(state.epoch).rjust(len(epochs))}/{epochs}"

    def _start(self, title: str, total: int | None, done: int) -> None:
        assert self._bar is not None
        self._bar.start(title, total)
        self._total = total
        self._done = self._first = self._drawn = done
        self._stride, self._next = 1, done + 1
        self._began = self._looked = time.perf_counter()
        self._shown = True

    def _look(self) -> None:
        """Draw when due, and choose the number of steps until the next check."""
        now_s = time.perf_counter()
        assert self._bar is not None
        wait_s = max(self._bar.interval, self._cost / self.share)
        if now_s - self._looked >= wait_s:
            self._draw(now_s)
            self._looked = time.perf_counter()
            self._cost = self._looked - now_s
        step_s = (now_s - self._began) / (self._done - self._first)
        wait_left_s = max(wait_s - (now_s - self._looked), 0.0)
        # Check a third of the way, in case steps get slower.
        self._stride = max(1, int(min(max(wait_left_s / 3, wait_s / 20), 0.5) / max(step_s, 1e-7)))
        self._next = self._done + self._stride

    def _draw(self, now_s: float) -> None:
        assert self._bar is not None
        elapsed_s = max(now_s - self._began, 1e-9)
        rate = (self._done - self._first) / elapsed_s
        parts = [f"{shorten(rate)} it/s" if rate >= 1 else f"{format_duration(1 / rate)}/it"]
        if self._total:
            parts.append(f"ETA {format_duration(max(self._total - self._done, 0) / rate)}")
        if self.metrics and self._run.state.training:
            parts.append(_format_numbers(read_running_numbers(self._run)))
        self._bar.update(self._done, "  ".join(text for text in parts if text))

    def _finish(self) -> None:
        if self._shown and self._bar is not None:
            self._bar.finish()
            self._shown = False

    def _close(self) -> None:
        self._finish()
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def read_running_numbers(run: Any) -> dict[str, float]:
    """Return the epoch's metrics so far, and the mean loss if the trainer accumulates it."""
    measures = getattr(run, "measures", None)
    numbers: dict[str, float] = {}
    loss = getattr(run.state, "loss", None)
    if loss is not None:
        numbers.update(list_scalars({"loss": loss}))
    if measures is not None:
        numbers.update(measures.compute_running())
    return numbers


def _format_numbers(numbers: dict[str, float]) -> str:
    # Training first, then validation, each in its order.
    ordered = sorted(numbers, key=lambda name: stage_of(name)[0] != "train")
    return "  ".join(f"{name} {shorten(numbers[name])}" for name in ordered)


def _measure_length(data: Any) -> int | None:
    try:
        return len(data)
    except TypeError:
        return None
