"""Sparsity as a function of the epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .base_scheduler import BaseScheduler

__all__ = ["LambdaSL"]


class LambdaSL(BaseScheduler):
    """Multiply the sparsifier's own level by a function of the epoch, one or one per group.

    >>> sparsifier = torch.ao.pruning.WeightNormSparsifier(sparsity_level=0.5)
    >>> sparsifier.prepare(nn.Sequential(nn.Linear(4, 4)), None)
    >>> torch.ao.pruning.LambdaSL(sparsifier, lambda epoch: 0.9 ** epoch).get_last_sl()
    [0.5]
    """

    def __init__(
        self, sparsifier: Any, sl_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1, verbose: bool = False,
    ) -> None:
        count = len(sparsifier.groups)
        if isinstance(sl_lambda, (list, tuple)) and len(sl_lambda) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(sl_lambda)}")
        self.sl_lambdas = list(sl_lambda) if isinstance(sl_lambda, (list, tuple)) \
            else [sl_lambda] * count
        super().__init__(sparsifier, last_epoch, verbose)

    def get_sl(self) -> list[float]:
        """Return the levels of the epoch `last_epoch`."""
        self._advise_last_sl()
        return [level * function(self.last_epoch)
                for function, level in zip(self.sl_lambdas, self.base_sl, strict=True)]
