"""The callbacks of `fit(max_steps=...)` and `fit(validate_every=...)`."""

from __future__ import annotations

from typing import Any

from ..events.order import Band


class StopAfterSteps:
    """Stop the run at the end of step `steps`, counted over all epochs.

    >>> from flambeau.train import Loop
    >>> loop = Loop(lambda batch: None, callbacks=[StopAfterSteps(5)])
    >>> _ = loop.run(range(3), epochs=10)
    >>> loop.state.step
    5
    """

    band = Band.CONTROL

    def __init__(self, steps: int) -> None:
        if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
            raise ValueError(f"max_steps must be at least 1, got {steps!r}")
        self.steps = steps

    def on_train_batch_end(self, run: Any) -> None:
        """Stop at the last step."""
        if run.state.step >= self.steps:
            run.stop()


class ValidateEvery:
    """Evaluate the validation data every `steps` steps.

    The metrics are in `run.state.metrics` until the next evaluation replaces them.
    """

    band = Band.METRICS

    def __init__(self, steps: int) -> None:
        if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
            raise ValueError(f"validate_every must be at least 1 step, got {steps!r}")
        self.steps = steps

    def on_train_batch_end(self, run: Any) -> None:
        """Evaluate when it is due."""
        if run.state.step % self.steps == 0:
            run.validate()
