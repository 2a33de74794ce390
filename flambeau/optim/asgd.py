"""ASGD: gradient descent at a decaying rate, with a running average of the parameters."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import ops
from ..tensor import Tensor
from .elementwise import Elementwise, create_counter, increment_counter
from .optimizer import ParamsT, check_learning_rate, number
from .refresh import convert_counters, set_missing


class Flags(NamedTuple):
    """The branches that the formula takes."""

    maximize: bool
    decay: bool
    averaging: bool  # else the average is the parameter itself


class Scalars(NamedTuple):
    """The formula's scalars."""

    weight_decay: Any
    shrink: Any  # 1 - lambd * eta
    step: Any  # -eta
    mu: Any


def update(flags: Flags, s: Scalars, param: Any, grad: Any, ax: Any) -> None:
    """One step of averaged gradient descent, in place."""
    if flags.maximize:
        grad = -grad
    if flags.decay:
        grad = grad.add(param, alpha=s.weight_decay)
    param.mul_(s.shrink).add_(grad, alpha=s.step)
    if flags.averaging:
        ax.add_(param.sub(ax).mul(s.mu))
    else:
        ax.copy_(param)


class ASGD(Elementwise):
    """Acceleration of stochastic approximation by averaging (Polyak and Juditsky, 1992).

    The rate of step t is `lr / (1 + lambd * lr * t) ** alpha`; averaging starts after step `t0`.
    Raises ValueError for a negative rate or weight decay.

    >>> weight = torch.nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = torch.optim.ASGD([weight], lr=0.1, t0=0)
    >>> weight.grad = torch.tensor([2.0])
    >>> optimizer.step()
    >>> weight.detach(), optimizer.state[weight]["ax"]  # the parameter, and its average
    (tensor([0.8000]), tensor([0.8000]))
    """

    _flambeau_scalars = Scalars
    _flambeau_formula = staticmethod(update)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_learning_rate(lr)
        if not weight_decay >= 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        super().__init__(params, {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
            "capturable": capturable,
        })

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        set_missing(self, foreach=None, maximize=False, differentiable=False, capturable=False)
        convert_counters(self, "eta", "mu")

    def _flambeau_begin(
        self, group: dict[str, Any], param: Tensor, state: dict[str, Any]
    ) -> tuple[float, float]:
        """Return this step's rate and averaging weight; store those of the next step."""
        lr = number(group["lr"])
        if not state:
            state.update(step=create_counter(), eta=create_counter(value=lr),
                         mu=create_counter(value=1.0),
                         ax=ops.zeros_like(param))
        step = increment_counter(state["step"])
        eta, mu = state["eta"], state["mu"]
        current = eta._array.item(), mu._array.item()
        eta._array[()] = lr / (1 + group["lambd"] * lr * step) ** group["alpha"]
        mu._array[()] = 1 / max(1, step - group["t0"])
        eta._bump()
        mu._bump()
        return current

    def _flambeau_states(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("ax",)

    def _flambeau_plan(
        self, group: dict[str, Any], key: tuple[float, float]
    ) -> tuple[Flags, Scalars]:
        eta, mu = key
        decay = group["weight_decay"]
        flags = Flags(group["maximize"], decay != 0, mu != 1)
        return flags, Scalars(decay, 1 - group["lambd"] * eta, -eta, mu)
