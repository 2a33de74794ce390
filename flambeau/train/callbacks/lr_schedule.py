"""Learning rate schedules of flambeau.optim.lr_scheduler as callbacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...optim.lr_scheduler import CyclicLR, LRScheduler, OneCycleLR, ReduceLROnPlateau
from ..events.event import Event, Events
from ..events.handlers import Handle
from ..events.order import Band
from ..events.scope import epoch, step
from ..state.monitored_metric import Monitor
from ..state.snapshot import copy_state

_EACH = {"epoch": epoch.end, "step": step.end}


class Schedule:
    """Step a scheduler at the end of each `"epoch"`, of each `"step"`, or at an event.

    `scheduler` is a scheduler or a factory: `f(optimizer)`, or `f(optimizer, run)`, where the run
    knows the number of steps (`run.state.batches * run.state.epochs`). OneCycleLR and CyclicLR
    are stepped each step unless `when` says otherwise. ReduceLROnPlateau gets the metric called
    `monitor`. The state is saved with the run. An epoch cut short by the end of the run is not
    counted: a resumed run continues it.

    >>> from flambeau.optim.lr_scheduler import StepLR
    >>> from flambeau.train import Trainer
    >>> net = nn.Linear(2, 1)
    >>> trainer = Trainer(net, torch.optim.SGD(net.parameters(), lr=1.0), "mse", compile=False)
    >>> halved = Schedule(lambda optimizer: StepLR(optimizer, 1, gamma=0.5))
    >>> x = torch.zeros(4, 2)
    >>> _ = trainer.fit((x, x[:, :1]), epochs=3, callbacks=[halved])
    >>> trainer.optimizer.param_groups[0]["lr"]
    0.125
    """

    band = Band.CONTROL

    def __init__(
        self,
        scheduler: LRScheduler | Callable[..., LRScheduler],
        when: str | Event | Events | None = None,
        *,
        monitor: str | None = None,
        name: str = "Schedule",
    ) -> None:
        if isinstance(when, str) and when not in _EACH:
            raise ValueError(f"Schedule: when must be 'epoch', 'step' or an event, not {when!r}")
        if isinstance(scheduler, type):
            name = scheduler.__name__
            raise TypeError(f"Schedule takes a scheduler, not the class {name}: a function of the "
                            f"optimizer, lambda optimizer: {name}(optimizer, ...)")
        if not isinstance(scheduler, LRScheduler) and not callable(scheduler):
            raise TypeError("Schedule takes a scheduler or a function from an optimizer to a "
                            f"scheduler, not {type(scheduler).__name__}")
        self.when, self.name, self.monitor = when, name, monitor
        self.make = None if isinstance(scheduler, LRScheduler) else scheduler
        self.scheduler: Any = scheduler if isinstance(scheduler, LRScheduler) else None
        if self.scheduler is not None:
            self._check()
        self._monitor = None if monitor is None else Monitor(monitor, "min")
        self._loaded: dict[str, Any] | None = None
        self._handle: Handle | None = None
        self._by_epoch = True

    def _check(self) -> None:
        if isinstance(self.scheduler, ReduceLROnPlateau) and self.monitor is None:
            raise ValueError("ReduceLROnPlateau needs a value to monitor: Schedule(..., "
                             "monitor='valid_loss')")

    def on_run_start(self, run: Any) -> None:
        """Create the scheduler and start stepping it."""
        if self.make is not None:
            self.scheduler = self._build_scheduler(run)
            self._check()
        optimizers = list((getattr(run, "optimizers", None) or {}).values())
        if optimizers and all(self.scheduler.optimizer is not known for known in optimizers):
            raise ValueError(f"Schedule: the {type(self.scheduler).__name__} belongs to "
                             "another optimizer: create it from trainer.optimizer")
        if run.state.resumed:
            self.scheduler.optimizer._opt_called = True  # in the previous process
        when = self.when
        if when is None:
            steps_per_batch = isinstance(self.scheduler, (OneCycleLR, CyclicLR))
            when = "step" if steps_per_batch else "epoch"
        moment = _EACH[when] if isinstance(when, str) else when
        self._by_epoch = all(event.scope == "epoch" for event in moment)
        self._handle = run.attach(moment, self._step_scheduler, self.band)

    def _build_scheduler(self, run: Any) -> Any:
        """Return a new scheduler; in a resumed run, keep the loaded optimizer's state."""
        assert self.make is not None
        optimizer, resumed = run.optimizer, run.state.resumed
        optimizers = list(run.optimizers.values())
        options = [[copy_state({k: v for k, v in group.items() if k != "params"})
                    for group in known.param_groups] for known in optimizers]
        if not resumed:  # otherwise a second fit would start where the first schedule ended
            for known in optimizers:
                for group in known.param_groups:
                    group["lr"] = group.get("initial_lr", group["lr"])
        result = self.make(optimizer, run) if _wants_run(self.make) else self.make(optimizer)
        if not isinstance(result, LRScheduler):
            raise TypeError(f"Schedule: the function returned {type(result).__name__}, no "
                            "scheduler")
        if resumed:
            if self._loaded is not None:
                result.load_state_dict(self._loaded)
            for known, groups in zip(optimizers, options, strict=True):
                for group, values in zip(known.param_groups, groups, strict=True):
                    group.update(values)
        self._loaded = None
        return result

    def _step_scheduler(self, run: Any) -> None:
        if self._by_epoch and not run.epoch_over:
            return
        if not isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step()
            return
        assert self._monitor is not None
        value = self._monitor.value(run)
        if value is not None:
            self.scheduler.step(value)

    def on_run_end(self) -> None:
        """Stop stepping the scheduler."""
        self._stop_stepping()

    def on_run_error(self) -> None:
        """Stop stepping the scheduler."""
        self._stop_stepping()

    def _stop_stepping(self) -> None:
        if self._handle is not None:
            self._handle.detach()
            self._handle = None

    def state_dict(self) -> dict[str, Any]:
        """Return the scheduler's state."""
        saved = self._loaded if self.scheduler is None else self.scheduler.state_dict()
        return {"scheduler": saved}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restore a state returned by `state_dict`."""
        if self.make is not None or self.scheduler is None:
            self._loaded = saved["scheduler"]
        elif saved["scheduler"] is not None:
            self.scheduler.load_state_dict(saved["scheduler"])


def _wants_run(make: Any) -> bool:
    from ..events.handler_arguments import form_of

    return form_of(make) == "n logs"  # two parameters
