"""Pseudo-inverses, numerical rank and least squares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...tensor.tensor import Tensor
from ..core.autocast import Policy
from ..core.operator import Array
from ..core.out import write_result
from ..core.output_layout import Layout
from ..core.registry import composite, opaque
from ..core.return_types import return_type
from ..core.sample_inputs import Rng, Sample
from .declarations import linalg_function, mH
from .matrix_checks import check_matrix, get_kind_name, iterate_matrices
from .matrix_samples import rectangular_samples, well_conditioned

# ------------------------------------------------------------------------------ pseudo-inverses


def _compute_zero_threshold(
    largest: Array, atol: Any, rtol: Any, shape: tuple, kind: np.dtype
) -> Any:
    """Return the threshold up to which singular values count as zero: max(atol, rtol * largest)."""
    absolute = 0.0 if atol is None else atol
    if rtol is None:
        rtol = np.finfo(kind).eps * max(shape[-2:])
        # Without rtol, a positive atol alone decides.
        rtol = np.where(np.asarray(absolute) > 0, 0.0, rtol)
    return np.maximum(np.asarray(absolute), np.asarray(rtol) * largest)[..., None]


def _decompose(A: Array, hermitian: bool) -> tuple[Array, Array, Array]:
    """Return U, S, Vh with A = U diag(S) Vh; S may be negative if `hermitian`."""
    if not hermitian:
        return np.linalg.svd(A, full_matrices=False)
    L, V = np.linalg.eigh(A)
    return V, L, np.swapaxes(V, -1, -2).conj()


def _compute_singular_values(A: Array, hermitian: bool) -> Array:
    if hermitian:
        return np.abs(np.linalg.eigvalsh(A))
    values: Array = np.linalg.svd(A, compute_uv=False)
    return values


def _is_lapack_dtype(A: Array) -> bool:
    """Return whether LAPACK computes in the array's dtype: single or double, real or complex."""
    return A.dtype.kind in "fc" and A.real.dtype.itemsize >= 4


def _check_pinv(A: Array) -> None:
    if A.ndim < 2 or not _is_lapack_dtype(A):
        raise RuntimeError(
            f"linalg.pinv({get_kind_name(A)}{{{list(A.shape)}}}): expected a tensor with 2 or more "
            "dimensions of float, double, cfloat or cdouble types"
        )


@opaque(leading=2, name="_linalg_pinv", node="LinalgPinvBackward0", expose=(), holomorphic=False,
        samples=rectangular_samples, ref=lambda A: np.linalg.pinv(A))
def _pinv(
    A: Array, atol: float | None = None, rtol: float | None = None, hermitian: bool = False
) -> Array:
    """Return the pseudo-inverses of matrices."""
    _check_pinv(A)
    m, n = A.shape[-2:]
    if not A.size:
        return np.zeros((*A.shape[:-2], n, m), A.dtype)
    U, S, Vh = _decompose(A, hermitian)
    magnitudes = np.abs(S)
    threshold = _compute_zero_threshold(magnitudes.max(-1), atol, rtol, A.shape, S.dtype)
    with np.errstate(all="ignore"):
        inverse = np.where(magnitudes > threshold, 1 / S, 0).astype(S.dtype)
    return np.matmul(np.swapaxes(Vh, -1, -2).conj() * inverse[..., None, :],
                     np.swapaxes(U, -1, -2).conj())


@_pinv.vjp
def _(g: Tensor, A: Tensor, y: Tensor) -> Tensor:
    return compute_pinv_cotangent(g, y, A)


def compute_pinv_cotangent(g: Tensor, y: Tensor, A: Tensor) -> Tensor:
    """Return the cotangent of A, given that of its pseudo-inverse y, for constant rank.

    Golub and Pereyra, The Differentiation of Pseudo-Inverses and Nonlinear Least Squares Problems
    Whose Variables Separate, 1973, with products shared: those of the smaller shape.
    """
    yH, gH = mH(y), mH(g)
    if A.shape[-2] <= A.shape[-1]:
        K = gH @ y
        KyH = K @ yH
        return KyH - mH(y @ K) - (A @ y) @ KyH + (yH @ y) @ (gH - K @ A)
    K = y @ gH
    yHK = yH @ K
    return (gH - A @ K) @ y @ yH - mH(K @ y) + yHK - (yHK @ y) @ A


def _read_tolerance(x: Any) -> Any:
    """Return a tolerance, which may be a tensor, as a number or an array."""
    return x._array if isinstance(x, Tensor) else x


@linalg_function(autocast=Policy.FULL)
def pinv(
    A: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None,
    out: Any = None
) -> Tensor:
    """Compute the pseudo-inverse; singular values up to max(atol, rtol * largest) count as zero.

    >>> torch.linalg.pinv(torch.tensor([[2.], [0.]]))
    tensor([[0.5000, 0.0000]])
    """
    if rcond is not None:
        atol, rtol = 0.0, rcond
    return _pinv(A, _read_tolerance(atol), _read_tolerance(rtol), hermitian, out=out)


@composite(autocast=Policy.FULL)
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """Compute the pseudo-inverse; singular values up to rcond times the largest count as zero.

    >>> torch.pinverse(torch.tensor([[2., 0.], [0., 0.]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.0000]])
    """
    return _pinv(input, 0.0, rcond)


@opaque(leading=2,
        name="_matrix_rank", expose=(), differentiable=False, samples=rectangular_samples,
        ref=lambda A: np.linalg.matrix_rank(A))
