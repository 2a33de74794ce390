"""StepLR, MultiStepLR and ExponentialLR: rates that decay by a factor."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable

from ...tensor import Tensor
from ..optimizer import Optimizer
from .scheduler import LRScheduler, warn_outside_step


class StepLR(LRScheduler):
    """Multiplies rates by `gamma` every `step_size` epochs.

    >>> optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(optimizer.param_groups[0]['lr'], 3))
    ...     optimizer.step()
    ...     scheduler.step()
    >>> rates
    [1.0, 1.0, 0.1, 0.1]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Return the rates of this epoch."""
        warn_outside_step(self)
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._flambeau_kept()
        return self._flambeau_times(self.gamma)

    def _get_closed_form_lr(self) -> list[float | Tensor]:
        factor = self.gamma ** (self.last_epoch // self.step_size)
        return [base_lr * factor for base_lr in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Multiplies rates by `gamma` at each milestone, once per occurrence in the list.

    >>> optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.1)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(optimizer.param_groups[0]['lr'], 3))
    ...     optimizer.step()
    ...     scheduler.step()
    >>> rates
    [1.0, 0.1, 0.1, 0.01]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Return the rates of this epoch."""
        warn_outside_step(self)
        if self.last_epoch not in self.milestones:
            return self._flambeau_kept()
        return self._flambeau_times(self.gamma ** self.milestones[self.last_epoch])

    def _get_closed_form_lr(self) -> list[float | Tensor]:
        n_passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base_lr * self.gamma**n_passed for base_lr in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Multiplies rates by `gamma` every epoch.

    >>> optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(optimizer.param_groups[0]['lr'], 3))
    ...     optimizer.step()
    ...     scheduler.step()
    >>> rates
    [1.0, 0.5, 0.25, 0.125]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Return the rates of this epoch."""
        warn_outside_step(self)
        return self._flambeau_kept() if self._is_initial else self._flambeau_times(self.gamma)

    def _get_closed_form_lr(self) -> list[float | Tensor]:
        return [base_lr * self.gamma**self.last_epoch for base_lr in self.base_lrs]
