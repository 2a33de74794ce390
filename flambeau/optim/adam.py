"""Adam, and AdamW with `decoupled_weight_decay`: moving averages of the gradient and its square."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import ops
from ..tensor import Tensor
from .elementwise import (
    Elementwise, add_product_, add_quotient_, add_scaled, create_counter, increment_counter, scalar,
)
from .optimizer import ParamsT, check_single
from .refresh import convert_counters, set_missing


_tuple = tuple.__new__


class Flags(NamedTuple):
    """The branches that the formula takes."""

    maximize: bool
    decay: str  # "", "coupled" (added to the gradient) or "decoupled"
    amsgrad: bool
    differentiable: bool


class Scalars(NamedTuple):
    """The formula's scalars."""

    shrink: Any  # 1 - lr * weight_decay
    weight_decay: Any
    weight1: Any  # 1 - beta1
    beta2: Any
    weight2: Any  # 1 - beta2
    bias2_sqrt: Any  # sqrt(1 - beta2**step)
    eps: Any
    step: Any  # -lr / (1 - beta1**step)


def update(
    flags: Flags, s: Scalars, param: Any, grad: Any, exp_avg: Any, exp_avg_sq: Any, *largest: Any
) -> None:
    """One step of Adam, in place."""
    if flags.maximize:
        grad = -grad
    if flags.decay == "decoupled":
        param.mul_(s.shrink)
    elif flags.decay:
        grad = add_scaled(grad, param, s.weight_decay)
    exp_avg.lerp_(grad, s.weight1)
    add_product_(exp_avg_sq.mul_(s.beta2), grad, grad, s.weight2)
    square = exp_avg_sq
    if flags.amsgrad:
        square = largest[0]
        previous = square.clone() if flags.differentiable else square
        square.copy_(previous.maximum(exp_avg_sq))
    denominator = square.sqrt().div(s.bias2_sqrt).add_(s.eps)
    # The next step must not overwrite what autograd saves.
    mean = exp_avg.clone() if flags.differentiable else exp_avg
    add_quotient_(param, mean, denominator, s.step)


class Adam(Elementwise):
    """Adam: a method for stochastic optimization (Kingma and Ba, 2014, arXiv:1412.6980).

    `amsgrad` divides by the largest mean square so far; `decoupled_weight_decay` shrinks the
    parameters instead of adding to the gradients. Raises ValueError for values out of range.

    >>> w = torch.ones(2, requires_grad=True)
    >>> optimizer = torch.optim.Adam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9000, 0.9000], requires_grad=True)
    """

    _flambeau_scalars = Scalars
    _flambeau_formula = staticmethod(update)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and foreach and not capturable:
            raise ValueError(
                "lr as a Tensor is not supported for capturable=False and foreach=True"
            )
        check_single(lr)
        check_ranges(lr, betas, eps, weight_decay)
        _check_betas(betas, capturable, foreach)
        pair = tuple(b.squeeze() if isinstance(b, Tensor) and b.dim() else b for b in betas)
        super().__init__(params, {
            "lr": lr, "betas": pair, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "differentiable": differentiable, "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        })
        check_fused(fused, differentiable, foreach)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        set_missing(
            self, amsgrad=False, maximize=False, foreach=None, capturable=False,
            differentiable=False, decoupled_weight_decay=False, fused=None,
        )
        convert_counters(self)

    def _flambeau_begin(self, group: dict[str, Any], param: Tensor, state: dict[str, Any]) -> float:
        if not state:
            result = {"step": create_counter(group["fused"]), "exp_avg": ops.zeros_like(param),
                    "exp_avg_sq": ops.zeros_like(param)}
            if group["amsgrad"]:
                result["max_exp_avg_sq"] = ops.zeros_like(param)
            state.update(result)
        return increment_counter(state["step"])

    def _flambeau_run_sparse(self, *_: Any) -> None:
        raise RuntimeError(
            "Adam does not support sparse gradients, please consider SparseAdam instead")

    def _flambeau_states(self, group: dict[str, Any]) -> tuple[str, ...]:
        if group["amsgrad"]:
            return "exp_avg", "exp_avg_sq", "max_exp_avg_sq"
        return "exp_avg", "exp_avg_sq"

    def _flambeau_plan(self, group: dict[str, Any], step: float) -> tuple[Flags, Scalars]:
        differentiable = group["differentiable"]
        lr, decay = group["lr"], group["weight_decay"]
        beta1, beta2 = group["betas"]
        if not lr.__class__ is beta1.__class__ is beta2.__class__ is float:
            lr, beta1, beta2 = (scalar(x, differentiable) for x in (lr, beta1, beta2))
        if decay.__class__ is not float:
            decay = scalar(decay, differentiable)
        decay_mode = ""
        if isinstance(decay, Tensor) or decay != 0:
            decay_mode = "decoupled" if group["decoupled_weight_decay"] else "coupled"
        # _tuple takes half the time of calling the classes, which delays compiled steps.
        return _tuple(Flags,
                      (group["maximize"], decay_mode, group["amsgrad"], differentiable)), _tuple(
            Scalars, (1 - lr * decay, decay, 1 - beta1, beta2, 1 - beta2,
                      (1 - beta2**step) ** 0.5, group["eps"], -(lr / (1 - beta1**step))),
        )


def check_ranges(lr: Any, betas: Any, eps: float, weight_decay: Any) -> None:
    """Raise ValueError if an option of the Adam family is out of range."""
    if not lr >= 0.0:
        raise ValueError(f"Invalid learning rate: {lr}")
    if not eps >= 0.0:
        raise ValueError(f"Invalid epsilon value: {eps}")
    for index in (0, 1):
        if not 0.0 <= betas[index] < 1.0:
            raise ValueError(f"Invalid beta parameter at index {index}: {betas[index]}")
    if not weight_decay >= 0.0:
        raise ValueError(f"Invalid weight_decay value: {weight_decay}")


def _check_betas(betas: Any, capturable: bool, foreach: bool | None) -> None:
    floats = [isinstance(b, float) for b in betas[:2]]
    tensors = [isinstance(b, Tensor) for b in betas[:2]]
    if not (all(floats) or all(tensors)):
        raise ValueError("betas must be either both floats or both Tensors")
    for index in (0, 1) if all(tensors) else ():
        if foreach and not capturable:
            raise ValueError(
                f"betas[{index}] as a Tensor is not supported for capturable=False and foreach=True"
            )
        if betas[index].numel() != 1:
            raise ValueError(f"Tensor betas[{index}] must be 1-element")


def check_fused(fused: bool | None, differentiable: bool, foreach: bool | None) -> None:
    """Raise RuntimeError if `fused` conflicts with another option."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
