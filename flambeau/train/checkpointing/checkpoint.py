"""Checkpoints of a run, the last and the best, written atomically in the background."""

from __future__ import annotations

import os
import time
from typing import Any

from ..events.handlers import Handle
from ..events.order import Band
from ..events.scope import step
from ..reporting.learning_curves import PlotCurves
from ..reporting.provenance import describe_rounding
from ..state.monitored_metric import Monitor
from ..state.ranks import writes_files
from ..state.snapshot import copy_state
from .background_writer import Writer
from .storage import Location, is_remote, as_location


class Checkpoint:
    """Keeps `last.pt` in `folder`, and with `monitor` the best checkpoint, or the `best=k` best.

    Written at the end of every `epochs`-th epoch, every `steps` steps, every `minutes`, and when
    the run ends. Each holds `trainer.state_dict()`, with the weights under "net". The state is
    copied, then a thread writes it to a temporary file that replaces the old one, so a killed
    process or a full disk leaves the previous file. With best=3 the files are `best.pt` (the best
    of all) and `best-epoch-0007.pt`, .... With `plot`, the learning curves are saved beside them.
    `folder` may be an fsspec URL, `s3://bucket/run` (`pip install 'flambeau[remote]'`).

    >>> from flambeau.train import Trainer
    >>> trainer = Trainer(nn.Linear(2, 1), "sgd", "mse", compile=False)
    >>> x = torch.randn(8, 2)
    >>> checkpoint = Checkpoint("runs/a", monitor="valid_loss")
    >>> _ = trainer.fit((x, x[:, :1]), (x, x[:, :1]), epochs=2, callbacks=[checkpoint])
    >>> sorted(path.name for path in checkpoint.folder.glob("*.pt"))
    ['best.pt', 'last.pt']
    >>> sorted(torch.load("runs/a/best.pt")["net"])
    ['bias', 'weight']
    """

    band = Band.CHECKPOINT

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        monitor: str | None = None,
        mode: str | None = None,
        best: int = 1,
        epochs: int | None = 1,
        steps: int | None = None,
        minutes: float | None = None,
        background: bool = True,
        plot: bool = False,
        name: str = "Checkpoint",
    ) -> None:
        for key, value in (("best", best), ("epochs", epochs), ("steps", steps)):
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ValueError(f"Checkpoint: {key} must be at least 1, not {value!r}")
        if best > 1 and monitor is None:
            raise ValueError(f"Checkpoint: best={best} of what? monitor='valid_loss', for instance")
        if minutes is not None and minutes <= 0:
            raise ValueError(f"Checkpoint: minutes must be positive, not {minutes}")
        self.folder, self.name, self.monitor, self.count = as_location(folder), name, monitor, best
        self.epochs, self.steps, self.minutes = epochs, steps, minutes
        if plot and is_remote(self.folder):
            raise ValueError("Checkpoint: plot=True needs a local folder: PlotCurves")
        self.curves = PlotCurves(self.folder) if plot else None
        self._monitor = None if monitor is None else Monitor(monitor, mode)
        self._writer = Writer(background)
        self._handles: list[Handle] = []
        self._next, self._saved = 0.0, -1
        self.entries: list[dict[str, Any]] = []  # epoch and value of each, best first
        self._before: list[dict[str, Any]] = []  # the entries before the write in progress
        self._ranking: list[dict[str, Any]] | None = None  # the entries after the next write

    @property
    def last(self) -> Location:
        """The path of the last checkpoint."""
        return self.folder / "last.pt"

    @property
    def best(self) -> Location:
        """The path of the best checkpoint."""
        return self.folder / "best.pt"

    # ---- when ----

    def on_run_start(self, run: Any) -> None:
        """Forget the best entries if the run starts from the beginning. Raises NotADirectoryError
        if `folder` cannot be a folder, which unlike a full disk is permanent."""
        if self.folder.exists() and not self.folder.is_dir():
            raise NotADirectoryError(
                f"{self.name}: '{self.folder}' is a file, but checkpoints need a folder"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        if not run.state.resumed:
            self.entries = []
        self._saved = run.state.step if run.state.resumed else -1
        if self.steps is not None:
            self._handles.append(run.attach(step.end(every=self.steps), self._save_now, self.band))
        if self.minutes is not None:
            self._next = time.monotonic() + 60 * self.minutes
            self._handles.append(run.attach(step.end, self._save_when_due, self.band))

    def _save_now(self, run: Any) -> None:
        if self._saved != run.state.step:
            self.save(run)

    def _save_when_due(self, run: Any) -> None:
        if time.monotonic() >= self._next:
            self._save_now(run)

    def on_epoch_end(self, run: Any) -> None:
        """Save this epoch if it is due or among the best."""
        if run.state.diverged:
            return
        names = self._rank(run) if self._monitor is not None else []
        due = self.epochs is not None and run.state.epoch % self.epochs == 0
        if names or due:
            self.save(run, names)
        else:
            self._writer.report_failure()
        if self.curves is not None:
            self.curves.on_epoch_end(run)

    def on_run_end(self, run: Any) -> None:
        """Save the end of the run, and wait for the write."""
        try:
            if self._saved != run.state.step and run.state.step and not run.state.diverged:
                self.save(run)
            if self.curves is not None:
                self.curves.on_run_end(run)
        finally:
            self._finish()

    def on_run_error(self, run: Any) -> None:
        """Wait for the write in progress. The state of a failed step is not saved."""
        try:
            if self.curves is not None:
                self.curves.on_run_error(run)
        finally:
            self._finish()

    def _finish(self) -> None:
        while self._handles:
            self._handles.pop().detach()
        self._writer.wait()

    # ---- what ----

    def save(self, run: Any, names: tuple[str, ...] | list[str] = ()) -> None:
        """Write the current state of the run to `last.pt` and to further names."""
        self._settle()
        state = run.state
        self._saved = state.step
        # Write `last.pt` last: a process killed before it rewrites the best ones.
        paths = [*(self.folder / name for name in names), self.last]
        label = f"epoch {state.epoch}, step {state.step}"
        self._before, ranking, self._ranking = self.entries, self._ranking, None
        if ranking is not None:
            self.entries = ranking
        obsolete = [self.folder / _name_file(entry["epoch"]) for entry in self._before
                    if self.count > 1 and entry not in self.entries]
        saved = {**copy_state(run.state_dict()), "rounding": describe_rounding()}
        if writes_files():
            self._writer.write(saved, paths, label, obsolete)
        self._next = time.monotonic() + 60 * (self.minutes or 0)

    def _settle(self) -> None:
        """Wait for the write in progress; forget entries that could not be written."""
        self._writer.wait()
        if not self._writer.wrote:
            self.entries, self._writer.wrote = self._before, True

    def _rank(self, run: Any) -> list[str]:
        """Return the names for this epoch if it is among the best."""
        monitor = self._monitor
        assert monitor is not None
        self._settle()
        value = monitor.value(run)
        if value is None or value != value:
            return []
        epoch, sign = run.state.epoch, -1 if monitor.higher(run) else 1
        retained = [entry for entry in self.entries if entry["epoch"] != epoch]
        retained.append({"epoch": epoch, "value": value})
        retained.sort(key=lambda entry: (sign * entry["value"], entry["epoch"]))
        retained = retained[: self.count]
        if all(entry["epoch"] != epoch for entry in retained):
            return []
        self._ranking = retained
        names = [_name_file(epoch)] if self.count > 1 else []
        return [*names, "best.pt"] if retained[0]["epoch"] == epoch else names

    def state_dict(self) -> dict[str, Any]:
        """Return the best epochs so far."""
        return {"kept": [dict(entry) for entry in self.entries]}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restore a state returned by `state_dict`."""
        self.entries = [dict(entry) for entry in saved["kept"]]


def _name_file(epoch: int) -> str:
    return f"best-epoch-{epoch:04}.pt"
