"""Formulas of activations. Those of composites follow from their bodies."""

from __future__ import annotations

from typing import Any

from ...tensor.tensor import Tensor
from ..formula_table import formula, torch


@formula("logsigmoid", "log_sigmoid")
def _log_sigmoid(x: Tensor) -> Tensor:
    return -torch.nn.functional.softplus(-x)


@formula("tanhshrink")
def _tanhshrink(x: Tensor) -> Tensor:
    return x - x.tanh()


@formula("softshrink")
def _softshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    zero = torch.zeros_like(x)
    return torch.where(x > lambd, x - lambd, torch.where(x < -lambd, x + lambd, zero))


@formula("hardshrink")
def _hardshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    return torch.where((x > lambd) | (x < -lambd), x, torch.zeros_like(x))


@formula("threshold")
def _threshold(x: Tensor, threshold: Any, value: Any, inplace: bool = False) -> Tensor:
    return torch.where(x > threshold, x, torch.full_like(x, value))


@formula("celu")
def _celu(x: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    return torch.where(x > 0, x, alpha * (x / alpha).expm1())


@formula("glu")
def _glu(x: Tensor, dim: int = -1) -> Tensor:
    first, second = x.chunk(2, dim)
    return first * second.sigmoid()


@formula("rrelu")
def _rrelu(x: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
           inplace: bool = False) -> Tensor:
    if training:
        raise NotImplementedError("rrelu in training: call model.eval() before the export")
    return torch.nn.functional.leaky_relu(x, (lower + upper) / 2)
