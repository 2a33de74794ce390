"""GradScaler: scales losses so that float16 gradients do not underflow; skips overflowing steps."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

from .. import ops
from ..native.foundation.user_frames import warn
from ..optim import Optimizer
from ..tensor import Tensor

__all__ = ["GradScaler"]


def _gradients(optimizer: Optimizer) -> Iterator[Tensor]:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None:
                yield parameter.grad


class GradScaler:
    """Scales a loss by a factor that shrinks when gradients overflow and grows when they do not.

    `scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()`. For an absent device
    (such as 'cuda') it is disabled: `scale` returns the loss, `step` calls the optimizer.

    >>> weight = nn.Parameter(torch.ones(1))
    >>> optimizer = torch.optim.SGD([weight], lr=0.5)
    >>> scaler = torch.amp.GradScaler("cpu", init_scale=1024.)
    >>> scaler.scale(weight.sum()).backward()
    >>> weight.grad
    tensor([1024.])
    >>> scaler.step(optimizer)  # unscales first
    >>> weight.item()
    0.5
    >>> scaler.update()
    """

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0,
        backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
    ) -> None:
        self._device, self._enabled = device, enabled
        if enabled and device != "cpu":
            warn(
                f"torch.{device}.amp.GradScaler is enabled, but {device.upper()} is not available. "
                " Disabling.",
                UserWarning,
            )
            self._enabled = False
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._scale = float(init_scale)
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval, self._growth_tracker = growth_interval, 0
        # Whether gradients overflowed, by optimizer's id.
        self._flambeau_overflowed: dict[int, bool] = {}
        self._flambeau_stepped: set[int] = set()

    def scale(self, outputs: Any) -> Any:
        """Multiply a tensor, or each of an iterable of tensors, by the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if isinstance(outputs, Iterable):
            result: Any = type(outputs)
            return result(map(self.scale, outputs))
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of the optimizer's parameters by the scale, in place."""
        if not self._enabled:
            return
        key = id(optimizer)
        if key in self._flambeau_overflowed:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if key in self._flambeau_stepped:
            raise RuntimeError("unscale_() is being called after step().")
        overflowed = False
        for grad in _gradients(optimizer):
            grad.mul_(1.0 / self._scale)
            overflowed = overflowed or not bool(ops.isfinite(grad).all())
        self._flambeau_overflowed[key] = overflowed

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> float | None:
        """Unscale the gradients if not done yet; step the optimizer unless they overflow."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        key = id(optimizer)
        if key in self._flambeau_stepped:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            return self._flambeau_step_that_unscales(optimizer, args, kwargs)
        if key not in self._flambeau_overflowed:
            self.unscale_(optimizer)
        self._flambeau_stepped.add(key)
        return None if self._flambeau_overflowed[key] else optimizer.step(*args, **kwargs)

    def _flambeau_step_that_unscales(
        self, optimizer: Any, args: tuple, kwargs: dict[str, Any]
    ) -> Any:
        """Step an optimizer that takes the scale and the overflow flag itself."""
        key = id(optimizer)
        if "grad_scaler" in inspect.signature(optimizer.step).parameters:
            warn(
                "GradScaler is going to stop passing itself as a keyword argument to the passed "
                "optimizer. In the near future GradScaler registers `grad_scale: Tensor` and "
                "`found_inf: Tensor` to the passed optimizer and let the optimizer use them "
                "directly.",
                FutureWarning,
            )
            result = optimizer.step(*args, grad_scaler=self, **kwargs)
            self._flambeau_stepped.add(key)
            return result
        unscaled = key in self._flambeau_overflowed
        if not unscaled:
            self._flambeau_overflowed[key] = any(
                not bool(ops.isfinite(grad).all()) for grad in _gradients(optimizer))
        optimizer.grad_scale = None if unscaled else ops.full((), self._scale)
        optimizer.found_inf = ops.full((), float(self._flambeau_overflowed[key]))
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            self._flambeau_stepped.add(key)
            del optimizer.grad_scale, optimizer.found_inf

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adapt the scale to whether steps overflowed, or set it."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._flambeau_overflowed:
            raise AssertionError("No inf checks were recorded prior to update.")
        elif any(self._flambeau_overflowed.values()):
            self._scale *= self._backoff_factor
            self._growth_tracker = 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                self._scale *= self._growth_factor
                self._growth_tracker = 0
        self._flambeau_overflowed.clear()
        self._flambeau_stepped.clear()

    def get_scale(self) -> float:
        """Return the scale; 1 if disabled."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """Return the factor by which the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return the factor by which the scale shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return the number of steps without overflow after which the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the number of steps without overflow after which the scale grows."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether scaling is enabled."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Return the scale and settings; empty if disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale, "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor, "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state returned by `state_dict`."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._scale = float(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]
