"""Linear equations with square matrices: inv, solve, solve_triangular."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...native.foundation.user_frames import warn_once
from ...tensor.tensor import Tensor
from ..core.autocast import Policy
from ..core.operator import Array
from ..core.out import write_out, write_result
from ..core.output_layout import Layout
from ..core.registry import composite, opaque
from ..core.return_types import get_written_type, return_type
from ..core.sample_inputs import Rng, Sample
from ..core.value_rules import ONLY_RUNNING_TELLS
from ..view.triangles import tril, triu
from .declarations import linalg_function, mH, mT
from .matrix_checks import (
    allocate_info, check_floats, check_kernel, check_matrix, check_precision, check_square,
    get_kind_name, get_lapack_routine, iterate_matrices, raise_for_info,
)
from .matrix_samples import square_samples, well_conditioned
from .small_matrices import eliminate_columns, exceeds_columns, solve_halves, swap_rows

# ------------------------------------------------------------------------------------ inverses


def _solve_by_columns(A: Array, B: Array) -> tuple[Array, Array]:
    """Solve A X = B where LAPACK met a pivot of zero: see `factorize`, whose rule this is.

    The second result has the place, from 1, of the first zero on each U's diagonal, 0 for none;
    the solutions of those with one are NaN.
    """
    LU, pivots, info = eliminate_columns(A)
    batch = np.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    LU = np.broadcast_to(LU, (*batch, *A.shape[-2:]))
    X = np.broadcast_to(B, (*batch, *B.shape[-2:])).copy()
    for i in range(A.shape[-1]):
        swap_rows(X, i, np.broadcast_to(pivots[..., i] - 1, batch))
    with np.errstate(all="ignore"):
        X = solve_halves(LU, solve_halves(LU, X, True, True), False, False)
    X[np.broadcast_to(info != 0, batch)] = np.nan
    return X, info


@opaque(leading=2, layout=Layout.COLUMNS,
        name="_linalg_inv_ex", node="LinalgInvExBackward0", expose=(), holomorphic=False,
        values=ONLY_RUNNING_TELLS,
        samples=square_samples, constant_outputs=(1,),
        result_type=return_type("linalg_inv_ex", "inverse", "info"),
        ref=lambda A: (np.linalg.inv(A), np.zeros(A.shape[:-2], np.int32)))
def _inv_ex(
    A: Array, name: str = "linalg.inv_ex", check_errors: bool = True
) -> tuple[Array, Array]:
    """Inverses, and where matrices were singular."""
    check_floats(A, "linalg.inv")
    check_square(A, "linalg.inv")
    check_precision(A, "linalg.inv")
    try:
        return np.linalg.inv(A), allocate_info(A)
    except np.linalg.LinAlgError:
        y, info = _solve_by_columns(A, np.eye(A.shape[-1], dtype=A.dtype))
    if check_errors:
        raise_for_info(info, name, _describe_singular)
    return y, info


def _describe_singular(place: int) -> str:
    return (f"The diagonal element {place} is zero, the inversion could not be completed because "
            "the input matrix is singular.")


@_inv_ex.vjp
def _(gs: tuple[Tensor, None], ys: tuple[Tensor, ...]) -> Tensor:
    inverse = mH(ys[0])
    return None if gs[0] is None else -(inverse @ gs[0] @ inverse)


@_inv_ex.jvp
def _(A_t: Tensor | None, ys: tuple[Tensor, ...]) -> tuple[Tensor | None, None]:
    return (None if A_t is None else -(ys[0] @ A_t @ ys[0])), None


@linalg_function()
def inv_ex(A: Tensor, *, check_errors: bool = False, out: Any = None) -> Any:
    """Invert matrices; `info` is 0, or the position of the zero pivot of a singular matrix.

    >>> torch.linalg.inv_ex(torch.tensor([[2.]])).inverse
    tensor([[0.5000]])
    """
    return _inv_ex(A, "linalg.inv_ex", check_errors, out=out)


@linalg_function("inverse", autocast=Policy.FULL)
def inv(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Invert square matrices; raise LinAlgError if one is singular.

    >>> torch.linalg.inv(torch.tensor([[2., 0.], [0., 4.]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    y = _inv_ex(A, "linalg.inv")[0]
    return y if out is None else _place(y, out)


def _place(y: Tensor, out: Tensor) -> Tensor:
    """A result written to `out`, of any shape."""
    return write_out(_inv_ex.operator, y, out)


# -------------------------------------------------------------------------------------- solve


def is_vector(A_shape: tuple, B_shape: tuple) -> bool:
    """Return whether B holds vectors: it has one axis, or the shape of A without its last axis."""
    return len(B_shape) == 1 or (
        len(A_shape) - 1 == len(B_shape) and tuple(B_shape) == tuple(A_shape[:-1])
    )


def check_equation(A: Array, B: Array, name: str, left: bool, matrix: tuple[int, int]) -> None:
    """Raise RuntimeError if A and B do not fit AX = B, or XA = B; `matrix`: B's last two axes."""
    if A.dtype != B.dtype:
        raise RuntimeError(
            f"{name}: Expected A and B to have the same dtype, but found A of type "
            f"{get_kind_name(A)} and B of type {get_kind_name(B)} instead"
        )
    if A.shape[-2] != (matrix[0] if left else matrix[1]):
        equation = "AX = B" if left else "XA = B"
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {equation} "
            f"({A.shape[-2]}x{A.shape[-1]} and {matrix[0]}x{matrix[1]})"
        )


