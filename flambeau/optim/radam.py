"""RAdam: Adam that uses the mean square only once it is reliable."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import ops
from ..tensor import Tensor
from .adam import check_ranges
from .elementwise import Elementwise, add_scaled_, create_counter, increment_counter, scalar
from .optimizer import ParamsT, check_single
from .refresh import convert_counters, set_missing


class Flags(NamedTuple):
    """The branches that the formula takes."""

    maximize: bool
    decay: str  # "", "coupled" (added to the gradient) or "decoupled"
    rectified: bool


class Scalars(NamedTuple):
    """The formula's scalars."""

    shrink: Any  # 1 - lr * weight_decay
    weight_decay: Any
    weight1: Any  # 1 - beta1
    beta2: Any
    weight2: Any  # 1 - beta2
    bias1: Any  # 1 - beta1**step
    bias2_sqrt: Any  # sqrt(1 - beta2**step)
    eps: Any
    rectifier: Any
    lr: Any


def update(flags: Flags, s: Scalars, param: Any, grad: Any, exp_avg: Any, exp_avg_sq: Any) -> None:
    """One step of RAdam, in place."""
    if flags.maximize:
        grad = -grad
    if flags.decay == "decoupled":
        param.mul_(s.shrink)
    elif flags.decay:
        grad = grad.add(param, alpha=s.weight_decay)
    exp_avg.lerp_(grad, s.weight1)
    exp_avg_sq.mul_(s.beta2).addcmul_(grad, grad, value=s.weight2)
    step = exp_avg.div(s.bias1).mul(s.lr)
    if flags.rectified:
        adaptive = exp_avg_sq.sqrt().add(s.eps).reciprocal().mul(s.bias2_sqrt)
        step = step.mul(adaptive).mul(s.rectifier)
    add_scaled_(param, step, -1)


class RAdam(Elementwise):
    """On the variance of the adaptive learning rate and beyond (Liu et al., 2019,
    arXiv:1908.03265). Raises ValueError for options out of range.

    >>> weight = torch.nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = torch.optim.RAdam([weight], lr=0.1)
    >>> weight.grad = torch.tensor([2.0])
    >>> optimizer.step()  # the first steps are those of SGD with momentum
    >>> weight.detach()
    tensor([0.8000])
    """

    _flambeau_scalars = Scalars
    _flambeau_formula = staticmethod(update)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_single(lr)
        check_ranges(lr, betas, eps, weight_decay)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay, "differentiable": differentiable,
        })

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        set_missing(
            self, foreach=None, maximize=False, differentiable=False,
            decoupled_weight_decay=False, capturable=False,
        )
        convert_counters(self)

    def _flambeau_begin(self, group: dict[str, Any], param: Tensor, state: dict[str, Any]) -> float:
        if not state:
            state.update(step=create_counter(), exp_avg=ops.zeros_like(param),
                         exp_avg_sq=ops.zeros_like(param))
        return increment_counter(state["step"])

    def _flambeau_states(self, group: dict[str, Any]) -> tuple[str, ...]:
        return "exp_avg", "exp_avg_sq"

    def _flambeau_plan(self, group: dict[str, Any], step: float) -> tuple[Flags, Scalars]:
        decay, (beta1, beta2) = group["weight_decay"], group["betas"]
        lr = scalar(group["lr"], group["differentiable"])
        bias2 = 1 - beta2**step
        longest = 2 / (1 - beta2) - 1  # of the averages that approximate the mean square
        length = longest - 2 * step * beta2**step / bias2
        rectified = length > 5.0
        rectifier = 1.0
        if rectified:
            rectifier = (
                (length - 4) * (length - 2) * longest
                / ((longest - 4) * (longest - 2) * length)
            ) ** 0.5
        decay_mode = "decoupled" if group["decoupled_weight_decay"] else "coupled"
        return Flags(group["maximize"], decay_mode if decay != 0 else "", rectified), Scalars(
            1 - lr * decay, decay, 1 - beta1, beta2, 1 - beta2, 1 - beta1**step, bias2**0.5,
            group["eps"], rectifier, lr,
        )
