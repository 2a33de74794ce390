"""Derivatives of operators that choose elements along an axis, and say where those are."""

from __future__ import annotations

from typing import Any

from ...tensor.tensor import Tensor


def scatter_along_axis(g: Tensor, where: Tensor, shape: tuple[int, ...], dim: int,
                       keepdim: bool) -> Tensor:
    """Scatter a cotangent back to the indices that an operator chose along an axis."""
    if not shape:
        return g
    if not keepdim:
        g, where = g.unsqueeze(dim), where.unsqueeze(dim)
    return g.new_zeros(shape).scatter(dim, where, g)


def gather_along_axis(t: Any, where: Any, dim: Any, keepdim: Any) -> Any:
    """Gather the tangent at the indices that an operator chose along an axis."""
    if not t.dim():
        return t
    return t.gather(dim, where) if keepdim else t.gather(dim, where.unsqueeze(dim)).squeeze(dim)


def vjp_of_values(
    gs: tuple[Tensor, None], ys: tuple[Tensor, ...], input_shape: tuple[int, ...], dim: int,
    keepdim: bool
) -> Tensor:
    """The vjp of an operator with `keepdim` that returns (values, indices)."""
    return scatter_along_axis(gs[0], ys[1], input_shape, dim, keepdim)


def jvp_of_values(
    input_t: Tensor, ys: tuple[Tensor, ...], dim: int, keepdim: bool
) -> tuple[Tensor | None, ...]:
    """The jvp of an operator with `keepdim` that returns (values, indices)."""
    return gather_along_axis(input_t, ys[1], dim, keepdim), None
