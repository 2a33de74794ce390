"""Cholesky factors of positive-definite matrices, and what is solved with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...native.foundation.user_frames import warn_once
from ...tensor.meta import MetaArray
from ...tensor.tensor import Tensor
from ..core.autocast import Policy
from ..core.operator import Array
from ..core.out import write_out, write_result
from ..core.output_layout import Layout
from ..core.registry import composite, opaque
from ..core.return_types import return_type
from ..core.sample_inputs import Rng, Sample
from ..core.value_rules import ONLY_RUNNING_TELLS
from ..view.triangles import diag_embed, tril
from .declarations import linalg_function, mH
from .matrix_checks import (
    allocate_info, check_floats, check_kernel, check_matrix, check_square, get_kind_name,
    get_lapack_routine, iterate_matrices, raise_for_info,
)
from .matrix_samples import well_conditioned
from .solves import solve_triangular, solve_triangular_matrices


def _describe_failure(order: int) -> str:
    return ("The factorization could not be completed because the input is not positive-definite "
            f"(the leading minor of order {order} is not positive-definite).")


def _factor(A: Array) -> tuple[Array, Array]:
    """Lower factors, and for each matrix the order of the first minor that is not positive."""
    try:
        return np.linalg.cholesky(A), allocate_info(A)
    except np.linalg.LinAlgError:
        y, info = np.zeros(A.shape, A.dtype), allocate_info(A)
    factor = get_lapack_routine("potrf", A.dtype)
    for index, x in iterate_matrices(A):
        y[index], info[index] = factor(x, lower=1, clean=1)
    return y, info


@opaque(leading=2, layout=Layout.COLUMNS,
        name="_cholesky_ex", node="LinalgCholeskyExBackward0", expose=(), holomorphic=False,
        values=ONLY_RUNNING_TELLS,
        constant_outputs=(1,), result_type=return_type("linalg_cholesky_ex", "L", "info"),
        ref=lambda A: (np.linalg.cholesky(A), np.zeros(A.shape[:-2], np.int32)), samples=None)
def _cholesky_ex(
    A: Array, upper: bool = False, check_errors: bool = True, name: str = "linalg.cholesky"
) -> tuple[Array, Array]:
    """L with A = L L^H, or its conjugate transpose."""
    check_floats(A, "linalg.cholesky")
    check_square(A, "linalg.cholesky")
    check_kernel(A, "cholesky_cpu")
    if A.__class__ is MetaArray:
        return A.copy(), allocate_info(A)
    y, info = _factor(np.swapaxes(A, -1, -2).conj() if upper else A)
    if check_errors:
        raise_for_info(info, name, _describe_failure)
    return (np.swapaxes(y, -1, -2).conj() if upper else y), info


@_cholesky_ex.vjp
def _(gs: Tensor, ys: tuple[Tensor, ...], upper: bool) -> Tensor:
    if gs[0] is None:
        return None
    L, g = (mH(ys[0]), mH(gs[0])) if upper else (ys[0], gs[0])
    inner = tril(mH(L) @ g)
    inner = (inner + mH(inner) - diag_embed(inner.diagonal(0, -2, -1))) / 2
    half = solve_triangular(mH(L), inner, upper=True)
    return solve_triangular(L, half, upper=False, left=False)


@_cholesky_ex.jvp
def _(A_t: Tensor | None, ys: tuple[Tensor, ...], upper: bool) -> tuple[Tensor | None, None]:
    """dL = L P(L^-1 dA L^-H), P: the lower triangle with half of the diagonal (Murray, 2016)."""
    if A_t is None:
        return None, None
    L, tangent = (mH(ys[0]), mH(A_t)) if upper else (ys[0], A_t)
    inner = mH(solve_triangular(L, mH(solve_triangular(L, tangent, upper=False)), upper=False))
    half = tril(inner) - diag_embed(inner.diagonal(0, -2, -1)) / 2
    dL = L @ half
    return mH(dL) if upper else dL, None


@linalg_function()
def cholesky_ex(
    A: Tensor, *, upper: bool = False, check_errors: bool = False, out: Any = None
) -> Any:
    """Compute L with A = L L^H, and `info`: 0, or the order of the first non-positive minor.

    >>> L, info = torch.linalg.cholesky_ex(torch.tensor([[1., 2.], [2., 1.]]))
    >>> info
    tensor(2, dtype=torch.int32)
    """
    return _cholesky_ex(A, upper, check_errors, "linalg.cholesky_ex", out=out)


def _write_result(y: Tensor, out: Tensor | None) -> Tensor:
    return y if out is None else write_out(_cholesky_ex.operator, y, out)


@linalg_function(autocast=Policy.FULL)
def cholesky(A: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:
    """Compute the Cholesky factor: L with A = L L^H, or U with A = U^H U if `upper`.

    Raises LinAlgError if A is not positive-definite.

    >>> torch.linalg.cholesky(torch.tensor([[4., 2.], [2., 5.]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    return _write_result(_cholesky_ex(A, upper)[0], out)


_DEPRECATED = (
    "torch.cholesky is deprecated in favor of torch.linalg.cholesky and will be removed in a "
    "future PyTorch release.\nL = torch.cholesky(A)\nshould be replaced with\nL = "
    "torch.linalg.cholesky(A)\nand\nU = torch.cholesky(A, upper=True)\nshould be replaced "
    "with\nU = torch.linalg.cholesky(A).mH\nThis transform will produce equivalent results for "
    "all valid (symmetric positive definite) inputs."
)


@composite(autocast=Policy.FULL, name="cholesky")
def cholesky_legacy(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Compute L with input = L L^H; the older name of linalg.cholesky.

    >>> torch.cholesky(torch.tensor([[4., 2.], [2., 5.]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    warn_once(_DEPRECATED)
    y = _cholesky_ex(input, upper, True, "cholesky")[0]
    return y if out is None else write_result("cholesky", y, out)


# ------------------------------------------------------------------------------------ solves


def _check_factor(B: Array, L: Array) -> None:
    check_matrix(B, "cholesky_solve", "b")
    check_square(L, "cholesky_solve", "A")
    if B.dtype != L.dtype:
        raise RuntimeError(
            "Expected b and A to have the same dtype, but found b of type "
            f"{get_kind_name(B)} and A of type {get_kind_name(L)} instead."
        )
    if B.shape[-2] != L.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for cholesky_solve: each A matrix is {L.shape[-2]} by "
            f"{L.shape[-1]} but each b matrix is {B.shape[-2]} by {B.shape[-1]}"
        )


def _factor_samples(rng: Rng) -> Iterator[Sample]:
    for a, b in (((3, 3), (3, 2)), ((2, 2, 2), (2, 2, 1))):
        yield (rng.normal(size=b), np.tril(well_conditioned(rng, *a))), {}


@opaque(leading=2, autocast=Policy.FULL,
        layout=Layout.COLUMNS, name="cholesky_solve", samples=_factor_samples, holomorphic=False,
        ref=lambda B, L: np.linalg.solve(L @ np.swapaxes(L, -1, -2), B))
def cholesky_solve(input: Array, L: Array, upper: bool = False) -> Array:
    """Solve A X = input for X, given the Cholesky factor L of A.

    Args:
        input: The right-hand sides, (..., n, k).

    >>> torch.cholesky_solve(torch.tensor([[8.]]), torch.tensor([[2.]]))
    tensor([[2.]])
    """
    _check_factor(input, L)
    check_kernel(input, "cholesky_solve_cpu")
    adjoint = np.swapaxes(L, -1, -2).conj()
    if upper:
        return solve_triangular_matrices(L, solve_triangular_matrices(adjoint, input, False), True)
    return solve_triangular_matrices(adjoint, solve_triangular_matrices(L, input, False), True)


@cholesky_solve.vjp
def _(
    g: Tensor, y: Tensor, L: Tensor, input_shape: tuple[int, ...], upper: bool,
    needs: tuple[bool, ...]
) -> tuple[Tensor | None, ...]:
    gB = cholesky_solve(g, L, upper)
    gL = None
    if needs[1]:
        both = gB @ mH(y)
        both = both + mH(both)
        gL = -(L @ both) if upper else -(both @ L)
        gL = gL.sum_to_size(L.shape)
    return (gB.sum_to_size(input_shape) if needs[0] else None), gL


def _factors(rng: Rng) -> Iterator[Sample]:
    for shape in ((3, 3), (2, 2, 2)):
        yield (np.tril(well_conditioned(rng, *shape)),), {}


@opaque(leading=2, autocast=Policy.FULL,
        layout=Layout.COLUMNS, name="cholesky_inverse", samples=_factors, holomorphic=False,
        ref=lambda L: np.linalg.inv(L @ np.swapaxes(L, -1, -2)))
def cholesky_inverse(L: Array, upper: bool = False) -> Array:
    """Return the inverse of A, given its Cholesky factor L.

    >>> torch.cholesky_inverse(torch.tensor([[2.]]))
    tensor([[0.2500]])
    """
    check_square(L, "cholesky_inverse")
    check_kernel(L, "cholesky_inverse_out_cpu")
    eye = np.eye(L.shape[-1], dtype=L.dtype)
    half = solve_triangular_matrices(np.swapaxes(L, -1, -2) if upper else L, eye, False)
    if upper:
        half = half.conj()
    return np.matmul(np.swapaxes(half, -1, -2).conj(), half)


@cholesky_inverse.vjp
def _(g: Tensor, y: Tensor, L: Tensor, upper: bool) -> Tensor:
    both = y @ (g + mH(g)) @ y
    return -(L @ both) if upper else -(both @ L)
