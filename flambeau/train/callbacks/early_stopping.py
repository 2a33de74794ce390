"""Stop when a metric stops improving, and restore the best weights."""

from __future__ import annotations

import sys
from typing import Any

from ..events.order import Band
from ..state.formatting import shorten
from ..state.monitored_metric import Monitor
from ..state.snapshot import copy_state


class EarlyStopping:
    """Stops when `monitor` has not improved by more than `min_delta` for `patience` epochs.

    `mode` ("min", "max") or the metric itself says which direction is better. With
    `restore_best` the net ends the run with its best epoch's weights, even if all epochs were
    used; checkpoints hold the last weights. Its state is saved with the run: a resumed run stops
    where an uninterrupted one would, and a stopped run does not continue.

    >>> from flambeau.train import Loop, epoch
    >>> losses = iter([3.0, 2.0, 2.5, 2.25, 1.0])
    >>> loop = Loop(lambda batch: None, callbacks=[EarlyStopping("valid_loss", 2)])
    >>> @loop.on(epoch.end)
    ... def validate(run):
    ...     run.log(valid_loss=next(losses))
    >>> len(loop.run([1], epochs=5))
    4
    """

    band = Band.CONTROL

    def __init__(
        self,
        monitor: str = "valid_loss",
        patience: int = 5,
        *,
        mode: str | None = None,
        min_delta: float = 0.0,
        restore_best: bool = True,
        name: str = "EarlyStopping",
    ) -> None:
        if patience < 1:
            raise ValueError(f"EarlyStopping: patience must be at least 1 epoch, not {patience}")
        self.monitor, self.patience, self.name = monitor, patience, name
        self.restore_best = restore_best
        self._monitor = Monitor(monitor, mode, min_delta)
        self._begin()

    def _begin(self) -> None:
        self.best: float | None = None
        self.best_epoch = self.waited = 0
        self.stopped = False
        self.weights: dict[str, Any] | None = None

    def on_run_start(self, run: Any) -> None:
        """Forget an earlier run; end a resumed run at once if it had been stopped."""
        if not run.state.resumed:
            self._begin()
        elif self.stopped:
            run.stop()

    def on_epoch_end(self, run: Any) -> None:
        """Compare with the best value; stop when `patience` runs out."""
        value = self._monitor.value(run)
        if value is None:
            return
        if self._monitor.better(run, value, self.best):
            self.best, self.best_epoch, self.waited = value, run.state.epoch, 0
            if self.restore_best:
                self.weights = {name: copy_state(net.state_dict()) for name,
                                net in _collect_nets(run)}
            return
        self.waited += 1
        if self.waited >= self.patience:
            self.stopped = True
            reference = "a number" if self.best is None else f"{shorten(self.best)} of epoch "
            reference += "" if self.best is None else str(self.best_epoch)
            print(f"early stopping in epoch {run.state.epoch}: {self.monitor} was not better than "
                  f"{reference} for {self.waited} epochs", file=sys.stderr)
            run.stop()

    def on_run_end(self, run: Any) -> None:
        """Restore the best weights if training ended without interruption."""
        is_complete = self.stopped or (run.state.epoch >= run.state.epochs and run.ending is None)
        weights = self.weights if is_complete and self.weights is not None else {}
        for name, net in _collect_nets(run):
            if name in weights:
                net.load_state_dict(weights[name])

    on_run_end.band = Band.OUTER  # type: ignore[attr-defined]  # behind the last checkpoint

    def state_dict(self) -> dict[str, Any]:
        """The state to save, including the best weights."""
        return {
            "best": self.best, "best_epoch": self.best_epoch, "waited": self.waited,
            "stopped": self.stopped, "weights": self.weights,
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restore a state returned by `state_dict`."""
        vars(self).update(copy_state(saved))


def _collect_nets(run: Any) -> list[tuple[str, Any]]:
    """Return the net, and the averaged net used in evaluations if there is one."""
    nets = [(name, getattr(run, name, None)) for name in ("net", "averaged")]
    return [(name, net) for name, net in nets if net is not None]
