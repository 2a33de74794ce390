"""AdamW: Adam with weight decay decoupled from the gradient."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor
from .adam import Adam
from .optimizer import ParamsT


class AdamW(Adam):
    """Decoupled weight decay regularization (Loshchilov and Hutter, 2017, arXiv:1711.05101).

    Adam that also shrinks parameters by `lr * weight_decay` at each step.

    >>> w = nn.Parameter(torch.ones(2))
    >>> optimizer = torch.optim.AdamW([w], lr=0.1, weight_decay=0.01)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> w
    Parameter containing:
    tensor([0.8990, 0.8990], requires_grad=True)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad,
            foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:  # checkpoints older than the option
            group["decoupled_weight_decay"] = True
