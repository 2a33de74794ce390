"""RMSprop: divide gradients by the root of their mean square."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import ops
from ..tensor import Tensor
from .elementwise import (
    Elementwise, add_quotient_, add_scaled_, create_counter, increment_counter, scalar,
)
from .optimizer import ParamsT, check_learning_rate
from .refresh import convert_counters, set_missing


class Flags(NamedTuple):
    """The branches that the formula takes."""

    maximize: bool
    decay: bool
    centered: bool
    momentum: bool
    differentiable: bool


class Scalars(NamedTuple):
    """The formula's scalars."""

    weight_decay: Any
    alpha: Any
    weight: Any  # 1 - alpha
    momentum: Any
    eps: Any
    step: Any  # -lr


def update(flags: Flags, s: Scalars, param: Any, grad: Any, square_avg: Any, *others: Any) -> None:
    """One step of RMSprop, in place; `others` are the momentum buffer and the mean gradient."""
    if flags.maximize:
        grad = -grad
    if flags.decay:
        grad = grad.add(param, alpha=s.weight_decay)
    square_avg.mul_(s.alpha).addcmul_(grad, grad, value=s.weight)
    if flags.centered:
        grad_avg = others[-1]
        grad_avg.lerp_(grad, s.weight)
        mean = grad_avg.clone() if flags.differentiable else grad_avg
        scale = square_avg.addcmul(mean, mean, value=-1).sqrt().add(s.eps)
    else:
        scale = square_avg.sqrt().add(s.eps)
    if flags.momentum:
        buffer = others[0]
        buffer.mul_(s.momentum).addcdiv_(grad, scale)
        add_scaled_(param, buffer, s.step)
    else:
        add_quotient_(param, grad, scale, s.step)


class RMSprop(Elementwise):
    """RMSprop (Hinton's lecture notes, 2012). `centered` divides by the standard deviation instead
    (Graves, 2013, arXiv:1308.0850). Raises ValueError for negative options.

    >>> w = nn.Parameter(torch.ones(2))
    >>> optimizer = torch.optim.RMSprop([w], lr=0.01)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> w
    Parameter containing:
    tensor([0.9000, 0.9000], requires_grad=True)
    """

    _flambeau_scalars = Scalars
    _flambeau_formula = staticmethod(update)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_learning_rate(lr)
        if not eps >= 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        if not momentum >= 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if not weight_decay >= 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if not alpha >= 0.0:
            raise ValueError(f"Invalid alpha value: {alpha}")
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable,
        })

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        set_missing(
            self, momentum=0, centered=False, foreach=None, maximize=False,
            differentiable=False, capturable=False,
        )
        convert_counters(self)

    def _flambeau_begin(self, group: dict[str, Any], param: Tensor, state: dict[str, Any]) -> None:
        if not state:
            result = {"step": create_counter(), "square_avg": ops.zeros_like(param)}
            if group["momentum"] > 0:
                result["momentum_buffer"] = ops.zeros_like(param)
            if group["centered"]:
                result["grad_avg"] = ops.zeros_like(param)
            state.update(result)
        increment_counter(state["step"])

    def _flambeau_states(self, group: dict[str, Any]) -> tuple[str, ...]:
        momentum = ("momentum_buffer",) if group["momentum"] > 0 else ()
        return ("square_avg", *momentum, *(("grad_avg",) if group["centered"] else ()))

    def _flambeau_plan(self, group: dict[str, Any], key: None) -> tuple[Flags, Scalars]:
        decay, alpha = group["weight_decay"], group["alpha"]
        momentum, differentiable = group["momentum"], group["differentiable"]
        flags = Flags(
            group["maximize"], decay != 0, group["centered"], momentum > 0, differentiable
        )
        lr = scalar(group["lr"], differentiable)
        return flags, Scalars(decay, alpha, 1 - alpha, momentum, group["eps"], -lr)
