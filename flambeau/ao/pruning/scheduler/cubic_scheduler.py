"""Sparsity that grows quickly at first and slowly at last, along a cubic curve."""

from __future__ import annotations

from typing import Any

from .base_scheduler import BaseScheduler

__all__ = ["CubicSL"]


class CubicSL(BaseScheduler):
    """Raise the level from `init_sl` to the sparsifier's own (Zhu and Gupta, arXiv 1710.01878).

    Args:
        init_sl, init_t: the first level, and the epoch at which it begins to rise.
        delta_t, total_t: epochs per stage, and the number of stages.
        initially_zero: whether the level is 0 instead of `init_sl` before `init_t`.

    Each may be a list, with one value per group.

    >>> torch.ao.pruning.CubicSL.sparsity_compute_fn(s_0=0.0, s_f=0.8, t=5, t_0=0, dt=1, n=10)
    0.7000000000000001
    """

    def __init__(
        self, sparsifier: Any, init_sl: Any = 0.0, init_t: Any = 0, delta_t: Any = 10,
        total_t: Any = 100, initially_zero: Any = False, last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.sparsifier = sparsifier
        self.init_sl = self._make_sure_a_list(init_sl)
        self.init_t = self._make_sure_a_list(init_t)
        self.delta_t = self._make_sure_a_list(delta_t)
        self.total_t = self._make_sure_a_list(total_t)
        self.initially_zero = self._make_sure_a_list(initially_zero)
        super().__init__(sparsifier, last_epoch, verbose)

    @staticmethod
    def sparsity_compute_fn(
        s_0: float, s_f: float, t: int, t_0: int, dt: int, n: int, initially_zero: bool = False
    ) -> float:
        """Return the level at step t: s_f + (s_0 - s_f) (1 - (t - t_0) / (dt n))^3."""
        if initially_zero and t < t_0:
            return 0
        level = s_f + (s_0 - s_f) * (1.0 - (t - t_0) / (dt * n)) ** 3
        return max(s_0, min(s_f, level))

    def get_sl(self) -> list[float]:
        """Return the levels of the epoch `last_epoch`."""
        self._advise_last_sl()
        settings = zip(self.init_sl, self.base_sl, self.init_t, self.delta_t, self.total_t,
                       self.initially_zero, strict=True)
        return [self.sparsity_compute_fn(s_0, s_f, self.last_epoch, t_0, dt, n, zero)
                for s_0, s_f, t_0, dt, n, zero in settings]
