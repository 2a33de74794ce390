"""Learning rate range test: the rate rises step by step; the loss shows which rates are good."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from typing import Any

from ...optim.lr_scheduler.scheduler import set_value
from ..events.handlers import Handlers
from ..reporting.learning_curves import Picture
from ..reporting.plot_panel import Panel
from ..state.data import is_loader, as_loader
from ..state.epoch_numbers import Measures
from ..state.formatting import shorten
from ..state.random_state import read_random_state, set_random_state
from ..state.snapshot import copy_state
from ..state.state import State


@dataclass(repr=False)
class LearningRateSweep:
    """Rates, the losses of their steps, and smoothed losses.

    `suggestion` is the rate at which the smoothed loss falls fastest; None if it never falls.
    """

    rates: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    smoothed: list[float] = field(default_factory=list)

    @property
    def suggestion(self) -> float | None:
        """The rate at which the loss falls fastest, searched up to its minimum."""
        count = len(self.rates)
        reach = max(1, count // 25)  # slopes over a few steps; single steps are noise
        # The first smoothed losses average only a few batches.
        first = max(reach, count // 10)
        lowest = min(range(count), key=self.smoothed.__getitem__, default=0)
        slopes = {
            i: (self.smoothed[i + reach] - self.smoothed[i - reach])
            / math.log(self.rates[i + reach] / self.rates[i - reach])
            for i in range(first, min(lowest + 1, count - reach))
        }
        steepest = min(slopes, key=slopes.__getitem__, default=None)
        return None if steepest is None or slopes[steepest] >= 0 else self.rates[steepest]

    def plot(self, path: Any = None) -> Picture:
        """Return the plot, which notebooks display; save it as .html, .svg or .png if given a
        path."""
        lines = {
            "batch": list(zip(self.rates, self.losses, strict=True)),
            "smoothed": list(zip(self.rates, self.smoothed, strict=True)),
        }
        panel = Panel("loss", lines, x_label="learning rate", log_x=True, whole_x=False,
                      mark="steepest")
        if self.suggestion is not None:
            index = self.rates.index(self.suggestion)
            panel.best["smoothed"] = (self.rates[index], self.smoothed[index])
        picture = Picture([panel], title="Learning rates")
        if path is not None:
            picture.save(path)
        return picture

    def __repr__(self) -> str:
        rates = f"{len(self.rates)} rates"
        if self.rates:
            rates += f" from {shorten(self.rates[0])} to {shorten(self.rates[-1])}"
        best = self.suggestion
        if best is None:
            return f"{rates}; none suggested: the loss does not fall"
        return f"{rates}; suggested: {shorten(best)}"

    def _repr_svg_(self) -> str:
        return self.plot().svg()

    def _repr_html_(self) -> str:
        return f"{self.plot()._repr_html_()}<p>{escape(repr(self))}</p>"


class LRFinder:
    """Train `steps` steps with rates from `low` to `high`, then restore the run.

    Smith, 2017 (arXiv:1506.01186). Smooths the loss by a moving average and stops when it reaches
    `diverges` times its minimum. Calls no handlers. Rates of several groups rise in proportion
    to the first group's.

    >>> from flambeau.train import Trainer
    >>> net = nn.Linear(4, 1)
    >>> trainer = Trainer(net, torch.optim.SGD(net.parameters(), lr=1e-3), "mse", compile=False)
    >>> x = torch.randn(256, 4)
    >>> found = LRFinder(low=1e-4, high=10).run(trainer, (x, x.sum(1, keepdim=True)))
    >>> 1e-3 < found.suggestion < 1
    True
    >>> trainer.optimizer.param_groups[0]["lr"], found.plot("rates.html").title
    (0.001, 'Learning rates')
    """

    def __init__(
        self, *, low: float = 1e-6, high: float = 10.0, steps: int = 100, smooth: float = 0.9,
        diverges: float = 4.0,
    ) -> None:
        if not 0 < low < high:
            raise ValueError(f"LRFinder: expected 0 < low < high, got {low}, {high}")
        if steps < 3:
            raise ValueError(f"LRFinder: a curve needs at least 3 steps, got {steps}")
        self.low, self.high, self.steps = low, high, steps
        self.smooth, self.diverges = smooth, diverges

    def run(self, trainer: Any, data: Any, *, batch_size: int | None = None) -> LearningRateSweep:
        """Return the losses by rate. `data`: as in `fit`; repeated if too short."""
        loader = as_loader(data, batch_size, None if is_loader(data) else True, who="LRFinder")
        with keep_untouched(trainer, loader):
            return self._raise_rate(trainer, _cycle(loader))

    def _raise_rate(self, trainer: Any, batches: Iterator[Any]) -> LearningRateSweep:
        result, average, lowest = LearningRateSweep(), 0.0, math.inf
        groups = [g for optimizer in trainer.optimizers.values() for g in optimizer.param_groups]
        shares = [float(group["lr"]) / float(groups[0]["lr"] or 1) for group in groups]
        for i in range(self.steps):
            rate = self.low * (self.high / self.low) ** (i / (self.steps - 1))
            for group, share in zip(groups, shares, strict=True):
                set_value(group, "lr", rate * share)
            loss = _run_step(trainer, next(batches))
            average = self.smooth * average + (1 - self.smooth) * loss
            smoothed = average / (1 - self.smooth ** (i + 1))
            if not math.isfinite(loss) or smoothed > self.diverges * lowest:
                break
            lowest = min(lowest, smoothed)
            result.rates.append(rate)
            result.losses.append(loss)
            result.smoothed.append(smoothed)
        return result


@contextmanager
def keep_untouched(trainer: Any, loader: Any) -> Iterator[None]:
    """Train without handlers inside this context; restore the trainer's state afterwards."""
    saved, random = copy_state(trainer.state_dict()), read_random_state(loader)
    grads = [(parameter, parameter.grad) for parameter in trainer.net.parameters()]
    training = [(module, module.training) for module in trainer.net.modules()]
    live_objects = trainer.measures, trainer.state, trainer.handlers
    trainer.measures, trainer.state, trainer.handlers = Measures(), State(), Handlers(trainer)
    trainer.supervised.listen()
    try:
        trainer.net.train()
        yield
    finally:
        trainer.measures, trainer.state, trainer.handlers = live_objects
        trainer.supervised.listen()
        trainer.supervised.pending = 0
        trainer.net.load_state_dict(saved["net"])
        for name, optimizer in trainer.optimizers.items():
            optimizer.load_state_dict(saved["optimizers"][name])
        for parameter, grad in grads:
            parameter.grad = grad
        for module, mode in training:
            module.training = mode
        set_random_state(random, loader)


def _run_step(trainer: Any, batch: Any) -> float:
    """Run a step and return its loss, or the sum of what it returned."""
    trainer.measures.reset()
    trainer.state.batch = batch
    trainer.state.step += 1
    trainer._body(batch)
    metrics = trainer.measures.compute()
    return float(metrics.get("loss", sum(metrics.values())))


def _cycle(loader: Any) -> Iterator[Any]:
    while True:
        is_empty = True
        for batch in loader:
            is_empty = False
            yield batch
        if is_empty:
            raise ValueError("LRFinder: there were no batches")
