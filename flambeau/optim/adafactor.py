"""Adafactor: stores a matrix's mean squares as one number per row and one per column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops
from ..autograd import no_grad
from ..tensor import Tensor
from ..tensor.dtypes import finfo
from .elementwise import create_counter, increment_counter
from .optimizer import Optimizer, ParamsT, check_single, number
from .refresh import convert_counters, set_missing


def update(group: dict[str, Any], param: Tensor, grad: Tensor, state: dict[str, Any]) -> None:
    """One step of Adafactor, in place."""
    lr = number(group["lr"])
    smallest, least_scale = group["eps"]
    if smallest is None:
        smallest = finfo(param.dtype).eps
    if group["maximize"]:
        grad = -grad
    step = increment_counter(state["step"])
    weight = step ** group["beta2_decay"]
    relative = min(lr, 1 / step**0.5)
    scale = max(least_scale, param.norm(2).item() / param.numel() ** 0.5) * relative
    if group["weight_decay"] != 0:
        param.mul_(1 - lr * group["weight_decay"])
    if grad.dim() > 1:
        row_var, col_var = state["row_var"], state["col_var"]
        row_var.lerp_(_compute_mean_square(grad, -1), weight)  # (..., rows, 1)
        col_var.lerp_(_compute_mean_square(grad, -2), weight)  # (..., 1, columns)
        estimate = row_var @ col_var  # (..., rows, columns)
        estimate.div_(row_var.mean(dim=-2, keepdim=True).clamp_(min=smallest))
    else:
        estimate = state["variance"].lerp_(grad * grad, weight).clone()
    step_direction = estimate.clamp_(min=smallest * smallest).rsqrt_().mul_(grad)
    root_mean_square = step_direction.norm(2).item() / step_direction.numel() ** 0.5
    param.add_(step_direction, alpha=-scale / max(1.0, root_mean_square / group["d"]))


def _compute_mean_square(grad: Tensor, dim: int) -> Tensor:
    return grad.norm(dim=dim, keepdim=True).square_().div_(grad.size(dim))


class Adafactor(Optimizer):
    """Adaptive learning rates with sublinear memory cost (Shazeer and Stern, 2018,
    arXiv:1804.04235).

    `eps` are the smallest mean square (None: the dtype's epsilon) and the smallest scale of a
    parameter, `d` is the RMS above which an update is clipped. Raises ValueError for options out of
    range.

    >>> weight = torch.nn.Parameter(torch.zeros(300, 200))
    >>> optimizer = torch.optim.Adafactor([weight])
    >>> weight.grad = torch.ones(300, 200)
    >>> optimizer.step()
    >>> state = optimizer.state[weight]  # 500 numbers for a matrix of 60 000
    >>> state["row_var"].shape, state["col_var"].shape
    (torch.Size([300, 1]), torch.Size([1, 200]))
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_single(lr)
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not eps[0] >= 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not eps[1] >= 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        super().__init__(params, {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize,
        })

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        set_missing(self, foreach=None)
        convert_counters(self)

    @no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update every parameter with a gradient. Raises RuntimeError for complex parameters."""
        loss = self._flambeau_loss_of(closure)
        for group, param, grad in self._flambeau_real_dense():
            state = self.state[param]
            if not state:
                _start(state, grad)
            update(group, param, grad, state)
        return loss


def _start(state: dict[str, Any], grad: Tensor) -> None:
    """Fill the state in one call, as `Elementwise._flambeau_begin` does."""
    if grad.dim() > 1:
        shape = list(grad.shape)
        state.update(step=create_counter(), row_var=grad.new_zeros([*shape[:-1], 1]),
                     col_var=grad.new_zeros([*shape[:-2], 1, shape[-1]]))
    else:
        state.update(step=create_counter(), variance=ops.zeros_like(grad))
