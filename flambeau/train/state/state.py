"""The state of a run: its position, and the last step's results. Handlers may add to it."""

from __future__ import annotations

from typing import Any

from ..events.suggestions import suggest


class State:
    """`epoch` and `step` count from 1 (0: not begun); a step is a batch.

    `batch_number` counts the batches of the epoch, `batches` is their total (None: unknown).
    `batch`, `y_pred`, `y`, `loss` and `output` are of the last step; `metrics` are the numbers of
    this epoch so far. `training` is false in valid, test and predict. `resumed` is true while the
    start events of an epoch resumed in its middle fire again. `diverged` is true once a NaN ends
    the run. `error` is the exception of `error` events.

    >>> from flambeau.train import Loop, epoch
    >>> loop = Loop(lambda batch: 1.0)
    >>> @loop.on(epoch.end)
    ... def show(run):
    ...     print(run.state.epoch, run.state.step, run.state.batches)
    >>> _ = loop.run([1, 2, 3], epochs=2)
    1 3 3
    2 6 3
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.epochs = 0
        self.step = 0
        self.batch_number = 0
        self.batches: int | None = None
        self.data: Any = None
        self.batch: Any = None
        self.size = 0
        self.output: Any = None
        self.loss: Any = None
        self.y_pred: Any = None
        self.y: Any = None
        self.metrics: dict[str, Any] = {}
        self.training = True
        self.resumed = False
        self.diverged = False
        self.error: BaseException | None = None

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the state has no '{name}'{suggest(name, vars(self))}")

    @property
    def iteration(self) -> int:
        """ignite's name for `step`."""
        return self.step

    @property
    def max_epochs(self) -> int:
        """ignite's name for `epochs`."""
        return self.epochs

    @property
    def epoch_length(self) -> int | None:
        """ignite's name for `batches`."""
        return self.batches

    def __repr__(self) -> str:
        return f"State(epoch={self.epoch}/{self.epochs}, step={self.step}, {self.metrics})"
