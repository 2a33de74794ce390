"""Average the weights over training, exponentially (EMA) or equally (SWA), for evaluation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...nn import Module
from ...optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn
from ..events.handlers import Handle
from ..events.order import Band
from ..events.scope import epoch, step
from ..state.snapshot import copy_state


class Averaging:
    """Base class of EMA and SWA: a second net that averages the weights of the first.

    After the first average, validation, `evaluate` and `predict` use it, unless `evaluate=False`.
    `net` is the averaged net, also after the run. Its state is saved with the run. Custom
    evaluation steps get it as `run.averaged`.
    """

    band = Band.CONTROL

    def __init__(self, rule: Callable[..., None] | None, evaluate: bool, name: str) -> None:
        self.rule, self.evaluate, self.name = rule, evaluate, name
        self.average: AveragedModel | None = None
        self._loaded: dict[str, Any] | None = None
        self._handle: Handle | None = None

    @property
    def net(self) -> Module:
        """The averaged net. Raises RuntimeError before the first average."""
        if self.average is None:
            raise RuntimeError(f"{type(self).__name__}: nothing has been averaged yet")
        return self.average.module

    def on_run_start(self, run: Any) -> None:
        """Create the averaged net, or restore it if the run is resumed."""
        self.average = AveragedModel(run.net, multi_avg_fn=self.rule)
        self.average.module.eval().requires_grad_(False)
        if run.state.resumed and self._loaded is not None:
            self.average.load_state_dict(self._loaded)
        self._loaded = None
        self._handle = self.attach(run)
        self._show(run)

    def attach(self, run: Any) -> Handle:
        """Attach the handler that updates the average."""
        raise NotImplementedError(f"{type(self).__name__}.attach")

    def take(self, run: Any) -> None:
        """Add the current weights to the average."""
        assert self.average is not None
        self.average.update_parameters(run.net)
        self._show(run)

    def _show(self, run: Any) -> None:
        if self.evaluate and self.average is not None and self.average.n_averaged > 0:
            run.averaged = self.average.module

    def on_run_end(self, run: Any) -> None:
        """Stop averaging. The averages remain."""
        self._stop_averaging()

    def on_run_error(self) -> None:
        """Stop averaging."""
        self._stop_averaging()

    def _stop_averaging(self) -> None:
        if self._handle is not None:
            self._handle.detach()
            self._handle = None

    def copy_to(self, net: Module) -> None:
        """Copy the averages into a net, in place."""
        net.load_state_dict(self.net.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """Return the averages and their count."""
        return {"average": self._loaded if self.average is None else self.average.state_dict()}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restore the result of `state_dict`."""
        self._loaded = copy_state(saved["average"])
        if self.average is not None and self._loaded is not None:
            self.average.load_state_dict(self._loaded)


class EMA(Averaging):
    """An exponential moving average of the weights: `decay * average + (1 - decay) * weights`.

    Updated after every `every`-th step from step `start` on. Buffers (running statistics) are
    copied from the net.

    >>> from flambeau.train import Trainer
    >>> ema = EMA(0.9)
    >>> trainer = Trainer(nn.Linear(2, 1), "sgd", "mse", compile=False, callbacks=[ema])
    >>> x = torch.randn(16, 2)
    >>> _ = trainer.fit((x, x[:, :1]), (x, x[:, :1]), epochs=2)
    >>> torch.equal(trainer.predict(x), ema.net(x))
    True
    """

    def __init__(
        self, decay: float = 0.999, *, every: int = 1, start: int = 1, evaluate: bool = True,
        name: str = "EMA",
    ) -> None:
        super().__init__(get_ema_multi_avg_fn(decay), evaluate, name)
        self.every, self.start = every, start

    def attach(self, run: Any) -> Handle:
        """Update at the ends of steps."""
        return run.attach(step.end(every=self.every, after=self.start - 1), self.take, self.band)


class SWA(Averaging):
    """Stochastic weight averaging: the mean of the weights at the ends of epochs from `start` on.

    `start` is an epoch, or a fraction of all epochs (0.75: average the last quarter). At the end of
    the run, a pass over the training data recomputes the statistics of batch normalization. SWA
    leaves the learning rate alone: add Schedule(lambda o: SWALR(o, 0.05), epoch.end(after=10)).

    >>> from flambeau.train import Trainer
    >>> swa = SWA(start=2)
    >>> trainer = Trainer(nn.Linear(2, 1), "sgd", "mse", compile=False, callbacks=[swa])
    >>> x = torch.randn(16, 2)
    >>> _ = trainer.fit((x, x[:, :1]), epochs=3)
    >>> swa.average.n_averaged
    tensor(2)
    """

    def __init__(
        self, start: int | float = 0.75, *, every: int = 1, evaluate: bool = True, name: str = "SWA"
    ) -> None:
        if start <= 0:
            raise ValueError(f"SWA: start must be an epoch (from 1) or a fraction of all epochs, "
                             f"not {start}")
        super().__init__(None, evaluate, name)
        self.start, self.every = start, every

    def attach(self, run: Any) -> Handle:
        """Update at the ends of epochs."""
        first = self.start
        if isinstance(first, float):
            first = max(1, round(first * run.state.epochs) + 1) if first < 1 else int(first)
        return run.attach(epoch.end(every=self.every, after=first - 1), self._take_epoch, self.band)

    def _take_epoch(self, run: Any) -> None:
        if run.epoch_over:
            self.take(run)

    def on_run_end(self, run: Any) -> None:
        """Stop averaging; recompute the averaged net's batch normalization statistics."""
        self._stop_averaging()
        if self.average is not None and self.average.n_averaged > 0 and run.epoch_over:
            update_bn(run.state.data, self.net, run.device)
            self.net.eval()
