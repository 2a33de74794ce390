"""Find the batch size with the highest throughput that fits into memory."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

from ..reporting.memory import PeakMemory, read_available_bytes, import_psutil, read_resident_bytes
from ..state.data import is_loader, count_batches, as_loader
from .lr_finder import keep_untouched

_MIB = 2**20


@dataclass(frozen=True)
class Trial:
    """Measurements of a batch size: samples per second, and a step's memory beyond the net's."""

    batch_size: int
    samples_per_s: float
    step_bytes: int


class BatchSizes(list[Trial]):
    """The trials in order; `suggestion` is the smallest size within 10 % of the best throughput."""

    stopped_by = ""

    @property
    def suggestion(self) -> int | None:
        """The best batch size; None if not even the first fits."""
        fastest = max((trial.samples_per_s for trial in self), default=0.0)
        fast = [trial for trial in self if trial.samples_per_s >= 0.9 * fastest]
        return fast[0].batch_size if fast else None

    def _format_rows(self) -> list[tuple[str, str, str]]:
        return [
            (str(trial.batch_size), f"{trial.samples_per_s:,.0f}", f"{trial.step_bytes / _MIB:.1f}")
            for trial in self
        ]

    def __repr__(self) -> str:
        lines = [f"{'batch size':>10}  {'samples/s':>12}  {'MiB a step':>10}"]
        lines += [f"{size:>10}  {speed:>12}  {memory:>10}"
                  for size, speed, memory in self._format_rows()]
        return "\n".join([*lines, f"suggested: {self.suggestion} (stopped: {self.stopped_by})"])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("batch size", "samples/s", "MiB a step"))
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
            for row in self._format_rows()
        )
        caption = escape(f"suggested: {self.suggestion} (stopped: {self.stopped_by})")
        return f"<table><tr>{head}</tr>{body}</table><p>{caption}</p>"


class BatchSizeFinder:
    """Double the batch size from `low` to `high`, time a few steps of each, and restore the run.

    Stops when the next size would exceed `share` of the free memory, when two doublings in a row
    were no faster, or at the number of samples. Calls no handlers. Times eager steps: compiling
    would cost a program per size.
    Needs psutil (`pip install 'flambeau[memory]'`).

    >>> from flambeau.train import Trainer
    >>> trainer = Trainer(nn.Linear(4, 1), "sgd", "mse")
    >>> x = torch.randn(256, 4)
    >>> sizes = BatchSizeFinder(low=16).run(trainer, (x, x.sum(1, keepdim=True)))
    >>> sizes[0].batch_size, 16 <= sizes.suggestion <= 256
    (16, True)
    """

    def __init__(
        self, *, low: int = 1, high: int = 65536, steps: int = 3, share: float = 0.8
    ) -> None:
        if not 1 <= low <= high:
            raise ValueError(f"BatchSizeFinder: expected 1 <= low <= high, got "
                             f"{low}, {high}")
        import_psutil("BatchSizeFinder")
        self.low, self.high, self.steps, self.share = low, high, steps, share

    def run(self, trainer: Any, data: Any) -> BatchSizes:
        """Try sizes on a dataset, arrays, or a loader's dataset."""
        if is_loader(data):
            if getattr(data, "dataset", None) is None:
                raise ValueError("BatchSizeFinder needs a dataset, arrays or a DataLoader: it "
                                 "makes batches of its own")
            data = data.dataset
        samples = count_batches(as_loader(data, 1, who="BatchSizeFinder")) or self.high
        supervised = trainer.supervised
        compiled, supervised.compiled = supervised.compiled, False
        supervised.renew()
        try:
            with keep_untouched(trainer, as_loader(data, self.low, who="BatchSizeFinder")):
                return self._try_larger(trainer, data, min(self.high, samples))
        finally:
            supervised.compiled = compiled
            supervised.renew()

    def _try_larger(self, trainer: Any, data: Any, largest: int) -> BatchSizes:
        trials, size = BatchSizes(), self.low
        trials.stopped_by = f"{largest} samples are all there are" if largest < self.high else (
            f"high={self.high}")
        while size <= largest:
            trials.append(self._try(trainer, data, size))
            if 2 * trials[-1].step_bytes > self.share * read_available_bytes():
                trials.stopped_by = f"twice as many would take more than {self.share:.0%} of memory"
                break
            best = max(trial.samples_per_s for trial in trials)
            if len(trials) > 2 and all(t.samples_per_s < 0.95 * best for t in trials[-2:]):
                trials.stopped_by = "larger batches are slower"
                break
            size *= 2
        return trials

    def _try(self, trainer: Any, data: Any, size: int) -> Trial:
        batches = list(itertools.islice(_cycle(as_loader(data, size)), self.steps + 1))
        resident_bytes, fastest_s = read_resident_bytes(), float("inf")
        with PeakMemory(0.001) as memory:
            for batch in batches:  # the minimum discards the first step, which warms up caches
                trainer.measures.reset()
                trainer.state.batch = batch
                start_s = time.perf_counter()
                trainer._body(batch)
                fastest_s = min(fastest_s, time.perf_counter() - start_s)
        return Trial(size, size / fastest_s, max(memory.peak - resident_bytes, 0))


def _cycle(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader
