"""OneCycleLR: one rise and one long decay over the run (Smith and Topin, arXiv:1708.07120)."""

from __future__ import annotations

import math
from typing import Any, Literal

from ...tensor import Tensor
from ..optimizer import Optimizer
from .momentum import MomentumCycle
from .scheduler import check_optimizer, expand_to_groups, warn_outside_step


def _anneal_by_cosine(start: Any, end: Any, progress: float) -> Any:
    return end + (start - end) / 2.0 * (math.cos(math.pi * progress) + 1)


def _anneal_linearly(start: Any, end: Any, progress: float) -> Any:
    return (end - start) * progress + start


def _create_phase(end: float, rates: tuple[str, str], momenta: tuple[str, str]) -> dict[str, Any]:
    return {
        "end_step": end,
        "start_lr": rates[0], "end_lr": rates[1],
        "start_momentum": momenta[0], "end_momentum": momenta[1],
    }


def _create_phases(steps: int, rising: float, three: bool) -> list[dict[str, Any]]:
    """Return the phases: last step, and the group options at both ends of rate and momentum."""
    up, down = ("initial_lr", "max_lr"), ("max_lr", "min_lr")
    fall, rise = ("max_momentum", "base_momentum"), ("base_momentum", "max_momentum")
    first = _create_phase(float(rising * steps) - 1, up, fall)
    if not three:
        return [first, _create_phase(steps - 1, down, rise)]
    constant = ("max_momentum", "max_momentum")
    return [
        first,
        _create_phase(float(2 * rising * steps) - 2, ("max_lr", "initial_lr"), rise),
        _create_phase(steps - 1, ("initial_lr", "min_lr"), constant),
    ]


class OneCycleLR(MomentumCycle):
    """Rises from `max_lr / div_factor` to `max_lr`, then decays to the start / `final_div_factor`.

    The rise takes a fraction `pct_start` of `total_steps` (or `epochs * steps_per_epoch`) batches;
    with `three_phase` a decay as long as the rise precedes the last one. Momentum moves in the
    opposite direction. Raises ValueError for options out of range, and when stepped beyond the end.

    >>> optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=4)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(optimizer.param_groups[0]['lr'], 3))
    ...     optimizer.step()
    ...     scheduler.step()
    >>> rates
    [0.04, 0.812, 0.283, 0.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = _count_batches(total_steps, epochs, steps_per_epoch)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._schedule_phases = _create_phases(self.total_steps, pct_start, three_phase)
        self._anneal_func_type = anneal_strategy
        max_lrs = expand_to_groups("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, highest in zip(optimizer.param_groups, max_lrs, strict=True):
                group["initial_lr"] = highest / div_factor
                group["max_lr"] = highest
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._flambeau_start_momentum(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Return the rates of this batch; set the momenta too."""
        warn_outside_step(self)
        step, phases = self.last_epoch, self._schedule_phases
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        last = len(phases) - 1
        index = next((i for i in range(last) if step <= phases[i]["end_step"]), last)
        phase = phases[index]
        start = phases[index - 1]["end_step"] if index else 0.0
        progress = (step - start) / (phase["end_step"] - start)
        anneal = _anneal_by_cosine if self._anneal_func_type == "cos" else _anneal_linearly
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(anneal(group[phase["start_lr"]], group[phase["end_lr"]], progress))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                self._flambeau_set_momentum(group, anneal(*ends, progress))
        return rates


def _count_batches(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    """Return the number of batches. Raises ValueError if unspecified or not a positive int."""
    if total_steps is not None:
        return _require_positive("total_steps", total_steps)
    if epochs is None or steps_per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    return _require_positive("epochs", epochs) * _require_positive(
        "steps_per_epoch", steps_per_epoch
    )


def _require_positive(name: str, value: int) -> int:
    if not isinstance(value, int) or value <= 0:
        raise ValueError(f"Expected positive integer {name}, but got {value}")
    return value
