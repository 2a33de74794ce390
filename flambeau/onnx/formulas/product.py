"""Formulas of products of matrices and vectors."""

from __future__ import annotations

from typing import Any

from ...tensor.tensor import Tensor
from ..formula_table import formula, torch


@formula("addmv")
def _addmv(x: Tensor, matrix: Tensor, vector: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    return _add(x, matrix @ vector, beta, alpha)


@formula("addbmm")
def _addbmm(x: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    return _add(x, (a @ b).sum(0), beta, alpha)


@formula("addr")
def _addr(x: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    return _add(x, a.unsqueeze(1) * b, beta, alpha)


def _add(x: Tensor, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    scaled = product if alpha == 1 else alpha * product
    return scaled + torch.zeros_like(x) if beta == 0 else (x if beta == 1 else beta * x) + scaled


@formula("outer", "ger")
def _outer(a: Tensor, b: Tensor) -> Tensor:
    return a.unsqueeze(1) * b


@formula("__rmatmul__")
def _rmatmul(x: Tensor, y: Tensor) -> Tensor:
    return y @ x


@formula("linalg_vecdot", "vecdot")
def _vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    return (x * y).sum(dim)


@formula("vdot")
def _vdot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum()


@formula("linalg_multi_dot")
def _multi_dot(tensors: Any) -> Tensor:
    product, *rest = tensors
    for factor in rest:
        product = product @ factor
    return product


@formula("cross", "linalg_cross")
def _cross(x: Tensor, y: Tensor, dim: int | None = None) -> Tensor:
    x, y = torch.broadcast_tensors(x, y)
    axis = next(d for d, n in enumerate(x.shape) if n == 3) if dim is None else dim
    (a, b, c), (d, e, f) = x.unbind(axis), y.unbind(axis)
    return torch.stack([b * f - c * e, c * d - a * f, a * e - b * d], axis)


@formula("bilinear")
def _bilinear(a: Tensor, b: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    y = torch.einsum("...i,kij,...j->...k", a, weight, b)
    return y if bias is None else y + bias


@formula("cdist")
def _cdist(a: Tensor, b: Tensor, p: float = 2.0, compute_mode: Any = None) -> Tensor:
    return torch.linalg.vector_norm(a.unsqueeze(-2) - b.unsqueeze(-3), p, -1)
