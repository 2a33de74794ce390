"""Adadelta: steps scaled by the RMS of past steps over the RMS of gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import ops
from ..tensor import Tensor
from .elementwise import Elementwise, add_scaled_, create_counter, increment_counter, scalar
from .optimizer import ParamsT, check_learning_rate
from .refresh import convert_counters, set_missing


class Flags(NamedTuple):
    """The branches that the formula takes."""

    maximize: bool
    decay: bool


class Scalars(NamedTuple):
    """The formula's scalars."""

    weight_decay: Any
    rho: Any
    weight: Any  # 1 - rho
    eps: Any
    step: Any  # -lr


def update(
    flags: Flags, s: Scalars, param: Any, grad: Any, square_avg: Any, acc_delta: Any
) -> None:
    """One step of Adadelta, in place."""
    if flags.maximize:
        grad = -grad
    if flags.decay:
        grad = grad.add(param, alpha=s.weight_decay)
    square_avg.mul_(s.rho).addcmul_(grad, grad, value=s.weight)
    deviation = square_avg.add(s.eps).sqrt()
    delta = acc_delta.add(s.eps).sqrt().div(deviation).mul(grad)
    acc_delta.mul_(s.rho).addcmul_(delta, delta, value=s.weight)
    add_scaled_(param, delta, s.step)


class Adadelta(Elementwise):
    """ADADELTA: an adaptive learning rate method (Zeiler, 2012, arXiv:1212.5701).

    Raises ValueError for negative options, and for `rho` above 1.

    >>> weight = torch.nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = torch.optim.Adadelta([weight], lr=1.0)
    >>> weight.grad = torch.tensor([2.0])
    >>> optimizer.step()
    >>> sorted(optimizer.state[weight])
    ['acc_delta', 'square_avg', 'step']
    """

    _flambeau_scalars = Scalars
    _flambeau_formula = staticmethod(update)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_learning_rate(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        if not eps >= 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        if not weight_decay >= 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        super().__init__(params, {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        })

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        set_missing(self, foreach=None, maximize=False, differentiable=False, capturable=False)
        convert_counters(self)

    def _flambeau_begin(self, group: dict[str, Any], param: Tensor, state: dict[str, Any]) -> None:
        if not state:
            state.update(step=create_counter(), square_avg=ops.zeros_like(param),
                         acc_delta=ops.zeros_like(param))
        increment_counter(state["step"])

    def _flambeau_states(self, group: dict[str, Any]) -> tuple[str, ...]:
        return "square_avg", "acc_delta"

    def _flambeau_plan(self, group: dict[str, Any], key: None) -> tuple[Flags, Scalars]:
        decay, rho = group["weight_decay"], group["rho"]
        lr = scalar(group["lr"], group["differentiable"])
        return Flags(group["maximize"], decay != 0), Scalars(decay, rho, 1 - rho, group["eps"], -lr)
