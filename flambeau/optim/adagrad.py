"""Adagrad: divide gradients by the root of the sum of their squares so far."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import ops
from ..tensor import Tensor
from .adam import check_fused
from .elementwise import Elementwise, add_quotient_, create_counter, increment_counter, scalar
from .optimizer import ParamsT, check_learning_rate
from .refresh import convert_counters, set_missing


class Flags(NamedTuple):
    """The branches that the formula takes."""

    maximize: bool
    decay: bool


class Scalars(NamedTuple):
    """The formula's scalars."""

    weight_decay: Any
    eps: Any
    step: Any  # -lr / (1 + (step - 1) * lr_decay)


def update(flags: Flags, s: Scalars, param: Any, grad: Any, total: Any) -> None:
    """One step of Adagrad, in place."""
    if flags.maximize:
        grad = -grad
    if flags.decay:
        grad = grad.add(param, alpha=s.weight_decay)
    total.addcmul_(grad, grad, value=1)
    add_quotient_(param, grad, total.sqrt().add(s.eps), s.step)


class Adagrad(Elementwise):
    """Adaptive subgradient methods (Duchi, Hazan and Singer, JMLR 12, 2011).

    The sum starts at `initial_accumulator_value`; the rate decays as 1 / (1 + steps * lr_decay).
    Raises ValueError for negative options.

    >>> weight = torch.nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = torch.optim.Adagrad([weight], lr=0.1)
    >>> for _ in range(2):
    ...     weight.grad = torch.tensor([2.0])
    ...     optimizer.step()  # by 0.1 / sqrt(1), then by 0.1 / sqrt(2)
    ...     print(weight)
    Parameter containing:
    tensor([0.9000], requires_grad=True)
    Parameter containing:
    tensor([0.8293], requires_grad=True)
    """

    _flambeau_scalars = Scalars
    _flambeau_formula = staticmethod(update)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_learning_rate(lr)
        if not lr_decay >= 0.0:
            raise ValueError(f"Invalid lr_decay value: {lr_decay}")
        if not weight_decay >= 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if not initial_accumulator_value >= 0.0:
            raise ValueError(
                f"Invalid initial_accumulator_value value: {initial_accumulator_value}"
            )
        if not eps >= 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        super().__init__(params, {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "fused": fused,
        })
        check_fused(fused, differentiable, foreach)
        for group in self.param_groups:
            for param in group["params"]:
                self._flambeau_start(group, param)

    def _flambeau_start(self, group: dict[str, Any], param: Tensor) -> None:
        value = self.defaults["initial_accumulator_value"]
        filling = complex(value, value) if param.is_complex() else value
        result = {"step": create_counter(group["fused"]), "sum": ops.full_like(param, filling)}
        self.state[param].update(result)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        set_missing(self, foreach=None, maximize=False, differentiable=False, fused=None)
        convert_counters(self)

    def share_memory(self) -> None:
        """Move the sums to memory shared with other processes."""
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param]["sum"].share_memory_()

    def _flambeau_begin(self, group: dict[str, Any], param: Tensor, state: dict[str, Any]) -> float:
        if not state:
            self._flambeau_start(group, param)
        return increment_counter(state["step"])

    def _flambeau_run_sparse(
        self, flags: Flags, s: Scalars, param: Tensor, grad: Tensor, states: list[Tensor]
    ) -> None:
        """Accumulate and update only the gradient's nonzero positions."""
        if flags.decay:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        (total,) = states
        grad = (-grad if flags.maximize else grad).coalesce()
        indices, values = grad._indices(), grad._values()

        def at_places(values: Tensor) -> Tensor:
            return ops.sparse_coo_tensor(indices, values, grad.shape, is_coalesced=True)

        total.add_(at_places(values.pow(2)))
        root = total.sparse_mask(grad)._values().sqrt_().add_(s.eps)
        param.add_(at_places(values / root), alpha=s.step)

    def _flambeau_states(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("sum",)

    def _flambeau_plan(self, group: dict[str, Any], step: float) -> tuple[Flags, Scalars]:
        decay = group["weight_decay"]
        lr = scalar(group["lr"], group["differentiable"])
        rate = lr / (1 + (step - 1) * group["lr_decay"])
        return Flags(group["maximize"], decay != 0), Scalars(decay, group["eps"], -rate)
