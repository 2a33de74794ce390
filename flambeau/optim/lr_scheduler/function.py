"""LambdaLR and MultiplicativeLR: rates computed by functions of the epoch."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from ...native.foundation.shared_constructors import own_constructor
from ...tensor import Tensor
from ..optimizer import Optimizer
from .scheduler import LRScheduler, warn_outside_step


class _FunctionLR(LRScheduler):
    """One function per group. States include the attributes of callable objects, not functions."""

    __init_subclass__ = own_constructor

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = optimizer
        count = len(optimizer.param_groups)
        if not isinstance(lr_lambda, (list, tuple)):
            lr_lambda = [lr_lambda] * count
        if len(lr_lambda) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(lr_lambda)}")
        self.lr_lambdas = list(lr_lambda)
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes except the optimizer. Of callables, only objects' attributes."""
        state = super().state_dict()
        state["lr_lambdas"] = [
            None if isinstance(f, types.FunctionType) else f.__dict__.copy()
            for f in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a `state_dict`. Plain functions are kept."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for function, attributes in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=False):
            if attributes is not None:
                function.__dict__.update(attributes)


class LambdaLR(_FunctionLR):
    """Sets the initial rate times `lr_lambda(epoch)`. A list gives one function per group.

    >>> optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (epoch + 1))
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(optimizer.param_groups[0]['lr'], 3))
    ...     optimizer.step()
    ...     scheduler.step()
    >>> rates
    [1.0, 0.5, 0.333, 0.25]
    """

    def get_lr(self) -> list[float | Tensor]:
        """Return the rates of this epoch."""
        warn_outside_step(self)
        pairs = zip(self.lr_lambdas, self.base_lrs, strict=True)
        return [base_lr * function(self.last_epoch) for function, base_lr in pairs]


class MultiplicativeLR(_FunctionLR):
    """Multiplies the last rate by `lr_lambda(epoch)`. Raises TypeError if it is not callable.

    >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
    >>> for _ in range(3):
    ...     print(scheduler.get_last_lr()[0])
    ...     optimizer.step()
    ...     scheduler.step()
    1.0
    0.5
    0.25
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        for function in lr_lambda if isinstance(lr_lambda, (list, tuple)) else [lr_lambda]:
            if not callable(function):
                raise TypeError(
                    f"lr_lambda should be a function, but got {type(function).__name__}"
                )
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Return the rates of this epoch."""
        warn_outside_step(self)
        if self._is_initial:
            return self._flambeau_kept()
        pairs = zip(self.lr_lambdas, self.optimizer.param_groups, strict=True)
        return [group["lr"] * function(self.last_epoch) for function, group in pairs]
