"""Decompositions of low rank: a few singular values, principal components or eigenvalues."""

from __future__ import annotations

from typing import Any

from ...tensor.tensor import Tensor
from ..core.registry import composite
from ..creation.random import randn
from .declarations import mH
from .eigen import eigh
from .matmul import matmul
from .qr import qr
from .solves import solve_triangular
from .svd import svd


def _multiply(A: Tensor, M: Tensor | None, B: Tensor) -> Tensor:
    """Return (A - M) B; the difference itself would be dense where A is sparse."""
    return matmul(A, B) if M is None else matmul(A, B) - matmul(M, B)


def _adjoint(A: Tensor) -> Tensor:
    return A.transpose(-2, -1).conj() if A.is_sparse and A.is_complex() else mH(A)


def _approximate_basis(A: Tensor, M: Tensor | None, q: int, niter: int) -> Tensor:
    """Orthonormal columns that nearly span those of A - M: a random start, then power iterations.

    Halko, Martinsson and Tropp, "Finding structure with randomness", 2009, algorithm 4.4.
    """
    Q = qr(_multiply(A, M, randn(A.shape[-1], q, dtype=A.dtype)))[0]
    turned = _adjoint(A), None if M is None else mH(M)
    for _ in range(niter):
        Q = qr(_multiply(*turned, Q))[0]
        Q = qr(_multiply(A, M, Q))[0]
    return Q


@composite(expose=("torch",), explains=True)
def svd_lowrank(A: Tensor, q: int = 6, niter: int = 2, M: Any = None) -> Any:
    """Approximate A - M by U diag(S) V^H with q singular values, by a randomized method.

    >>> [x.shape for x in torch.svd_lowrank(torch.ones(5, 4), q=2)]
    [torch.Size([5, 2]), torch.Size([2]), torch.Size([4, 2])]
    """
    M = None if M is None else M.expand(A.shape)
    is_wide = A.shape[-2] < A.shape[-1]
    if is_wide:
        A, M = _adjoint(A), None if M is None else mH(M)
    Q = _approximate_basis(A, M, q, niter)
    turned = _adjoint(A), None if M is None else mH(M)
    U, S, Vh = svd(mH(_multiply(*turned, Q)), False)
    U, V = matmul(Q, U), mH(Vh)
    return (V, S, U) if is_wide else (U, S, V)


@composite(expose=("torch",), explains=True)
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> Any:
    """Compute U, S and V of the rows of A, centered by default, by a randomized method.

    V holds the q principal directions.

    >>> _ = torch.manual_seed(0)
    >>> U, S, V = torch.pca_lowrank(torch.randn(10, 4), q=2)
    >>> U.shape, S.shape, V.shape
    (torch.Size([10, 2]), torch.Size([2]), torch.Size([4, 2]))
    """
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if not center:
        return svd_lowrank(A, q, niter)
    if A.is_sparse:
        if A.dim() != 2:
            raise ValueError("pca_lowrank input is expected to be 2-dimensional tensor")
        return svd_lowrank(A, q, niter, A.sum(-2, True).to_dense() / m)
    return svd_lowrank(A - A.mean(-2, True), q, niter)


@composite(expose=("torch",), explains=True)
def lobpcg(
    A: Tensor, k: int | None = None, B: Any = None, X: Any = None, n: Any = None, iK: Any = None,
    niter: Any = None, tol: Any = None, largest: Any = None, method: Any = None,
    tracker: Any = None, ortho_iparams: Any = None, ortho_fparams: Any = None,
    ortho_bparams: Any = None
) -> Any:
    """Compute the k largest (or smallest) eigenpairs of A X = E B X, for symmetric A.

    All eigenvalues are computed and k selected: n, iK, niter and tol have no effect.

    Args:
        niter: Accepted for compatibility with PyTorch; has no effect.

    >>> values, vectors = torch.lobpcg(torch.diag(torch.arange(1., 10.)), k=2)
    >>> values.round()
    tensor([9., 8.])
    """
    count = (1 if X is None else X.shape[-1]) if k is None else k
    if A.shape[-1] < 3 * count:
        raise ValueError(
            f"LPBPCG algorithm is not applicable when the number of A rows (={A.shape[-1]}) is "
            f"smaller than 3 x the number of requested eigenpairs (={count})"
        )
    A = (A + mH(A)) / 2  # eigh reads one triangle only
    if B is None:
        values, vectors = eigh(A)
    else:  # with B = L L^H, the eigenvalues of L^-1 A L^-H
        from .cholesky import cholesky

        L = cholesky(B)
        half = solve_triangular(L, A, upper=False)
        values, vectors = eigh(solve_triangular(mH(L), half, upper=True, left=False))
        vectors = solve_triangular(mH(L), vectors, upper=True)
    if largest is None or largest:
        values, vectors = values.flip(-1), vectors.flip(-1)
    return values.narrow(-1, 0, count), vectors.narrow(-1, 0, count)
