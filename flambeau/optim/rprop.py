"""Rprop: one step size per element, which grows while the gradient keeps its sign."""

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
    differentiable: bool


class Scalars(NamedTuple):
    """The formula's scalars."""

    eta_minus: Any
    eta_plus: Any
    smallest: Any
    largest: Any


def update(flags: Flags, s: Scalars, param: Any, grad: Any, prev: Any, step_size: Any) -> None:
    """One step of resilient backpropagation, in place."""
    if flags.maximize:
        grad = -grad
    previous = prev.clone() if flags.differentiable else prev
    sign = grad.mul(previous).sign()
    has_overshot = sign.lt(0)
    factor = sign.masked_fill(sign.gt(0), s.eta_plus).masked_fill(has_overshot, s.eta_minus)
    step_size.mul_(factor.masked_fill(sign.eq(0), 1)).clamp_(s.smallest, s.largest)
    grad = grad.masked_fill(has_overshot, 0)  # do not follow the gradient after overshooting
    size = step_size.clone() if flags.differentiable else step_size
    param.addcmul_(grad.sign(), size, value=-1)
    prev.copy_(grad)


class Rprop(Elementwise):
    """A direct adaptive method for faster backpropagation learning (Riedmiller and Braun, 1993).

    `etas` multiply a step size when its gradient changes or keeps sign; `step_sizes` are its
    limits. Raises ValueError for a negative rate, and unless 0 < etas[0] < 1 < etas[1].

    >>> weight = torch.nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = torch.optim.Rprop([weight], lr=0.1)
    >>> for gradient in (1000.0, 0.001):  # only signs count: steps of 0.1 and 0.12
    ...     weight.grad = torch.tensor([gradient])
    ...     optimizer.step()
    ...     print(weight.detach())
    tensor([0.9000])
    tensor([0.7800])
    """

    _flambeau_scalars = Scalars
    _flambeau_formula = staticmethod(update)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_learning_rate(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        })

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        set_missing(self, foreach=None, maximize=False, differentiable=False, capturable=False)
        convert_counters(self)

    def _flambeau_begin(self, group: dict[str, Any], param: Tensor, state: dict[str, Any]) -> None:
        if not state:
            lr = number(group["lr"])
            filling = complex(lr, lr) if param.is_complex() else lr
            state.update(step=create_counter(), prev=ops.zeros_like(param),
                         step_size=ops.full_like(param, filling))
        increment_counter(state["step"])

    def _flambeau_states(self, group: dict[str, Any]) -> tuple[str, ...]:
        return "prev", "step_size"

    def _flambeau_plan(self, group: dict[str, Any], key: None) -> tuple[Flags, Scalars]:
        flags = Flags(group["maximize"], group["differentiable"])
        return flags, Scalars(*group["etas"], *group["step_sizes"])
