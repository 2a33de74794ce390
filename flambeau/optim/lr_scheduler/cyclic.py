"""CyclicLR: cyclical learning rates (Smith, arXiv:1506.01186)."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from ...tensor import Tensor
from ..optimizer import Optimizer
from .momentum import MomentumCycle
from .scheduler import check_optimizer, expand_to_groups, set_value, warn_outside_step


def _triangular(cycle: float) -> float:
    return 1.0


def _triangular2(cycle: float) -> float:
    return 1 / (2.0 ** (cycle - 1))


def _exp_range(gamma: float, iteration: float) -> float:
    return gamma**iteration


class CyclicLR(MomentumCycle):
    """Cycles from `base_lr` to `max_lr` in `step_size_up` batches and back in `step_size_down`.

    `mode` scales the amplitude: "triangular" (constant), "triangular2" (halved each cycle),
    "exp_range" (`gamma` to the power of the batch). `scale_fn` replaces it, as a function of the
    cycle or the batch (`scale_mode`). Momentum moves in the opposite direction. Raises ValueError
    for an unknown mode, lists of the wrong length, and `cycle_momentum` with an optimizer without
    momentum.

    Smith, 2015.

    >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0, momentum=0.9)
    >>> scheduler = torch.optim.lr_scheduler.CyclicLR(optimizer, 0.1, 0.5, step_size_up=2)
    >>> for _ in range(5):
    ...     print(round(scheduler.get_last_lr()[0], 4))
    ...     optimizer.step()
    ...     scheduler.step()
    0.1
    0.3
    0.5
    0.3
    0.1
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: Literal["cycle", "iterations"] = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = expand_to_groups("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for rate, group in zip(base_lrs, optimizer.param_groups, strict=True):
                set_value(group, "lr", rate)
        self.max_lrs = expand_to_groups("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError(f"mode is invalid and scale_fn is None: mode {mode!r}")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_ref: Callable[[float], float]
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        self._init_scale_fn()
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = self._flambeau_start_momentum(
                optimizer, base_momentum, max_momentum, last_epoch
            )
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _init_scale_fn(self) -> None:
        if self._scale_fn_custom is not None:
            return
        self.scale_mode = "iterations" if self.mode == "exp_range" else "cycle"
        shapes: dict[str, Callable[[float], float]] = {
            "triangular": _triangular,
            "triangular2": _triangular2,
            "exp_range": partial(_exp_range, self.gamma),
        }
        self._scale_fn_ref = shapes[self.mode]

    def scale_fn(self, x: float) -> float:
        """Return the amplitude scale of cycle, or batch, `x`."""
        return (self._scale_fn_custom or self._scale_fn_ref)(x)

    def get_lr(self) -> list[float | Tensor]:
        """Return the rates of this batch; set the momenta too."""
        warn_outside_step(self)
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        if x <= self.step_ratio:
            height = x / self.step_ratio
        else:
            height = (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(
                self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True
            ):
                self._flambeau_set_momentum(group, high - (high - low) * height * scale)
        return [
            low + (high - low) * height * scale
            for low, high in zip(self.base_lrs, self.max_lrs, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes but the optimizer. Of `scale_fn`, only an object's attributes."""
        state = super().state_dict()
        state.pop("_scale_fn_ref", None)
        function = state["_scale_fn_custom"]
        is_function = function is None or isinstance(function, types.FunctionType)
        state["_scale_fn_custom"] = None if is_function else function.__dict__.copy()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a `state_dict`. A `scale_fn` object is kept and its attributes are updated."""
        attributes = state_dict["_scale_fn_custom"]
        options = {k: v for k, v in state_dict.items() if k != "_scale_fn_custom"}
        super().load_state_dict(options)
        if attributes is not None:
            self._scale_fn_custom.__dict__.update(attributes)
        self._init_scale_fn()
