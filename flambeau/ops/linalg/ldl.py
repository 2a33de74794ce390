"""LDL factors of symmetric and Hermitian matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tensor.tensor import Tensor
from ..core.operator import Array
from ..core.out import write_out
from ..core.output_layout import Layout
from ..core.registry import opaque
from ..core.return_types import return_type
from ..core.value_rules import ONLY_RUNNING_TELLS
from .declarations import linalg_function
from .matrix_checks import (
    allocate_info, check_floats, check_kernel, check_matrix, check_square, get_kind_name,
    get_lapack_routine, iterate_matrices, raise_for_info,
)


@opaque(leading=2, layout=Layout.COLUMNS,
        name="_ldl_factor_ex", expose=(), node="NotImplemented", ref=None, samples=None,
        torch_kernel="linalg_ldl_factor_ex", values=ONLY_RUNNING_TELLS,
        result_type=return_type("linalg_ldl_factor_ex", "LD", "pivots", "info"))
def _ldl_factor_ex(
    A: Array, hermitian: bool, check_errors: bool = False, name: str = "torch.linalg.ldl_factor_ex"
) -> tuple[Array, Array, Array]:
    """L and D in one array, LAPACK's pivots, and where D is singular."""
    check_floats(A, "torch.linalg.ldl_factor_ex")
    check_square(A, "torch.linalg.ldl_factor_ex")
    check_kernel(A, "ldl_factor_kernel_cpu")
    LD, pivots, info = np.zeros(A.shape, A.dtype), np.zeros(A.shape[:-1],
                                                            np.int32), allocate_info(A)
    if A.size:
        factor = get_lapack_routine("hetrf" if hermitian and A.dtype.kind == "c" else "sytrf",
                                    A.dtype)
        for index, x in iterate_matrices(A):
            result, pivots[index], info[index] = factor(x, lower=1)
            LD[index] = np.tril(result)
    if check_errors:
        raise_for_info(info, name, lambda n: f"The diagonal element {n} of D is zero.",
                       RuntimeError)
    return LD, pivots, info


@linalg_function()
def ldl_factor_ex(
    A: Tensor, *, hermitian: bool = False, check_errors: bool = False, out: Any = None
) -> Any:
    """Compute A = L D L^T (L^H if hermitian): L and D in one array, pivots and `info`.

    >>> LD, pivots, info = torch.linalg.ldl_factor_ex(torch.tensor([[2., 1.], [1., 3.]]))
    >>> info
    tensor(0, dtype=torch.int32)
    """
    return _ldl_factor_ex(A, hermitian, check_errors, out=out)


_FACTOR = return_type("linalg_ldl_factor", "LD", "pivots")


@linalg_function()
def ldl_factor(A: Tensor, *, hermitian: bool = False, out: Any = None) -> Any:
    """Compute A = L D L^T (L^H if hermitian): L and D in one array, and LAPACK's pivots.

    >>> torch.linalg.ldl_factor(torch.tensor([[2., 1.], [1., 3.]])).LD
    tensor([[2.0000, 0.0000],
            [0.5000, 2.5000]])
    """
    LD, pivots, _ = _ldl_factor_ex(A, hermitian, True, "torch.linalg.ldl_factor")
    result = _FACTOR(LD, pivots)
    return result if out is None else write_out(_ldl_factor_ex.operator, result, out)


def _check_solve(LD: Array, pivots: Array, B: Array) -> None:
    name = "torch.linalg.ldl_solve"
    check_square(LD, name, "LD")
    check_matrix(B, name, "B")
    if B.ndim < 2:
        raise RuntimeError(f"{name}: Expected B to have at least 2 dimensions, but it has {B.ndim} "
                           "dimensions instead")
    if LD.shape[:-1] != pivots.shape:
        raise RuntimeError(f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but "
                           f"got pivots with shape {list(pivots.shape)} instead")
    if pivots.dtype.kind not in "iu":
        raise RuntimeError(f"{name}: Expected pivots to be integers. Got {get_kind_name(pivots)}")
    if LD.dtype != B.dtype:
        raise RuntimeError(
            f"{name}: LD dtype{get_kind_name(LD)} does not match b dtype{get_kind_name(B)}"
        )


@opaque(layout=Layout.COLUMNS,
        name="_ldl_solve", expose=(), node="NotImplemented", ref=None, samples=None,
        torch_kernel="linalg_ldl_solve")
def _ldl_solve(LD: Array, pivots: Array, B: Array, hermitian: bool) -> Array:
    """The X of A X = B for a factored A."""
    _check_solve(LD, pivots, B)
    batch = np.broadcast_shapes(LD.shape[:-2], B.shape[:-2])
    LD, B = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (LD, B))
    pivots = np.broadcast_to(pivots, (*batch, pivots.shape[-1]))
    y = np.empty(B.shape, B.dtype)
    if not y.size:
        return y
    conjugate = hermitian and LD.dtype.kind == "c"
    solve = get_lapack_routine("hetrs" if conjugate else "sytrs", LD.dtype)
    for index, a, p, b in iterate_matrices(LD, pivots[..., None], B):
        y[index] = solve(a, p[:, 0], b, lower=1)[0]
    return y


@linalg_function()
def ldl_solve(
    LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False, out: Any = None
) -> Tensor:
    """Solve A X = B for X, given the factors of A from ldl_factor.

    >>> LD, pivots = torch.linalg.ldl_factor(torch.tensor([[2., 0.], [0., 4.]]))
    >>> torch.linalg.ldl_solve(LD, pivots, torch.tensor([[2.], [8.]])).flatten()
    tensor([1., 2.])
    """
    return _ldl_solve(LD, pivots, B, hermitian, out=out)
