"""SGD: stochastic gradient descent with momentum and Nesterov momentum."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import ops
from ..tensor import Tensor
from .adam import check_fused
from .elementwise import Elementwise, add_scaled, add_scaled_, scalar
from .optimizer import ParamsT, check_single
from .refresh import set_missing


class Flags(NamedTuple):
    """The branches that the formula takes."""

    maximize: bool
    decay: bool
    momentum: str  # "", "first" (the velocity is the gradient) or "later"
    nesterov: bool


class Scalars(NamedTuple):
    """The formula's scalars."""

    weight_decay: Any
    momentum: Any
    weight: Any  # 1 - dampening
    step: Any  # -lr


def update(flags: Flags, s: Scalars, param: Any, grad: Any, *buffer: Any) -> None:
    """One step of gradient descent, in place."""
    if flags.maximize:
        grad = -grad
    if flags.decay:
        grad = add_scaled(grad, param, s.weight_decay)
    if flags.momentum:
        velocity = buffer[0]
        if flags.momentum == "first":
            velocity.copy_(grad)
        else:
            velocity.mul_(s.momentum).add_(grad, alpha=s.weight)
        grad = grad.add(velocity, alpha=s.momentum) if flags.nesterov else velocity
    add_scaled_(param, grad, s.step)


class SGD(Elementwise):
    """Gradient descent: `velocity = momentum * velocity + (1 - dampening) * grad` and `param -= lr
    * velocity`. The first velocity is the first gradient.

    `nesterov` looks ahead along the velocity (Sutskever et al., 2013). Raises ValueError for
    negative options, and for `nesterov` without momentum or with dampening.

    >>> w = torch.ones(2, requires_grad=True)
    >>> optimizer = torch.optim.SGD([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.8000, 0.8000], requires_grad=True)
    """

    _flambeau_scalars = Scalars
    _flambeau_formula = staticmethod(update)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_single(lr)
        if lr < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if momentum < 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if weight_decay < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize, "foreach": foreach,
            "differentiable": differentiable, "fused": fused,
        })
        check_fused(fused, differentiable, foreach)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        set_missing(
            self, nesterov=False, maximize=False, foreach=None, differentiable=False, fused=False
        )

    def _flambeau_begin(self, group: dict[str, Any], param: Tensor, state: dict[str, Any]) -> bool:
        """Return whether this is the parameter's first step with momentum."""
        if group["momentum"] == 0 or state.get("momentum_buffer") is not None:
            return False
        grad = param.grad
        prototype = grad if grad is not None and grad.is_sparse else param
        state["momentum_buffer"] = ops.zeros_like(prototype)
        return True

    def _flambeau_run_sparse(
        self, flags: Any, scalars: Any, param: Tensor, grad: Tensor, states: list[Tensor]
    ) -> None:
        """Apply the same formula: the velocity of sparse gradients is sparse."""
        update(flags, scalars, param, grad, *states)

    def _flambeau_states(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] != 0 else ()

    def _flambeau_plan(self, group: dict[str, Any], first: bool) -> tuple[Flags, Scalars]:
        differentiable = group["differentiable"]
        decay = scalar(group["weight_decay"], differentiable)
        momentum = group["momentum"]
        momentum_stage = "" if momentum == 0 else "first" if first else "later"
        decayed = isinstance(decay, Tensor) or decay != 0
        flags = Flags(group["maximize"], decayed, momentum_stage, group["nesterov"])
        lr = scalar(group["lr"], differentiable)
        return flags, Scalars(decay, momentum, 1 - group["dampening"], -lr)