def _equations(rng: Rng) -> Iterator[Sample]:
    for a, b in (((3, 3), (3, 2)), ((2, 2, 2), (2, 2)), ((3, 3), (3,)), ((2, 3, 3), (1, 3, 2))):
        yield (well_conditioned(rng, *a), rng.normal(size=b)), {}


def _solve_reference(A: np.ndarray, B: np.ndarray, left: bool = True) -> np.ndarray:
    vector = is_vector(A.shape, B.shape)
    y = np.matmul(np.linalg.inv(A), B[..., None] if vector else B)
    return y[..., 0] if vector else y


@opaque(leading=2, layout=Layout.COLUMNS,
        name="_linalg_solve", node="LinalgSolveExBackward0", expose=(), holomorphic=False,
        values=ONLY_RUNNING_TELLS,
        result_type=return_type("linalg_solve_ex", "result", "info"), constant_outputs=(1,),
        samples=_equations,
        ref=lambda A, B: (_solve_reference(A, B), np.zeros(A.shape[:-2], np.int32)))
def _solve(
    A: Array, B: Array, left: bool = True, check_errors: bool = True, name: str = "linalg.solve"
) -> tuple[Array, Array]:
    """The X of A X = B, or of X A = B."""
    check_floats(A, "linalg.solve")
    check_square(A, "linalg.solve")
    check_precision(A, "linalg.solve")
    vector = is_vector(A.shape, B.shape)
    if not vector:
        check_matrix(B, "linalg.solve", "B")
    right = B[..., None] if vector else B
    check_equation(A, right, "linalg.solve", left, right.shape[-2:])
    if vector and not left:
        raise RuntimeError("linalg.solve: Vector broadcasting of the left hand side is not "
                           "supported for left=False. In this case linalg.solve is equivalent to B "
                           "/ A.squeeze(-1)")
    y, info = _solve_system(A, right, left)
    if check_errors:
        raise_for_info(info, f"torch.{name}",
                       lambda _: "The solver failed because the input matrix is singular.")
    return (y[..., 0] if vector else y), info


def _solve_system(A: Array, B: Array, left: bool) -> tuple[Array, Array]:
    if not left:
        y, info = _solve_system(np.swapaxes(A, -1, -2), np.swapaxes(B, -1, -2), True)
        return np.swapaxes(y, -1, -2), info
    try:
        return np.linalg.solve(A, B), allocate_info(A)
    except np.linalg.LinAlgError:
        return _solve_by_columns(A, B)


@_solve.vjp
def _(
    gs: tuple[Tensor, None], ys: tuple[Tensor, ...], A: Tensor, B_shape: tuple[int, ...],
    left: bool, needs: tuple[bool, ...]
) -> tuple[Tensor | None, ...]:
    g, X = gs[0], ys[0]
    if g is None:
        return None, None
    vector = is_vector(A.shape, B_shape)
    if vector:
        g, X = g.unsqueeze(-1), X.unsqueeze(-1)
    gB = _solve(mH(A), g, left)[0]
    gA = None
    if needs[0]:
        gA = -(gB @ mH(X) if left else mH(X) @ gB)
        gA = gA.sum_to_size(A.shape)
    if vector:
        gB = gB.squeeze(-1)
    return gA, gB.sum_to_size(B_shape) if needs[1] else None


