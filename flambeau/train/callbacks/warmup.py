"""Learning-rate warmup under any schedule."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ...optim.lr_scheduler.scheduler import set_value
from ..events.order import Band
from ..events.scope import epoch, step


class Warmup:
    """Scale the learning rates of the first `steps` steps, from `start` up to 1.

    `epochs` counts in epochs instead. The rise is linear, or geometric with shape="exponential"
    (`start` must then be above 0). Schedules do not see the factor: a step's end divides it out
    before schedules run, and multiplies it in again for the next step.

    >>> from flambeau.train import Trainer, step
    >>> net = nn.Linear(2, 1)
    >>> trainer = Trainer(net, torch.optim.SGD(net.parameters(), lr=1.0), "mse", compile=False)
    >>> @trainer.on(step.start)
    ... def show(run):
    ...     print(run.optimizer.param_groups[0]["lr"])
    >>> x = torch.zeros(4, 2)
    >>> _ = trainer.fit((x, x[:, :1]), batch_size=1, callbacks=[Warmup(2, start=0.5)])
    0.5
    0.75
    1.0
    1.0
    """

    band = Band.CONTROL

    def __init__(
        self,
        steps: int | None = None,
        *,
        epochs: float | None = None,
        start: float = 0.01,
        shape: str = "linear",
        name: str = "Warmup",
    ) -> None:
        if (steps is None) == (epochs is None):
            raise ValueError("Warmup takes steps or epochs")
        if shape not in ("linear", "exponential"):
            raise ValueError(f"Warmup: shape must be 'linear' or 'exponential', not {shape!r}")
        if not 0 <= start <= 1 or (shape == "exponential" and start == 0):
            raise ValueError(f"Warmup: start must be a fraction of the rate between 0 and 1, not "
                             f"{start}")
        self.steps, self.epochs, self.start = steps, epochs, start
        self.shape, self.name = shape, name
        self._rates: list[Any] | None = None  # without the factor, during warmup

    def __call__(self, run: Any) -> Generator[Any, Any, None]:
        """Scale the rates until the run ends."""
        n_steps = self._count_steps(run)
        handles = [
            run.attach(step.end | epoch.end, lambda run: self._restore(run), Band.METRICS),
            run.attach(step.end | epoch.end, lambda run: self._scale(run, n_steps), Band.IO),
        ]
        if not run.state.resumed:
            self._rates = None
        self._scale(run, n_steps)  # a resumed run may have saved scaled rates
        try:
            yield
        finally:
            for handle in handles:
                handle.detach()

    def _count_steps(self, run: Any) -> int:
        if self.steps is not None:
            return self.steps
        if run.state.batches is None:
            raise ValueError("Warmup(epochs=...): nobody knows how many steps an epoch has; give "
                             "steps")
        return round(float(self.epochs or 0) * run.state.batches)

    def factor(self, done: int, length: int) -> float:
        """Return the factor on the rates after `done` steps."""
        if done >= length:
            return 1.0
        progress = done / length
        if self.shape == "exponential":
            return float(self.start ** (1 - progress))
        return self.start + (1 - self.start) * progress

    def _scale(self, run: Any, n_steps: int) -> None:
        factor = self.factor(run.state.step, n_steps)
        if factor == 1 or self._rates is not None:
            return
        groups = _collect_groups(run)
        self._rates = [float(group["lr"]) for group in groups]
        for group, rate in zip(groups, self._rates, strict=True):
            set_value(group, "lr", rate * factor)

    def _restore(self, run: Any) -> None:
        if self._rates is not None:
            for group, rate in zip(_collect_groups(run), self._rates, strict=True):
                set_value(group, "lr", rate)
            self._rates = None

    def state_dict(self) -> dict[str, Any]:
        """Return the rates without the factor; None after warmup."""
        return {"rates": self._rates}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restore the rates returned by `state_dict`."""
        self._rates = saved["rates"]


def _collect_groups(run: Any) -> list[dict[str, Any]]:
    return [group for optimizer in run.optimizers.values() for group in optimizer.param_groups]
