"""LU factorization with pivoting, solvers that use it, and determinants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...native.foundation.user_frames import warn_once
from ...native.target.eager_costs import MAX_COLUMNS_FACTORED_TOGETHER, MAX_MATRICES_FACTORED_SINGLY
from ...tensor.capture_marks import are_all_true, holds
from ...tensor.dtypes import dtype as Dtype, float32, float64
from ...tensor.tensor import Tensor
from ...tensor.windows.batch import get_elements
from ..core.autocast import Policy
from ..core.operator import Array
from ..core.out import write_out
from ..core.output_layout import Layout
from ..core.registry import composite, opaque
from ..core.return_types import return_type
from ..core.sample_inputs import Rng, Sample
from ..core.value_rules import ONLY_RUNNING_TELLS
from ..creation.creation import eye
from ..pointwise.selection import select
from ..reduction.reduce import multiply_others
from ..view.triangles import diag_embed, tril, triu
from .declarations import linalg_function, linalg_operator, mH, mT, to_dtype_of
from .matrix_checks import (
    allocate_info, check_floats, check_kernel, check_matrix, check_precision, check_square,
    get_kind_name, get_lapack_routine, iterate_matrices, raise_for_info,
)
from .matrix_samples import rectangular_samples, square_samples
from .small_matrices import eliminate_columns, exceeds_columns, factor_columns, swap_rows
from .solves import inv_ex, solve_triangular
from .svd import compute_svd


def factorize(A: Array) -> tuple[Array, Array, Array]:
    """Return L and U in one array, the row swaps (from 1) and the positions of zero pivots."""
    if (factors := factor_columns(A)) is not None:
        return factors
    k = min(A.shape[-2:])
    LU, pivots = np.empty(A.shape, A.dtype), np.zeros((*A.shape[:-2], k), np.int32)
    info = allocate_info(A)
    if not A.size:
        return LU, pivots, info
    factor = get_lapack_routine("getrf", A.dtype)
    for index, x in iterate_matrices(A):
        LU[index], swaps, info[index] = factor(x)
        pivots[index] = swaps + 1
        if info[index] and k <= MAX_COLUMNS_FACTORED_TOGETHER:
            # OpenBLAS sums the updates of a pivot first, and a nearly singular matrix then often
            # has a pivot of exactly zero. Programs rely on MKL's rounding, which leaves a small
            # one (kornia's homographies solve such a system for its null space).
            LU[index], pivots[index], info[index] = eliminate_columns(x)
    return LU, pivots, info


def expand_pivots(pivots: Array, m: int) -> Array:
    """Return row numbers that represent P in A = P L U: A[rows] = L U."""
    rows = np.broadcast_to(np.arange(m), (*pivots.shape[:-1], m)).copy()
    if exceeds_columns(pivots.shape[:-1], pivots.shape[-1]):
        for i in range(pivots.shape[-1]):
            swap_rows(rows[..., None], i, pivots[..., i] - 1)
        return rows
    for index in np.ndindex(*pivots.shape[:-1]):
        order = rows[index]
        for i, j in enumerate(pivots[index]):
            order[i], order[j - 1] = order[j - 1], order[i]
    return rows


def build_permutation_matrix(pivots: Array, m: int, kind: np.dtype) -> Array:
    """Return the matrices P with P L U = A."""
    return np.swapaxes(np.eye(m, dtype=kind)[expand_pivots(pivots, m)], -1, -2).copy()


def _pivot_samples(rng: Rng) -> Iterator[Sample]:
    yield (np.array([2, 3, 3], np.int32), 3, float64), {}
    yield (np.array([[1, 2], [4, 4]], np.int32), 4, float32), {}


@opaque(expose=(), samples=_pivot_samples, ref=None)
def _permutation_matrix(pivots: Array, m: int, dtype: Dtype) -> Array:
    """Return the matrices P with P L U = A, of m rows, for legal pivots."""
    return build_permutation_matrix(pivots, m, dtype.numpy)


def _are_rows(pivots: Tensor, m: int) -> bool:
    """Whether all pivots are rows from 1 to m."""
    return holds((pivots >= 1) & (pivots <= m), are_all_true)


def _check_rank(A: Array, name: str) -> None:
    if A.ndim < 2:
        raise RuntimeError(
            f"{name}: Expected tensor with 2 or more dimensions. Got size: {list(A.shape)} instead"
        )
    check_kernel(A, "lu_cpu")


def _require_pivots(pivot: bool) -> None:
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")


def _describe_zero_pivot(place: int) -> str:
    return (f"U[{place},{place}] is zero and using it on lu_solve would result in a division by "
            "zero. If you still want to perform the factorization, consider calling linalg.lu(A, "
            "pivot) or linalg.lu_factor_ex(A, pivot)")


# -------------------------------------------------------------------------------- derivative


def compute_lu_cotangent(gL: Tensor | None, gU: Tensor | None, P: Tensor, L: Tensor,
                         U: Tensor) -> Any:
    """Return the cotangent of A = P L U."""
    m, k, n = L.shape[-2], L.shape[-1], U.shape[-1]
    gL = L * 0 if gL is None else gL
    gU = U * 0 if gU is None else gU
    L1, U1 = L.narrow(-2, 0, k), U.narrow(-1, 0, k)
    left = tril(mH(L1) @ gL.narrow(-2, 0, k), -1)
    right = triu(gU.narrow(-1, 0, k) @ mH(U1))
    if n > k:  # wide: the columns after the square part
        rest = gU.narrow(-1, k, n - k)
        left = left - tril(rest @ mH(U.narrow(-1, k, n - k)), -1)
        beside = solve_triangular(mH(L1), rest, upper=True)
    if m > k:  # tall: the rows below the square part
        rest = gL.narrow(-2, k, m - k)
        right = right - triu(mH(L.narrow(-2, k, m - k)) @ rest)
        below = solve_triangular(mH(U1), rest, upper=False, left=False)
    inner = solve_triangular(mH(U1), left + right, upper=False, left=False)
    y = solve_triangular(mH(L1), inner, upper=True, unitriangular=True)
    if n > k:
        y = _join_parts([y, beside], -1)
    if m > k:
        y = _join_parts([y, below], -2)
    return P @ y


def _join_parts(parts: list[Tensor], dim: int) -> Tensor:
    from ..view.join import cat

    return cat(parts, dim)


# ----------------------------------------------------------------------------------- factors


def _reference(A: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    import scipy.linalg

    return tuple(scipy.linalg.lu(A))


@linalg_operator(result_type=return_type("linalg_lu", "P", "L", "U"), constant_outputs=(0,),
                 samples=rectangular_samples, ref=_reference)
def lu(A: Array, *, pivot: bool = True) -> tuple[Array, Array, Array]:
    """Factor A = P L U into a permutation and lower and upper triangular matrices.

    >>> torch.linalg.lu(torch.tensor([[1., 2.], [2., 4.]])).U
    tensor([[2., 4.],
            [0., 0.]])
    """
    _check_rank(A, "linalg.lu")
    _require_pivots(pivot)
    LU, pivots, _ = factorize(A)
    P = build_permutation_matrix(pivots, A.shape[-2], A.dtype)
    return (P, *_unpack_triangles(LU))


def _unpack_triangles(LU: Array) -> tuple[Array, Array]:
    k = min(LU.shape[-2:])
    L = np.tril(LU[..., :, :k], -1)
    L[..., range(k), range(k)] = 1
    return L, np.triu(LU[..., :k, :])


@lu.vjp
def _(gs: tuple[None, Tensor, Tensor], ys: tuple[Tensor, ...]) -> Tensor:
    return None if gs[1] is None and gs[2] is None else compute_lu_cotangent(gs[1], gs[2], *ys)


@opaque(leading=2, layout=Layout.COLUMNS,
        name="_lu_factor_ex", node="LinalgLuFactorExBackward0", expose=(), holomorphic=False,
        values=ONLY_RUNNING_TELLS,
        result_type=return_type("linalg_lu_factor_ex", "LU", "pivots", "info"),
        constant_outputs=(1, 2), samples=square_samples, ref=None)
def _lu_factor_ex(
    A: Array, pivot: bool = True, check_errors: bool = False,
    name: str = "torch.linalg.lu_factor_ex"
) -> tuple[Array, Array, Array]:
    """L and U in one array, row swaps, and the positions of zero pivots."""
    _check_rank(A, "torch.lu_factor")
    _require_pivots(pivot)
    LU, pivots, info = factorize(A)
    if check_errors:
        raise_for_info(info, name, _describe_zero_pivot, RuntimeError)
    return LU, pivots, info


@_lu_factor_ex.vjp
def _(gs: tuple[Tensor, None, None], ys: tuple[Tensor, ...]) -> Tensor:
    if gs[0] is None:
        return None
    k = min(gs[0].shape[-2:])
    P, L, U = lu_unpack(ys[0], ys[1])
    return compute_lu_cotangent(gs[0].narrow(-1, 0, k), gs[0].narrow(-2, 0, k), P, L, U)


@linalg_function()
def lu_factor_ex(
    A: Tensor, *, pivot: bool = True, check_errors: bool = False, out: Any = None
) -> Any:
    """Compute L and U in one array, the row swaps, and `info`: the places of zero pivots.

    >>> LU, pivots, info = torch.linalg.lu_factor_ex(torch.tensor([[1., 2.], [2., 4.]]))
    >>> info  # the second pivot is zero
    tensor(2, dtype=torch.int32)
    """
    return _lu_factor_ex(A, pivot, check_errors, out=out)


_FACTOR = return_type("linalg_lu_factor", "LU", "pivots")


@linalg_function()
def lu_factor(A: Tensor, *, pivot: bool = True, out: Any = None) -> Any:
    """Compute L and U in one array, and the row swaps, counted from 1.

    Raises RuntimeError for a zero pivot.

    >>> torch.linalg.lu_factor(torch.tensor([[1., 2.], [2., 6.]])).LU
    tensor([[ 2.0000,  6.0000],
            [ 0.5000, -1.0000]])
    """
    LU, pivots, _ = _lu_factor_ex(A, pivot, True, "torch.linalg.lu_factor")
    result = _FACTOR(LU, pivots)
    return result if out is None else write_out(_lu_factor_ex.operator, result, out)


_LU_DEPRECATED = (
    "torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex and "
    "will be removed in a future PyTorch release.\nLU, pivots = torch.lu(A, compute_pivots)\n"
    "should be replaced with\nLU, pivots = torch.linalg.lu_factor(A, compute_pivots)\nand\nLU, "
    "pivots, info = torch.lu(A, compute_pivots, get_infos=True)\nshould be replaced with\nLU, "
    "pivots, info = torch.linalg.lu_factor_ex(A, compute_pivots)"
)


@composite(name="lu")
def lu_legacy(
    A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None
) -> tuple[Tensor, ...]:
    """Compute L and U in one array, and the row swaps.

    With get_infos, also return the places of zero pivots.

    >>> packed, pivots = torch.lu(torch.tensor([[1., 2.], [3., 4.]]))
    >>> pivots  # row 1 was exchanged with row 2, counted from 1
    tensor([2, 2], dtype=torch.int32)
    """
    warn_once(_LU_DEPRECATED)
    LU, pivots, info = _lu_factor_ex(A, pivot, not get_infos, "torch.linalg.lu_factor")
    result = (LU, pivots, info) if get_infos else (LU, pivots)
    return result if out is None else write_out(_lu_factor_ex.operator, result, tuple(out))


_UNPACKED = return_type("lu_unpack", "P", "L", "U")


@composite(expose=("torch",), explains=True, node="LuUnpackBackward0")
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True, *,
    out: Tensor | Sequence[Tensor] | None = None
) -> Any:
    """Unpack the result of lu_factor into P, L and U; those not requested are empty.

    >>> torch.lu_unpack(*torch.linalg.lu_factor(torch.tensor([[1., 2.], [2., 6.]]))).P
    tensor([[0., 1.],
            [1., 0.]])
    """
    data, pivots = LU_data._array, LU_pivots._array
    check_matrix(data, "torch.lu_unpack", "LU_data")
    if unpack_pivots and pivots.dtype != np.int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 "
            "dtype.\nNote: this function is intended to be used with the output produced by "
            "torch.linalg.lu_factor"
        )
    m, n = data.shape[-2:]
    k = min(m, n)
    P = L = U = LU_data.new_empty((0,))
    if unpack_pivots:
        if not _are_rows(LU_pivots, m):
            raise RuntimeError("pivots passed to lu_unpack must be between 1 and LU.size(-2) "
                               "inclusive.Did you properly pass the result of lu_factor?")
        P = _permutation_matrix(LU_pivots, m, LU_data.dtype)
    if unpack_data:
        L = tril(LU_data.narrow(-1, 0, k), -1) + eye(m, k, dtype=LU_data.dtype)
        U = triu(LU_data.narrow(-2, 0, k))
    result = _UNPACKED(P, L, U)
    return result if out is None else write_out(_lu_factor_ex.operator, result, out)


# ------------------------------------------------------------------------------------ solves


def _check_solve(LU: Array, pivots: Array, B: Array, left: bool) -> None:
    name = "linalg.lu_solve"
    check_floats(LU, name)
    if LU.dtype != B.dtype:
        raise RuntimeError(f"linalg.lu_solve: Expected LU and B to have the same dtype, but found "
                           f"LU of type {get_kind_name(LU)} and B of type {get_kind_name(B)} "
                           "instead")
    if pivots.dtype != np.int32:
        raise RuntimeError("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32")
    check_square(LU, "torch.linalg.lu_solve", "LU")
    check_matrix(B, name, "B")
    if LU.shape[-2] != B.shape[-2 if left else -1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation "
            f"{'AX = B' if left else 'XA = B'} ({LU.shape[-2]}x{LU.shape[-1]} and "
            f"{B.shape[-2]}x{B.shape[-1]})"
        )
    if LU.shape[-1] != pivots.shape[-1]:
        raise RuntimeError(f"{name}: Number of pivots per batch should be same as the dimension of "
                           "the matrix")
    if LU.shape[:-2] != pivots.shape[:-1]:
        raise RuntimeError(f"{name}: Batch dimensions of LU doesn't match batch dimensions of "
                           "pivots")


@linalg_function()
def lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False,
    out: Tensor | None = None
) -> Tensor:
    """Solve A X = B (X A = B without `left`) for X, given the result of lu_factor.

    With `adjoint`, solve with A^H.

    Args:
        input: The right-hand sides, (..., n, k).

    >>> LU, pivots = torch.linalg.lu_factor(torch.tensor([[1., 2.], [3., 4.]]))
    >>> torch.linalg.lu_solve(LU, pivots, torch.tensor([[5.], [11.]])).flatten()
    tensor([1., 2.])
    """
    _check_solve(LU._array, pivots._array, B._array, left)
    if not _are_rows(pivots, LU.shape[-2]):
        too_large = bool((pivots <= LU.shape[-2]).all())
        limit = "greater or equal to 1" if too_large else "smaller or equal to LU.size(-2)"
        raise RuntimeError(f"Pivots given to lu_solve must all be {limit}. Did you properly pass "
                           "the result of lu_factor?")
    if not left:
        y = mH(_solve_factored(LU, pivots, mH(B), not adjoint))
    else:
        y = _solve_factored(LU, pivots, B, adjoint)
    return y if out is None else write_out(_lu_factor_ex.operator, y, out)


def _solve_factored(LU: Tensor, pivots: Tensor, B: Tensor, adjoint: bool) -> Tensor:
    P = _permutation_matrix(pivots, LU.shape[-2], LU.dtype)
    if adjoint:
        half = solve_triangular(mH(LU), B, upper=False)
        return P @ solve_triangular(mH(LU), half, upper=True, unitriangular=True)
    half = solve_triangular(LU, mT(P) @ B, upper=False, unitriangular=True)
    return solve_triangular(LU, half, upper=True)


@composite(autocast=Policy.FULL, name="lu_solve")
def lu_solve_legacy(
    input: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """Solve A X = input for X; the older form of linalg.lu_solve.

    >>> A = torch.tensor([[1., 2.], [3., 4.]])
    >>> torch.lu_solve(torch.tensor([[5.], [11.]]), *torch.linalg.lu_factor(A)).flatten()
    tensor([1., 2.])
    """
    warn_once(
        "torch.lu_solve is deprecated in favor of torch.linalg.lu_solveand will be removed in a "
        "future PyTorch release.\nNote that torch.linalg.lu_solve has its arguments reversed.\nX = "
        "torch.lu_solve(B, LU, pivots)\nshould be replaced with\nX = torch.linalg.lu_solve(LU, "
        "pivots, B)"
    )
    return lu_solve(LU_data, LU_pivots, input, out=out)


# ------------------------------------------------------------------------------ determinants


@linalg_operator(autocast=Policy.FULL, node="LinalgDetBackward0", samples=square_samples,
                 ref=np.linalg.det)
def det(A: Array) -> Array:
    """Compute determinants of square matrices.

    Args:
        A: Square matrices, (..., n, n).

    >>> torch.linalg.det(torch.tensor([[2., 1.], [0., 3.]]))
    tensor(6.)
    """
    check_floats(A, "linalg.det")
    check_square(A, "linalg.det")
    check_kernel(A, "lu_cpu")
    batch = A.shape[:-2]
    if not A.size or np.prod(batch) > MAX_MATRICES_FACTORED_SINGLY:
        computed = np.promote_types(A.dtype, np.float64)
        return np.asarray(np.linalg.det(A.astype(computed))).astype(A.dtype)
    LU, pivots, _ = factorize(A)
    swaps = (pivots != np.arange(1, A.shape[-1] + 1)).sum(-1)
    with np.errstate(all="ignore"):
        product = np.multiply.reduce(np.diagonal(LU, 0, -2, -1), -1)
    return np.where(swaps % 2, -product, product)


@det.vjp
def _(g: Tensor, A: Tensor, y: Tensor) -> Tensor:
    inverse, info = inv_ex(A)
    if not get_elements(info).any() and get_elements(y).all():
        return (g * y.conj()).unsqueeze(-1).unsqueeze(-1) * mH(inverse)
    U, S, Vh = compute_svd(A, True)
    turn = det(U).conj() * det(Vh).conj()
    scale = diag_embed(multiply_others(S, S.dim() - 1))
    return (g * turn).unsqueeze(-1).unsqueeze(-1) * (U @ to_dtype_of(scale, U) @ Vh)


@linalg_operator(result_type=return_type("linalg_slogdet", "sign", "logabsdet"),
                 samples=square_samples, ref=lambda A: tuple(np.linalg.slogdet(A)))
def slogdet(A: Array) -> tuple[Array, Array]:
    """Compute signs of determinants and logarithms of their absolute values.

    Args:
        A: Square matrices, (..., n, n).

    >>> torch.linalg.slogdet(torch.tensor([[-1.]])).sign
    tensor(-1.)
    """
    check_floats(A, "linalg.slogdet")
    check_square(A, "linalg.slogdet")
    check_precision(A, "linalg.slogdet")
    sign, size = np.linalg.slogdet(A)
    return np.asarray(sign), np.asarray(size)


@slogdet.vjp
def _(gs: tuple[Tensor, Tensor], ys: tuple[Tensor, ...], A: Tensor) -> Tensor:
    turn, size = gs
    sign = ys[0]
    scale = None if size is None else to_dtype_of(size, A)
    if turn is not None and A.is_complex():
        part = (turn.conj() * sign).imag * -1j
        scale = part if scale is None else scale + part
    if scale is None:
        return A * 0
    return scale.unsqueeze(-1).unsqueeze(-1) * mH(inv_ex(A)[0])


@composite(name="det")
def det_legacy(input: Tensor) -> Tensor:
    """Compute determinants of square matrices.

    Differentiable where the matrix is invertible.

    Args:
        input: Square matrices, (..., n, n).

    >>> torch.det(torch.tensor([[2., 1.], [0., 4.]]))
    tensor(8.)
    """
    return det(input)


_SLOGDET = return_type("slogdet", "sign", "logabsdet")


@composite(name="slogdet")
def slogdet_legacy(input: Tensor, *, out: Tensor | Sequence[Tensor] | None = None) -> Any:
    """Compute signs of determinants and logarithms of their absolute values.

    >>> torch.slogdet(torch.tensor([[1., 2.], [3., 4.]]))
    torch.return_types.slogdet(
    sign=tensor(-1.),
    logabsdet=tensor(0.6931))
    """
    result = _SLOGDET(slogdet(input))
    return result if out is None else write_out(slogdet.operator, result, out)


@composite(explains=True)
def logdet(input: Tensor) -> Tensor:
    """Compute logarithms of determinants; nan for negative determinants.

    Args:
        input: Square matrices, (..., n, n).

    >>> torch.logdet(torch.tensor([[1.]]))
    tensor(0.)
    """
    check_floats(input._array, "logdet")
    check_square(input._array, "logdet")
    sign, size = slogdet(input)
    if input.is_complex():
        return size + sign.log()
    return select(sign == -1, float("nan"), size)