@_solve.jvp
def _(
    A_t: Tensor | None, B_t: Tensor | None, ys: tuple[Tensor, ...], A: Tensor,
    B_shape: tuple[int, ...], left: bool
) -> tuple[Tensor | None, None]:
    """dX of A X = B: the solution of A dX = dB - dA X."""
    right = B_t
    if A_t is not None:
        X = ys[0].unsqueeze(-1) if is_vector(A.shape, B_shape) else ys[0]
        part = (A_t @ X if left else X @ A_t).reshape(ys[0].shape)
        right = -part if B_t is None else B_t - part
    return (None if right is None else _solve(A, right, left)[0]), None


def solve_matrix(A: Tensor, B: Tensor, left: bool = True) -> Tensor:
    """Solve A X = B for matrices B, for use in derivatives."""
    return _solve(A, B, left)[0]


@linalg_function()
def solve_ex(
    A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False, out: Any = None
) -> Any:
    """Solve A X = B; `info` is 0, or the position of the zero pivot of a singular matrix.

    >>> x, info = torch.linalg.solve_ex(torch.eye(2) * 2, torch.tensor([4., 6.]))
    >>> x, info
    (tensor([2., 3.]), tensor(0, dtype=torch.int32))
    """
    return _solve(A, B, left, check_errors, "linalg.solve_ex", out=out)


@linalg_function(autocast=Policy.FULL)
def solve(A: Tensor, B: Tensor, *, left: bool = True, out: Any = None) -> Tensor:
    """Solve A X = B for X, or X A = B without `left`; raise LinAlgError if A is singular.

    >>> torch.linalg.solve(torch.tensor([[2., 0.], [0., 4.]]), torch.tensor([2., 2.]))
    tensor([1.0000, 0.5000])
    """
    y = _solve(A, B, left)[0]
    return y if out is None else _place(y, out)


# ---------------------------------------------------------------------------------- triangular


def _triangular_samples(rng: Rng) -> Iterator[Sample]:
    for a, b in (((3, 3), (3, 2)), ((2, 2, 2), (2, 2, 1))):
        yield (well_conditioned(rng, *a), rng.normal(size=b)), {"upper": True}
        yield (well_conditioned(rng, *a), rng.normal(size=b)), {"upper": False}


def solve_triangular_matrices(A: Array, B: Array, upper: bool, unit: bool = False,
                              trans: int = 0) -> Array:
    """Solve op(A) X = B for triangular matrices of the same batch shape."""
    if A.ndim == B.ndim == 2 and A.size and B.size:
        x, _ = get_lapack_routine("trtrs", A.dtype)(A, B, lower=not upper, unitdiag=unit,
                                                    trans=trans)
        return np.ascontiguousarray(x)
    batch = np.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    A = np.broadcast_to(A, (*batch, *A.shape[-2:]))
    B = np.broadcast_to(B, (*batch, *B.shape[-2:]))
    if A.size and B.size and exceeds_columns(batch, A.shape[-1]):
        if trans:
            A, upper = np.swapaxes(A, -1, -2), not upper
        with np.errstate(all="ignore"):
            return solve_halves(A.conj() if trans == 2 else A, B, not upper, unit)
    y = np.empty(B.shape, B.dtype)
    if y.size:
        solve_one = get_lapack_routine("trtrs", A.dtype)
        for index, a, b in iterate_matrices(A, B):
            y[index] = solve_one(a, b, lower=not upper, unitdiag=unit, trans=trans)[0]
    return y


@opaque(leading=2, layout=Layout.COLUMNS,
        name="_linalg_solve_triangular", node="LinalgSolveTriangularBackward0", expose=(),
        samples=_triangular_samples, ref=lambda A, B, upper: np.linalg.solve(
            np.triu(A) if upper else np.tril(A), B), holomorphic=False)
def _solve_triangular(
    A: Array, B: Array, upper: bool, left: bool = True, unitriangular: bool = False
) -> Array:
    """The X of A X = B for triangular A."""
    name = "linalg.solve_triangular"
    check_square(A, name)
    check_matrix(B, name, "B")
    check_equation(A, B, name, left, B.shape[-2:])
    check_kernel(A, "triangular_solve_cpu")
    if left:
        return _check_triangular(A, B, upper, unitriangular)
    y = _check_triangular(np.swapaxes(A, -1, -2), np.swapaxes(B, -1, -2), not upper,
                          unitriangular)
    return np.swapaxes(y, -1, -2)


