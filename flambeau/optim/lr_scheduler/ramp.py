"""ConstantLR, LinearLR and PolynomialLR: rates that change during the first epochs."""

from __future__ import annotations

from ...tensor import Tensor
from ..optimizer import Optimizer
from .scheduler import LRScheduler, warn_outside_step


class ConstantLR(LRScheduler):
    """Multiplies the initial rate by `factor` for `total_iters` epochs.

    Raises ValueError for a factor outside [0, 1].

    >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> for _ in range(4):
    ...     print(scheduler.get_last_lr()[0])
    ...     optimizer.step()
    ...     scheduler.step()
    0.5
    0.5
    1.0
    1.0
    """

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError(
                f"Constant multiplicative factor expected to be between 0 and 1. Got {factor}"
            )
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Return the rates of this epoch."""
        warn_outside_step(self)
        if self.last_epoch == 0:
            return self._flambeau_times(self.factor)
        if self.last_epoch != self.total_iters:
            return self._flambeau_kept()
        return self._flambeau_times(1.0 / self.factor)

    def _get_closed_form_lr(self) -> list[float | Tensor]:
        is_over = self.last_epoch >= self.total_iters
        factor = self.factor + is_over * (1 - self.factor)
        return [base_lr * factor for base_lr in self.base_lrs]


class LinearLR(LRScheduler):
    """Multiplies the initial rate by a factor that goes linearly from `start_factor` to
    `end_factor` in `total_iters` epochs. Raises ValueError for factors outside (0, 1] and [0, 1].

    >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> for _ in range(4):
    ...     print(scheduler.get_last_lr()[0])
    ...     optimizer.step()
    ...     scheduler.step()
    0.5
    0.75
    1.0
    1.0
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal "
                f"to 1. Got {start_factor}"
            )
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError(
                f"Ending multiplicative factor expected to be between 0 and 1. Got {end_factor}"
            )
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Return the rates of this epoch."""
        warn_outside_step(self)
        if self.last_epoch == 0:
            return self._flambeau_times(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._flambeau_kept()
        rise = self.end_factor - self.start_factor
        scaled_factor = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return self._flambeau_times(1.0 + rise / scaled_factor)

    def _get_closed_form_lr(self) -> list[float | Tensor]:
        rise = self.end_factor - self.start_factor
        epoch = min(self.total_iters, self.last_epoch)
        factor = self.start_factor + rise * epoch / self.total_iters
        return [base_lr * factor for base_lr in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Multiplies the initial rate by `(1 - epoch / total_iters) ** power`; 0 after `total_iters`.

    >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=2, power=2.0)
    >>> for _ in range(4):
    ...     print(scheduler.get_last_lr()[0])
    ...     optimizer.step()
    ...     scheduler.step()
    1.0
    0.25
    0.0
    0.0
    """

    def __init__(
        self,
        optimizer: Optimizer,
        total_iters: int = 5,
        power: float = 1.0,
        last_epoch: int = -1,
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Return the rates of this epoch."""
        warn_outside_step(self)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._flambeau_kept()
        remaining = 1.0 - self.last_epoch / self.total_iters
        left_before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return self._flambeau_times((remaining / left_before) ** self.power)

    def _get_closed_form_lr(self) -> list[float | Tensor]:
        epoch = min(self.total_iters, self.last_epoch)
        factor = (1.0 - epoch / self.total_iters) ** self.power
        return [base_lr * factor for base_lr in self.base_lrs]
