"""NAdam: Adam with Nesterov momentum."""

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
    decay: str  # "", "coupled" (added to the gradient) or "decoupled"
    differentiable: bool


class Scalars(NamedTuple):
    """The formula's scalars. mu_t is the momentum of step t; products run over all steps."""

    shrink: Any  # 1 - lr * weight_decay
    weight_decay: Any
    weight1: Any  # 1 - beta1
    beta2: Any
    weight2: Any  # 1 - beta2
    bias2: Any  # 1 - beta2**step
    eps: Any
    grad_step: Any  # -lr * (1 - mu_t) / (1 - product of mu up to t)
    mean_step: Any  # -lr * mu_(t+1) / (1 - product of mu up to t+1)


def update(flags: Flags, s: Scalars, param: Any, grad: Any, exp_avg: Any, exp_avg_sq: Any) -> None:
    """One step of NAdam, in place."""
    if flags.maximize:
        grad = -grad
    if flags.decay == "decoupled":
        param.mul_(s.shrink)
    elif flags.decay:
        grad = grad.add(param, alpha=s.weight_decay)
    exp_avg.lerp_(grad, s.weight1)
    exp_avg_sq.mul_(s.beta2).addcmul_(grad, grad, value=s.weight2)
    denominator = exp_avg_sq.div(s.bias2).sqrt().add(s.eps)
    mean = exp_avg.clone() if flags.differentiable else exp_avg
    add_quotient_(param, grad, denominator, s.grad_step)
    add_quotient_(param, mean, denominator, s.mean_step)


class NAdam(Elementwise):
    """Incorporating Nesterov momentum into Adam (Dozat, 2016).

    The momentum of step t is `beta1 * (1 - 0.5 * 0.96 ** (t * momentum_decay))`. Raises ValueError
    for options out of range.

    >>> weight = torch.nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = torch.optim.NAdam([weight], lr=0.1)
    >>> weight.grad = torch.tensor([2.0])
    >>> optimizer.step()
    >>> sorted(optimizer.state[weight])
    ['exp_avg', 'exp_avg_sq', 'mu_product', 'step']
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
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_single(lr)
        check_ranges(lr, betas, eps, weight_decay)
        if not momentum_decay >= 0.0:
            raise ValueError(f"Invalid momentum_decay value: {momentum_decay}")
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "differentiable": differentiable,
        })

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        set_missing(
            self, maximize=False, foreach=None, capturable=False, differentiable=False,
            decoupled_weight_decay=False,
        )
        convert_counters(self, "mu_product")

    def _flambeau_begin(
        self, group: dict[str, Any], param: Tensor, state: dict[str, Any]
    ) -> tuple[float, Any]:
        """Return the step and the product of the momenta so far.

        The product is a tensor if the step is differentiated with respect to it.
        """
        if not state:
            state.update(step=create_counter(), mu_product=create_counter(value=1.0),
                         exp_avg=ops.zeros_like(param), exp_avg_sq=ops.zeros_like(param))
        step = increment_counter(state["step"])
        product = state["mu_product"]
        if group["differentiable"] and product.requires_grad:
            return step, product.mul_(_compute_momentum(group, step))
        array = product._array
        array[()] = array * array.dtype.type(_compute_momentum(group, step))
        product._bump()
        return step, array.item()

    def _flambeau_states(self, group: dict[str, Any]) -> tuple[str, ...]:
        return "exp_avg", "exp_avg_sq"

    def _flambeau_plan(
        self, group: dict[str, Any], key: tuple[float, Any]
    ) -> tuple[Flags, Scalars]:
        step, product = key
        decay, (beta1, beta2) = group["weight_decay"], group["betas"]
        differentiable = group["differentiable"]
        lr = scalar(group["lr"], differentiable)
        momentum, next_momentum = _compute_momentum(group, step), _compute_momentum(group, step + 1)
        decay_mode = "decoupled" if group["decoupled_weight_decay"] else "coupled"
        flags = Flags(group["maximize"], decay_mode if decay != 0 else "", differentiable)
        return flags, Scalars(
            1 - lr * decay, decay, 1 - beta1, beta2, 1 - beta2, 1 - beta2**step, group["eps"],
            -lr * (1.0 - momentum) / (1.0 - product),
            -lr * next_momentum / (1.0 - product * next_momentum),
        )


def _compute_momentum(group: dict[str, Any], step: float) -> float:
    return group["betas"][0] * (1.0 - 0.5 * 0.96 ** (step * group["momentum_decay"]))