def _check_triangular(A: Array, B: Array, upper: bool, unit: bool) -> Array:
    with np.errstate(all="ignore"):
        y = solve_triangular_matrices(A, B, upper, unit)
    diagonal = np.diagonal(A, 0, -2, -1)
    if unit or diagonal.all():
        return y
    # LAPACK stops at a zero pivot; PyTorch divides by it.
    is_singular = np.broadcast_to(~diagonal.all(-1), y.shape[:-2])
    left, right = (np.broadcast_to(x, (*y.shape[:-2], *x.shape[-2:]))[is_singular] for x in (A, B))
    with np.errstate(all="ignore"):
        y[is_singular] = solve_halves(left, right, not upper, unit)
    return y


@_solve_triangular.vjp
def _(
    g: Tensor, A: Tensor, B_shape: tuple[int, ...], y: Tensor, upper: bool, left: bool,
    unitriangular: bool, needs: tuple[bool, ...]
) -> tuple[Tensor | None, ...]:
    gB = _solve_triangular(mH(A), g, not upper, left, unitriangular)
    gA = None
    if needs[0]:
        gA = -(gB @ mH(y) if left else mH(y) @ gB)
        k = 1 if unitriangular else 0
        gA = (triu(gA, k) if upper else tril(gA, -k)).sum_to_size(A.shape)
    return gA, gB.sum_to_size(B_shape) if needs[1] else None


@linalg_function()
def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False,
    out: Any = None
) -> Tensor:
    """Solve A X = B for X with triangular A, or X A = B without `left`.

    Args:
        A: Triangular matrices, (..., n, n); the other triangle is not read.
        B: The right sides, which are cast to the dtype of A.
        upper: Whether A is upper triangular.

    >>> A = torch.tensor([[2., 1.], [0., 4.]])
    >>> torch.linalg.solve_triangular(A, torch.tensor([[4.], [8.]]), upper=True)
    tensor([[1.],
            [2.]])
    """
    if B.dtype is not A.dtype:
        B = B.to(A.dtype)
    y = _solve_triangular(A, B, upper, left, unitriangular)
    return y if out is None else write_result("linalg_solve_triangular", y, out)


_DEPRECATED = (
    "torch.triangular_solve is deprecated in favor of torch.linalg.solve_triangularand will be "
    "removed in a future PyTorch release.\ntorch.linalg.solve_triangular has its arguments "
    "reversed and does not return a copy of one of the inputs.\nX = torch.triangular_solve(B, "
    "A).solution\nshould be replaced with\nX = torch.linalg.solve_triangular(A, B)."
)
_TRIANGULAR = return_type("triangular_solve", "solution", "cloned_coefficient")


@composite(explains=True, node="TriangularSolveBackward0")
def triangular_solve(
    input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False,
    unitriangular: bool = False, *, out: Tensor | Sequence[Tensor] | None = None
) -> Any:
    """Solve A X = input for X with triangular A, and return X and A.

    The older form of linalg.solve_triangular.

    Args:
        A: Triangular matrices, (..., n, n); the other triangle is not read.
        upper: Whether A is upper triangular.

    >>> A = torch.tensor([[2., 1.], [0., 4.]])
    >>> torch.triangular_solve(torch.tensor([[4.], [8.]]), A).solution.flatten()
    tensor([1., 2.])
    """
    warn_once(_DEPRECATED)
    check_square(A._array, "triangular_solve")
    check_matrix(input._array, "triangular_solve", "b")
    if A.dtype is not input.dtype:
        raise RuntimeError(
            "Expected b and A to have the same dtype, but found b of type "
            f"{get_kind_name(input._array)} and A of type {get_kind_name(A._array)} instead.")
    check_equation(A._array, input._array, "triangular_solve", True, input.shape[-2:])
    batch = np.broadcast_shapes(A.shape[:-2], input.shape[:-2])
    expanded = A.expand((*batch, *A.shape[-2:]))
    used = mT(expanded) if transpose else expanded
    x = _solve_triangular(used, input, upper != transpose, True, unitriangular)
    result = x, expanded.clone()
    if out is not None:
        for target, y in zip(out, result, strict=True):
            _place(y, target)
        return get_written_type(_TRIANGULAR)(*out)
    return _TRIANGULAR(*result)
