"""The two functions of loss scaling that mixed-precision trainers call instead of GradScaler:
divide gradients by the scale and look for overflow; adapt the scale.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...tensor.dtypes import float32, int32
from ...tensor.promotion import build_missing_kernel_error
from ...tensor.tensor import Tensor
from ..core.operator import PUBLIC, publish


def _check(name: str, x: Tensor, dtype: object, kind: str) -> None:
    """Raise RuntimeError if a counter is not one element of its dtype."""
    if x.numel() != 1:
        raise RuntimeError(f"{name} must be a 1-element tensor.")
    if x.dtype != dtype:
        raise RuntimeError(f"{name} must be {kind} tensor.")


def _amp_foreach_non_finite_check_and_unscale_(
    self: Sequence[Tensor], found_inf: Tensor, inv_scale: Tensor
) -> None:
    """Multiply gradients by `inv_scale`, in place; set `found_inf` to 1 if one is not finite.

    `found_inf`, `inv_scale`: one float32 element each; `found_inf` stays 1 if it was.

    >>> grads, found_inf = [torch.tensor([2., float("inf")])], torch.zeros(1)
    >>> torch._amp_foreach_non_finite_check_and_unscale_(grads, found_inf, torch.tensor(0.5))
    >>> grads, found_inf
    ([tensor([1., inf])], tensor([1.]))
    """
    _check("inv_scale", inv_scale, float32, "a float")
    _check("found_inf", found_inf, float32, "a float")
    isfinite = PUBLIC["torch"]["isfinite"]
    for grad in self:
        if not grad.is_floating_point():
            raise build_missing_kernel_error("_amp_foreach_non_finite_check_and_unscale_cpu",
                                             grad.dtype)
        if not bool(isfinite(grad).all()):
            found_inf.fill_(1.0)
        grad.mul_(inv_scale.reshape(()))


def _amp_update_scale_(
    self: Tensor, growth_tracker: Tensor, found_inf: Tensor, scale_growth_factor: float,
    scale_backoff_factor: float, growth_interval: int,
) -> Tensor:
    """Adapt a scale, in place: back off after an overflow, grow after `growth_interval` steps
    without one, which `growth_tracker` counts.

    >>> scale, steps = torch.tensor(8.), torch.tensor(1, dtype=torch.int32)
    >>> torch._amp_update_scale_(scale, steps, torch.tensor(0.), 2., 0.5, 2), steps
    (tensor(16.), tensor(0, dtype=torch.int32))
    """
    _check("growth_tracker", growth_tracker, int32, "an int")
    _check("current_scale", self, float32, "a float")
    _check("found_inf", found_inf, float32, "a float")
    if found_inf.item():
        self.mul_(scale_backoff_factor)
        growth_tracker.zero_()
        return self
    growth_tracker.add_(1)
    if growth_tracker.item() == growth_interval:
        grown = self * scale_growth_factor
        if bool(PUBLIC["torch"]["isfinite"](grown)):
            self.copy_(grown)
        growth_tracker.zero_()
    return self


for _function in (_amp_foreach_non_finite_check_and_unscale_, _amp_update_scale_):
    publish(_function, (_function.__name__,), ("torch",))
