"""Momentum that moves opposite to the rate: an option of CyclicLR and OneCycleLR."""

from __future__ import annotations

from typing import Any

from ..optimizer import Optimizer
from .scheduler import LRScheduler, expand_to_groups


class MomentumCycle(LRScheduler):
    """A scheduler that may set `momentum`, or the first of `betas`, in the groups."""

    def _flambeau_start_momentum(
        self, optimizer: Optimizer, lowest: Any, highest: Any, last_epoch: int
    ) -> tuple[list[Any], list[Any]]:
        """Set all groups to the highest momentum; return each group's lowest and highest.

        Raises ValueError for an optimizer without momentum.
        """
        defaults = optimizer.defaults
        if "momentum" not in defaults and "betas" not in defaults:
            raise ValueError(
                "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
            )
        self.use_beta1 = "betas" in defaults
        lows = expand_to_groups("base_momentum", optimizer, lowest)
        highs = expand_to_groups("max_momentum", optimizer, highest)
        if last_epoch == -1:
            for group, low, high in zip(optimizer.param_groups, lows, highs, strict=True):
                self._flambeau_set_momentum(group, high)
                group["max_momentum"] = high
                group["base_momentum"] = low
        return lows, highs

    def _flambeau_set_momentum(self, group: dict[str, Any], value: float) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value
