"""Decompositions of low rank: a few singular values, principal components or eigenvalues."""

from __future__ import annotations

from typing import Any

from ...tensor.tensor import Tensor
from ..core.registry import composite
from ..creation.random import randn
from .eigen import eigh
from .matmul import matmul
from .declarations import mH
from .qr import qr
from .solves import solve_triangular
from .svd import svd


def _approximate_basis(A: Tensor, q: int, niter: int) -> Tensor:
    """Orthonormal columns that nearly span those of A: a random start, then power iterations.

    Halko, Martinsson and Tropp, "Finding structure with randomness", 2009, algorithm 4.4.
    """
    start = randn(A.shape[-1], q, dtype=A.dtype)
    Q = qr(matmul(A, start))[0]
    for _ in range(niter):
        Q = qr(matmul(mH(A), Q))[0]
        Q = qr(matmul(A, Q))[0]
    return Q


@composite(expose=("torch",), explains=True)
def svd_lowrank(A: Tensor, q: int = 6, niter: int = 2, M: Any = None) -> Any:
    """Approximate A - M by U diag(S) V^H with q singular values, by a randomized method.

    >>> [x.shape for x in torch.svd_lowrank(torch.ones(5, 4), q=2)]
    [torch.Size([5, 2]), torch.Size([2]), torch.Size([4, 2])]
    """
    if M is not None:
        A = A - M.expand(A.shape)
    wide = A.shape[-2] < A.shape[-1]
    X = mH(A) if wide else A
    Q = _approximate_basis(X, q, niter)
    U, S, Vh = svd(matmul(mH(Q), X), False)
    U, V = matmul(Q, U), mH(Vh)
    return (V, S, U) if wide else (U, S, V)


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
    if center:
        A = A - A.mean(-2, True)
    return svd_lowrank(A, q, niter)


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
