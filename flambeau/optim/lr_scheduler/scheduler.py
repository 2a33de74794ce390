"""LRScheduler: base class of schedulers. Counts epochs and sets the rates of the groups."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Iterator
from typing import Any

from ...native.foundation.user_frames import warn
from ...tensor import Tensor
from ..optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler. With an epoch given, the "
    "closed form is used instead of the chainable form, where there is one."
)
_ORDER = (
    "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
)


def copy_value(value: Any) -> Any:
    """Return the value, or a clone of a tensor."""
    return value.clone() if isinstance(value, Tensor) else value


def list_values(optimizer: Optimizer, key: str) -> list[Any]:
    """Return an option of all groups, with tensors cloned."""
    return [copy_value(group[key]) for group in optimizer.param_groups]


def set_value(group: dict[str, Any], key: str, value: Any) -> None:
    """Set an option of a group, in place if it is a tensor."""
    if isinstance(group[key], Tensor):
        group[key].fill_(value.squeeze() if isinstance(value, Tensor) else value)
    else:
        group[key] = value


def expand_to_groups(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """Return one value per group from a value or a list. ValueError for the wrong length."""
    count = len(optimizer.param_groups)
    if isinstance(value, (list, tuple)):
        if len(value) != count:
            raise ValueError(
                f"{name} must have the same length as optimizer.param_groups. {name} has "
                f"{len(value)} values, param_groups has {count}."
            )
    else:
        value = [value] * count
    return [copy_value(v) for v in value]


def check_optimizer(optimizer: Any) -> None:
    """Raise TypeError unless it is an optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def warn_outside_step(scheduler: LRScheduler) -> None:
    """Warn if `get_lr`, which computes the next rates, is called outside `step`."""
    if not scheduler._get_lr_called_within_step:
        warn(
            "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
            UserWarning,
        )


class LRScheduler:
    """Base of schedulers: `step()` after each epoch sets the rates that `get_lr` computes.

    A scheduler that starts at `last_epoch` -1 stores the groups' rates as the initial ones. One
    that resumes expects them in the groups (else KeyError). Raises TypeError for a non-optimizer.

    >>> class Halved(torch.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [rate * 0.5 ** self.last_epoch for rate in self.base_lrs]
    >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    >>> scheduler = Halved(optimizer)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    _get_lr_called_within_step: bool = False
    _is_initial: bool = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for index, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copy_value(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{index}] when resuming "
                    "scheduler with last_epoch >= 0.\nThis typically happens when:\n1. You're "
                    "trying to resume training from a checkpoint but haven't properly loaded the "
                    "optimizer state\n2. You're using last_epoch >= 0 for a fresh training run "
                    "(not recommended)"
                )
        self.base_lrs: list[float | Tensor] = list_values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _note_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes except the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a `state_dict`."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[float | Tensor]:
        """Return the rates set by the last step, one per group."""
        return self._last_lr

    def get_lr(self) -> list[float | Tensor]:
        """Compute this epoch's rates from the current ones. Called by `step`."""
        raise NotImplementedError(f"{type(self).__name__}.get_lr")

    def step(self, epoch: int | None = None) -> None:
        """Advance by one epoch, or to `epoch` (deprecated), and set the rates."""
        if self._step_count == 1:
            self._flambeau_check_order()
        self._step_count += 1
        if epoch is not None:
            warn(EPOCH_DEPRECATION_WARNING, UserWarning)
        self._update_lr(epoch)

    def _flambeau_check_order(self) -> None:
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
                "initialization. Please, make sure to call `optimizer.step()` before "
                f"`lr_scheduler.step()`. {_ORDER}",
                UserWarning,
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. You should "
                "call them in the opposite order: `optimizer.step()` before "
                "`lr_scheduler.step()`. Failure to do this will result in PyTorch skipping the "
                f"first value of the learning rate schedule. {_ORDER}",
                UserWarning,
            )

    def _update_lr(self, epoch: int | None = None) -> None:
        with mark_step(self):
            if epoch is None:
                self.last_epoch += 1
                rates = self.get_lr()
            else:
                self.last_epoch = epoch
                closed_form = getattr(self, "_get_closed_form_lr", self.get_lr)
                rates = closed_form()
        self._flambeau_set_rates(rates)

    def _flambeau_set_rates(self, rates: list[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_value(group, "lr", rate)
        self._last_lr: list[float | Tensor] = list_values(self.optimizer, "lr")

    def _flambeau_kept(self) -> list[Any]:
        """Return the current rates."""
        return list_values(self.optimizer, "lr")

    def _flambeau_times(self, factor: float) -> list[Any]:
        """Return the current rates times a factor."""
        return [group["lr"] * factor for group in self.optimizer.param_groups]


@contextlib.contextmanager
def mark_step(scheduler: LRScheduler) -> Iterator[None]:
    """Mark that `step` is calling `get_lr`."""
    scheduler._get_lr_called_within_step = True
    try:
        yield
    finally:
        scheduler._get_lr_called_within_step = False


def _note_steps(optimizer: Optimizer) -> None:
    """Make `optimizer.step` record its calls, so that a wrong call order can be reported."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    bound: Any = optimizer.step
    function = bound.__func__
    reference = weakref.ref(optimizer)  # weak: the optimizer holds this wrapper

    @functools.wraps(function)
    def step(*args: Any, **kwargs: Any) -> Any:
        optimizer: Any = reference()
        optimizer._opt_called = True
        return function(optimizer, *args, **kwargs)

    noted: Any = step
    noted._wrapped_by_lr_sched = True
    optimizer.step = noted
