"""CosineAnnealingLR and CosineAnnealingWarmRestarts (Loshchilov and Hutter, arXiv:1608.03983)."""

from __future__ import annotations

import math

from ...native.foundation.public_names import class_of
from ...tensor import Tensor
from ..optimizer import Optimizer
from .scheduler import LRScheduler, mark_step, warn_outside_step


class CosineAnnealingLR(LRScheduler):
    """Anneals from the initial rate to `eta_min` and back on a cosine, `T_max` epochs each way.

    Updates the current rate recursively, so it can be chained with other schedulers.

    >>> optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(optimizer.param_groups[0]['lr'], 3))
    ...     optimizer.step()
    ...     scheduler.step()
    >>> rates
    [1.0, 0.854, 0.5, 0.146]
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Return the rates of this epoch."""
        warn_outside_step(self)
        if self._is_initial:
            return self._flambeau_kept()
        lowest, epoch, half = self.eta_min, self.last_epoch, self.T_max
        if self._step_count == 1 and epoch > 0:
            return self._get_closed_form_lr()
        groups = self.optimizer.param_groups
        if (epoch - 1 - half) % (2 * half) == 0:  # the formula below would divide by zero
            rise = 1 - math.cos(math.pi / half)
            return [
                group["lr"] + (base_lr - lowest) * rise / 2
                for base_lr, group in zip(self.base_lrs, groups, strict=True)
            ]
        factor = (1 + math.cos(math.pi * epoch / half)) / (
            1 + math.cos(math.pi * (epoch - 1) / half)
        )
        return [factor * (group["lr"] - lowest) + lowest for group in groups]

    def _get_closed_form_lr(self) -> list[float | Tensor]:
        wave = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        lowest = self.eta_min
        return [lowest + (base_lr - lowest) * wave / 2 for base_lr in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Repeatedly anneals from the initial rate to `eta_min` on a cosine, then restarts.

    The first cycle takes `T_0` epochs, each later one `T_mult` times as many. `step` accepts
    fractional epochs. Raises ValueError unless `T_0` and `T_mult` are positive integers.

    Loshchilov and Hutter, 2016.

    >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> for _ in range(4):
    ...     print(round(scheduler.get_last_lr()[0], 4))
    ...     optimizer.step()
    ...     scheduler.step()
    1.0
    0.5
    1.0
    0.5
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(
                f"Expected float or int eta_min, but got {eta_min} of type {class_of(eta_min)}"
            )
        self.T_0 = T_0
        self.T_i = T_0  # the length of this cycle
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch  # epochs since the last restart
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Return the rates of this epoch."""
        warn_outside_step(self)
        wave = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        lowest = self.eta_min
        return [lowest + (base_lr - lowest) * wave / 2 for base_lr in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Advance by one epoch, or to a possibly fractional `epoch`. Raises ValueError below 0."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        else:
            self._flambeau_jump(epoch)
        self.last_epoch = math.floor(epoch)
        with mark_step(self):
            self._flambeau_set_rates(self.get_lr())

    def _flambeau_jump(self, epoch: float) -> None:
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            ratio = self.T_mult - 1
            restarts = int(math.log(epoch / self.T_0 * ratio + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**restarts - 1) / ratio
            self.T_i = self.T_0 * self.T_mult**restarts
