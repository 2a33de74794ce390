"""Adamax: Adam with the largest decayed gradient instead of the mean square."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import ops
from ..tensor import Tensor
from .adam import check_ranges
from .elementwise import Elementwise, add_quotient_, create_counter, increment_counter, scalar
from .optimizer import ParamsT, check_single
from .refresh import convert_counters, set_missing


class Flags(NamedTuple):
    """The branches that the formula takes."""

    maximize: bool
    decay: bool


class Scalars(NamedTuple):
    """The formula's scalars."""

    weight_decay: Any
    weight1: Any  # 1 - beta1
    beta2: Any
    eps: Any
    step: Any  # -lr / (1 - beta1**step)


def update(flags: Flags, s: Scalars, param: Any, grad: Any, exp_avg: Any, exp_inf: Any) -> None:
    """One step of Adamax, in place."""
    if flags.maximize:
        grad = -grad
    if flags.decay:
        grad = grad.add(param, alpha=s.weight_decay)
    exp_avg.lerp_(grad, s.weight1)
    exp_inf.copy_(exp_inf.mul(s.beta2).maximum(grad.abs().add(s.eps)))
    add_quotient_(param, exp_avg, exp_inf, s.step)


class Adamax(Elementwise):
    """Adamax (Kingma and Ba, 2014, arXiv:1412.6980, section 7.1).

    Raises ValueError for options out of range.

    >>> weight = torch.nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = torch.optim.Adamax([weight], lr=0.1)
    >>> weight.grad = torch.tensor([2.0])
    >>> optimizer.step()  # at first by lr in the direction of the gradient's sign
    >>> weight
    Parameter containing:
    tensor([0.9000], requires_grad=True)
    """

    _flambeau_scalars = Scalars
    _flambeau_formula = staticmethod(update)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_single(lr)
        check_ranges(lr, betas, eps, weight_decay)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        })

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        set_missing(self, foreach=None, maximize=False, differentiable=False, capturable=False)
        convert_counters(self)

    def _flambeau_begin(self, group: dict[str, Any], param: Tensor, state: dict[str, Any]) -> float:
        if not state:
            state.update(step=create_counter(), exp_avg=ops.zeros_like(param),
                         exp_inf=ops.zeros_like(param))
        return increment_counter(state["step"])

    def _flambeau_states(self, group: dict[str, Any]) -> tuple[str, ...]:
        return "exp_avg", "exp_inf"

    def _flambeau_plan(self, group: dict[str, Any], step: float) -> tuple[Flags, Scalars]:
        decay, (beta1, beta2) = group["weight_decay"], group["betas"]
        lr = scalar(group["lr"], group["differentiable"])
        return Flags(group["maximize"], decay != 0), Scalars(
            decay, 1 - beta1, beta2, group["eps"], -(lr / (1 - beta1**step))
        )
