"""Muon: momentum steps of matrices, orthogonalized by Newton-Schulz iterations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import ops
from ..autograd import no_grad
from ..tensor import Tensor
from .optimizer import Optimizer, ParamsT, check_single, number


def orthogonalize(
    matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """Approximate the orthogonal factor of `matrix` in bfloat16: `steps` iterations of `X = a X +
    (b A + c A A) X` with `A = X X^T`, from the normalized matrix.

    Raises ValueError for 100 steps or more, for a non-matrix, or unless there are three
    coefficients.
    """
    if steps >= 100:
        raise ValueError(
            f"Number of steps must be less than 100 for computational efficiency, got {steps}"
        )
    if matrix.dim() != 2:
        raise ValueError(
            f"Input tensor gradient must be a 2D matrix, got shape {tuple(matrix.shape)}"
        )
    if len(coefficients) != 3:
        raise ValueError(f"Coefficients must be a tuple of exactly 3 values, got {coefficients}")
    a, b, c = coefficients
    tall = matrix.size(0) > matrix.size(1)
    x = matrix.bfloat16()
    x = x.T if tall else x  # use the smaller Gram matrix
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        factor = ops.addmm(gram, gram, gram, beta=b, alpha=c)
        x = ops.addmm(x, factor, x, beta=a)
    return x.T if tall else x


def adjust_lr(lr: float, method: str | None, shape: Any) -> float:
    """Return the learning rate for a matrix of this shape."""
    rows, columns = shape[:2]
    if method == "match_rms_adamw":
        return lr * 0.2 * math.sqrt(max(rows, columns))
    return lr * math.sqrt(max(1, rows / columns))


def update(group: dict[str, Any], param: Tensor, grad: Tensor, buffer: Tensor) -> None:
    """One step of Muon, in place."""
    lr, momentum = number(group["lr"]), group["momentum"]
    buffer.lerp_(grad, 1 - momentum)
    direction = grad.lerp(buffer, momentum) if group["nesterov"] else buffer
    direction = orthogonalize(direction, group["ns_coefficients"], group["ns_steps"], group["eps"])
    param.mul_(1 - lr * group["weight_decay"])
    param.add_(direction, alpha=-adjust_lr(lr, group["adjust_lr_fn"], param.shape))


class Muon(Optimizer):
    """Muon, an optimizer for the matrices of hidden layers (Jordan et al., 2024).

    Use another optimizer for biases, embeddings etc. `adjust_lr_fn` is "original" (None) or
    "match_rms_adamw" (Liu et al., 2025, arXiv:2502.16982). Raises ValueError for parameters that
    are not matrices and for options out of range.

    >>> net = torch.nn.Linear(4, 4, bias=False)
    >>> optimizer = torch.optim.Muon(net.parameters(), lr=0.1, weight_decay=0.0)
    >>> old = net.weight.detach().clone()
    >>> net(torch.randn(8, 4)).square().sum().backward()
    >>> optimizer.step()
    >>> values = torch.linalg.svdvals((old - net.weight.detach()) / 0.1)
    >>> bool((values > 0.5).all()), bool((values < 1.5).all())  # nearly orthogonal
    (True, True)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_single(lr)
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not momentum >= 0.0:
            raise ValueError(f"momentum should be >= 0 but is: {momentum}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight decay should be >= 0 but is: {weight_decay}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(params, {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        })
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with "
                        f"size: {p.size()}"
                    )

    @no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update every parameter with a gradient. Raises RuntimeError for complex parameters."""
        loss = self._flambeau_loss_of(closure)
        for group, param, grad in self._flambeau_real_dense():
            state = self.state[param]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = ops.zeros_like(grad)
            update(group, param, grad, state["momentum_buffer"])
        return loss
