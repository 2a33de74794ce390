"""Eigenvalues and eigenvectors: eig for any square matrix, eigh for symmetric and Hermitian."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...autograd.tangents import LEVELS
from ...tensor.meta import MetaArray
from ...tensor.tensor import Tensor
from ..core.autocast import Policy
from ..core.operator import Array
from ..core.out import write_result
from ..core.output_layout import Layout
from ..core.registry import opaque
from ..core.return_types import return_type
from ..core.sample_inputs import Rng, Sample
from ..view.triangles import diag_embed
from .declarations import linalg_function, mH, to_dtype_of
from .matrix_checks import (
    LinAlgError, check_kernel, check_phase, check_square, get_kind_name,
)
from .matrix_samples import positive_definite, square_samples
from .solves import solve_matrix


def _compute_gaps(L: Tensor) -> Tensor:
    """L_j - L_i, ones on the diagonal."""
    return L.unsqueeze(-2) - L.unsqueeze(-1) + diag_embed(L.new_ones(L.shape[-1]))


def _check_phase(turned: Tensor, name: str) -> None:
    """Raise RuntimeError if a loss changes with the phase of complex eigenvectors."""
    if turned.is_complex():
        check_phase(turned.diagonal(0, -2, -1).imag._array, (
            f"{name}: The eigenvectors in the complex case are specified up to multiplication by "
            "e^{i phi}. The specified loss function depends on this quantity, so it is "
            "ill-defined."))


# --------------------------------------------------------------------------------- symmetric


def _check_triangle(UPLO: str) -> str:
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO.upper()


def _symmetric_samples(rng: Rng) -> Iterator[Sample]:
    for shape in ((3, 3), (2, 2, 2)):
        yield (positive_definite(rng, *shape),), {}


def _check_symmetric(A: Array, UPLO: str) -> str:
    check_square(A, "linalg.eigh")
    check_kernel(A, "linalg_eigh_cpu")
    return _check_triangle(UPLO)


def _fill_with_nan(A: Array) -> tuple[Array, Array]:
    L = np.full(A.shape[:-1], np.nan, A.real.dtype)
    return L, np.full(A.shape, np.nan, A.dtype)


@opaque(leading=2, layout=Layout.COLUMNS,
        name="_linalg_eigh", node="LinalgEighBackward0", expose=(), holomorphic=False,
        result_type=return_type("linalg_eigh", "eigenvalues", "eigenvectors"),
        ref=lambda A: np.linalg.eigh(A), samples=None)
def _eigh(A: Array, UPLO: str = "L") -> tuple[Array, Array]:
    """Eigenvalues in ascending order and orthonormal eigenvectors."""
    part: Any = _check_symmetric(A, UPLO)
    if not A.size:
        return np.zeros(A.shape[:-1], A.real.dtype), np.zeros(A.shape, A.dtype)
    try:
        L, V = np.linalg.eigh(A, part)
        return L, V
    except np.linalg.LinAlgError:
        if not np.isfinite(A).all():
            return _fill_with_nan(A)
        raise LinAlgError("linalg.eigh: The algorithm failed to converge because the input matrix "
                          "is ill-conditioned or has too many repeated eigenvalues.") from None


@_eigh.vjp
def _(gs: Tensor, ys: tuple[Tensor, ...]) -> Tensor:
    (gL, gV), (L, V) = gs, ys
    if gV is None:
        return None if gL is None else (V * to_dtype_of(gL, V).unsqueeze(-2)) @ mH(V)
    turned = mH(V) @ gV
    _check_phase(turned, "linalg_eigh_backward")
    # V stays unitary, so only a skew-Hermitian part counts, and the cotangent is Hermitian.
    inner = (turned - mH(turned)) / (2 * _compute_gaps(L))
    inner = inner - diag_embed(inner.diagonal(0, -2, -1))
    if gL is not None:
        inner = inner + diag_embed(to_dtype_of(gL, V))
    return V @ (inner @ mH(V))


@linalg_function(autocast=Policy.FULL)
def eigh(A: Tensor, UPLO: str = "L", *, out: Any = None) -> Any:
    """Compute eigenvalues (ascending) and eigenvectors of symmetric or Hermitian matrices.

    Only the triangle UPLO, 'L' or 'U', is read.

    >>> torch.linalg.eigh(torch.tensor([[2., 0.], [0., 1.]])).eigenvalues
    tensor([1., 2.])
    """
    return _eigh(A, UPLO, out=out)


@opaque(leading=2,
        name="_linalg_eigvalsh", expose=(), differentiable=False, samples=_symmetric_samples,
        ref=lambda A: np.linalg.eigvalsh(A))
def _eigvalsh(A: Array, UPLO: str = "L") -> Array:
    """The eigenvalues alone."""
    part: Any = _check_symmetric(A, UPLO)
    if not A.size:
        return np.zeros(A.shape[:-1], A.real.dtype)
    try:
        return np.linalg.eigvalsh(A, part)
    except np.linalg.LinAlgError:
        return _fill_with_nan(A)[0]


@linalg_function()
def eigvalsh(A: Tensor, UPLO: str = "L", *, out: Any = None) -> Tensor:
    """Compute eigenvalues (ascending) of symmetric or Hermitian matrices.

    >>> torch.linalg.eigvalsh(torch.tensor([[2., 0.], [0., 1.]]))
    tensor([1., 2.])
    """
    if not A._tracked and not LEVELS.active:
        return _eigvalsh(A, UPLO, out=out)
    y = _eigh(A, UPLO)[0]
    return y if out is None else write_result("eigvalsh", y, out)


# ----------------------------------------------------------------------------------- general


def _check_general(A: Array, name: str) -> np.dtype:
    if A.dtype.kind in "biu":
        raise RuntimeError(f"Unknown Complex ScalarType for {get_kind_name(A)}")
    check_square(A, name)
    check_kernel(A, "linalg_eig_out_cpu")
    if A.__class__ is not MetaArray and not np.isfinite(A).all():
        raise RuntimeError(f"torch.{name}: input tensor should not contain infs or NaNs.")
    return np.result_type(A.dtype, np.complex64)


@opaque(leading=2, layout=Layout.COLUMNS,
        name="_linalg_eig", node="LinalgEigBackward0", expose=(), holomorphic=False,
        result_type=return_type("linalg_eig", "eigenvalues", "eigenvectors"),
        ref=lambda A: tuple(x.astype(complex) for x in np.linalg.eig(A)), samples=None)
def _eig(A: Array) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors of norm 1."""
    kind = _check_general(A, "linalg.eig")
    if not A.size:
        return np.zeros(A.shape[:-1], kind), np.zeros(A.shape, kind)
    try:
        L, V = np.linalg.eig(A)
    except np.linalg.LinAlgError:
        raise LinAlgError("linalg.eig: The algorithm failed to converge because the input matrix "
                          "is ill-conditioned or has too many repeated eigenvalues.") from None
    return L.astype(kind), V.astype(kind)