def _matrix_rank(A: Array, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Array:
    """Return the number of singular values that do not count as zero."""
    check_matrix(A, "torch.linalg.matrix_rank", "input")
    if not _is_lapack_dtype(A):
        raise RuntimeError("This function doesn't handle types other than float and double")
    if not A.size:
        return np.zeros(A.shape[:-2], np.int64)
    S = _compute_singular_values(A, hermitian)
    threshold = _compute_zero_threshold(S.max(-1), atol, rtol, A.shape, S.dtype)
    return np.asarray((threshold < S).sum(-1), np.int64)


@linalg_function()
def matrix_rank(
    A: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None,
    out: Any = None
) -> Tensor:
    """Count the singular values above max(atol, rtol * largest).

    >>> torch.linalg.matrix_rank(torch.ones(2, 2))
    tensor(1)
    """
    if tol is not None:
        atol, rtol = tol, 0.0
    return _matrix_rank(A, _read_tolerance(atol), _read_tolerance(rtol), hermitian, out=out)


# -------------------------------------------------------------------------------- least squares


_RESULT = return_type("linalg_lstsq", "solution", "residuals", "rank", "singular_values")
_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def _check_least_squares(a: Array, b: Array, driver: str) -> bool:
    """Return whether `b` holds vectors. Raises RuntimeError for arguments that do not fit."""
    name = "torch.linalg.lstsq"
    if a.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if b.ndim < 1:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    if a.dtype != b.dtype:
        raise RuntimeError(f"{name}: Expected input and other to have the same dtype, but got "
                           f"input's dtype {get_kind_name(a)} and other's dtype {get_kind_name(b)}")
    if not 0 <= a.ndim - b.ndim <= 1:
        raise RuntimeError(f"{name}: input.dim() must be greater or equal to other.dim() and "
                           "(input.dim() - other.dim()) <= 1")
    if driver not in _DRIVERS:
        raise RuntimeError(f"{name}: parameter `driver` should be one of "
                           "(gels, gelsy, gelsd, gelss)")
    is_vector = a.ndim - 1 == b.ndim
    if a.shape[-2] != b.shape[-1 if is_vector else -2]:
        raise RuntimeError(f"{name}: input.size(-2) should match other.size("
                           f"{-1 if is_vector else -2})")
    return is_vector


def _least_squares_samples(rng: Rng) -> Iterator[Sample]:
    for a, b in (((4, 3), (4, 2)), ((2, 3, 2), (2, 3, 1)), ((2, 3), (2, 1))):
        yield (well_conditioned(rng, *a), rng.normal(size=b), None, "gelsd"), {}


@opaque(layout=Layout.COLUMNS,
        name="_linalg_lstsq", node="LinalgLstsqBackward0", expose=(), holomorphic=False,
        constant_outputs=(1, 2), samples=_least_squares_samples, ref=None)
def _lstsq(A: Array, B: Array, rcond: Any, driver: str) -> tuple[Array, Array, Array]:
    """Return least-squares solutions of smallest norm, ranks and singular values."""
    import scipy.linalg

    batch = np.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    A, B = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (A, B))
    n, k = A.shape[-1], min(A.shape[-2:])
    X = np.zeros((*batch, n, B.shape[-1]), A.dtype)
    rank, values = np.zeros(batch, np.int64), np.zeros((*batch, k), A.real.dtype)
    if not (A.size and B.size):
        return X, rank, values
    if rcond is None:
        rcond = float(np.finfo(A.dtype).eps) * max(A.shape[-2:])
    routine = "gelsd" if driver == "gels" else driver
    for index, a, b in iterate_matrices(A, B):
        X[index], _, rank[index], s = scipy.linalg.lstsq(
            a, b, cond=rcond, lapack_driver=routine, check_finite=False
        )
        if s is not None:
            values[index] = s
    return X, rank, values


@_lstsq.vjp
def _(gs: tuple[Tensor, None, None], A: Tensor, B: Tensor) -> tuple[Tensor | None, ...]:
    if gs[0] is None:
        return None, None
    inverse = _pinv(A)
    gA = compute_pinv_cotangent(gs[0] @ mH(B), inverse, A).sum_to_size(A.shape)
    return gA, (mH(inverse) @ gs[0]).sum_to_size(B.shape)


def _select_first_repeated(x: Tensor, batch: Sequence[int]) -> Tensor:
    """Undo broadcasting against B: keep one of each repeated result, for A's batch shape."""
    for axis, length in enumerate(batch):
        if length > x.shape[axis]:  # no right-hand sides: nothing was computed
            x = x.new_zeros((*x.shape[:axis], length, *x.shape[axis + 1 :]))
        elif length != x.shape[axis]:
            x = x.narrow(axis, 0, length)
    return x


@linalg_function()
def lstsq(
    A: Tensor, B: Tensor, rcond: Any = None, *, driver: Any = None, out: Any = None
) -> Any:
    """Find the X that minimizes |A X - B|.

    Also returns residuals, ranks and singular values; those the driver does not compute are empty.

    >>> torch.linalg.lstsq(torch.tensor([[1.], [0.]]), torch.tensor([[2.], [3.]])).solution
    tensor([[2.]])
    """
    driver = "gelsy" if driver is None else driver
    is_vector = _check_least_squares(A._array, B._array, driver)
    columns = B.unsqueeze(-1) if is_vector else B
    X, rank, values = _lstsq(A, columns, rcond, driver)
    m, n = A.shape[-2:]
    residuals = X.real.reshape(-1)[:0].clone()
    if m > n and (driver == "gels" or driver != "gelsy" and bool((rank == n).all())):
        residuals = (A @ X - columns).abs().square().sum(-2)
    rank, values = (_select_first_repeated(x, A.shape[:-2]) for x in (rank, values))
    if driver == "gels":
        rank = rank.new_empty((0,))
    if driver in ("gels", "gelsy"):
        values = values.new_empty((0,))
    result = _RESULT(X.squeeze(-1) if is_vector else X, residuals, rank, values)
    return result if out is None else write_result("linalg_lstsq", result, out)