@_eig.vjp
def _(gs: tuple[Tensor, Tensor], ys: tuple[Tensor, ...]) -> Tensor:
    (gL, gV), (L, V) = gs, ys
    if gV is None:
        return None if gL is None else solve_matrix(mH(V), gL.unsqueeze(-1) * mH(V))
    inner = mH(V) @ gV
    _check_phase(inner, "linalg_eig_backward")
    # Eigenvectors have norm 1: what would lengthen them does not count.
    inner = inner - (mH(V) @ V) * to_dtype_of(inner.diagonal(0, -2, -1).real, V).unsqueeze(-2)
    inner = inner / _compute_gaps(L.conj())
    inner = inner - diag_embed(inner.diagonal(0, -2, -1))
    if gL is not None:
        inner = inner + diag_embed(gL)
    return solve_matrix(mH(V), inner @ mH(V))


@linalg_function()
def eig(A: Tensor, *, out: Any = None) -> Any:
    """Compute the complex eigenvalues and eigenvectors of square matrices.

    >>> torch.linalg.eig(torch.tensor([[0., -1.], [1., 0.]])).eigenvalues
    tensor([0.+1.j, 0.-1.j])
    """
    return _eig(A, out=out)


@opaque(leading=2,
        name="_linalg_eigvals", expose=(), differentiable=False, samples=square_samples,
        ref=lambda A: np.linalg.eigvals(A).astype(complex))
def _eigvals(A: Array) -> Array:
    """The eigenvalues alone."""
    kind = _check_general(A, "linalg.eigvals")
    if not A.size:
        return np.zeros(A.shape[:-1], kind)
    return np.linalg.eigvals(A).astype(kind)


@linalg_function()
def eigvals(A: Tensor, *, out: Any = None) -> Tensor:
    """Compute the complex eigenvalues of square matrices.

    >>> torch.linalg.eigvals(torch.tensor([[0., -1.], [1., 0.]]))
    tensor([0.+1.j, 0.-1.j])
    """
    if not A._tracked:
        return _eigvals(A, out=out)
    check_square(A._array, "linalg.eigvals")
    y = _eig(A)[0]
    return y if out is None else write_result("eigvals", y, out)
