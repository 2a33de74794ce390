"""QR factorization and Householder reflections."""

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
from ..core.return_types import return_type
from ..core.sample_inputs import Rng, Sample
from ..creation.creation import eye
from ..view.triangles import diag_embed, tril, triu
from .declarations import linalg_function, mH
from .matrix_checks import (
    check_floats, check_kernel, check_matrix, get_kind_name, get_lapack_routine, iterate_matrices,
)
from .matrix_samples import rectangular_samples, well_conditioned
from .solves import solve_triangular


def _check_mode(mode: str) -> None:
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', "
            "or 'complete'"
        )


@opaque(leading=2, layout=Layout.COLUMNS,
        name="_linalg_qr", node="LinalgQrBackward0", expose=(), holomorphic=False,
        result_type=return_type("linalg_qr", "Q", "R"), samples=rectangular_samples,
        ref=lambda A: tuple(np.linalg.qr(A)))
def _qr(A: Array, mode: str = "reduced") -> tuple[np.ndarray, ...]:
    """Q and R with A = Q R."""
    check_floats(A, "linalg.qr")
    check_matrix(A, "linalg.qr")
    check_kernel(A, "geqrf_cpu")
    _check_mode(mode)
    numpy_mode: Any = mode
    result: Any = np.linalg.qr(A, numpy_mode)
    Q, R = (np.zeros((0,), A.dtype), result) if mode == "r" else result
    return Q, R


def _differentiate_tall(gQ: Tensor | None, gR: Tensor | None, Q: Tensor, R: Tensor) -> Tensor:
    """The cotangent of A = Q R with at least as many rows as columns."""
    inner = None
    if gR is not None:
        inner = gR @ mH(R)
    if gQ is not None:
        inner = -(mH(Q) @ gQ) if inner is None else inner - mH(Q) @ gQ
    inner = triu(inner)
    inner = inner + mH(inner)
    inner = inner - diag_embed(inner.diagonal(0, -2, -1)) / 2
    y = Q @ inner
    if gQ is not None:
        y = y + gQ
    return solve_triangular(mH(R), y, upper=False, left=False)


def compute_qr_cotangent(gQ: Tensor | None, gR: Tensor | None, Q: Tensor,
                         R: Tensor) -> Tensor | None:
    """Return the cotangent of A = Q R, for A of any shape."""
    if gQ is None and gR is None:
        return None
    k, n = R.shape[-2], R.shape[-1]
    if n <= k:
        return _differentiate_tall(gQ, gR, Q, R)
    # A = [X, Y] with X = Q U, and V = Q^H Y to the right of U.
    U, V = R.narrow(-1, 0, k), R.narrow(-1, k, n - k)
    gU = gV = None
    if gR is not None:
        gU, gV = gR.narrow(-1, 0, k), gR.narrow(-1, k, n - k)
        turned = (Q @ V) @ mH(gV)
        gQ = turned if gQ is None else gQ + turned
    from ..view.join import cat

    gX = _differentiate_tall(gQ, gU, Q, U)
    gY = Q @ gV if gV is not None else V.new_zeros((*Q.shape[:-1], n - k))
    return cat([gX, gY.expand((*gX.shape[:-1], n - k))], -1)


@_qr.vjp
def _(gs: tuple[Tensor, Tensor], ys: tuple[Tensor, ...], mode: str) -> Tensor | None:
    Q, R = ys
    if mode == "r":
        raise RuntimeError("The derivative of linalg.qr depends on Q, which is not computed when "
                           "mode='r'. Please use linalg.qr(A, mode='reduced') if you are going to "
                           "require gradients")
    if mode == "complete" and Q.shape[-1] > R.shape[-1]:
        raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and "
                           "nrows > ncols")
    return compute_qr_cotangent(gs[0], gs[1], Q, R)


@linalg_function(autocast=Policy.FULL)
def qr(A: Tensor, mode: str = "reduced", *, out: Tensor | Sequence[Tensor] | None = None) -> Any:
    """Factor A = Q R, with orthonormal columns in Q; mode 'r' computes only R.

    >>> torch.linalg.qr(torch.tensor([[3., 1.], [4., 2.]])).R
    tensor([[-5.0000, -2.2000],
            [ 0.0000,  0.4000]])
    """
    return _qr(A, mode, out=out)


_LEGACY = return_type("qr", "Q", "R")


@composite(name="qr")
def qr_legacy(
    input: Tensor, some: bool = True, *, out: Tensor | Sequence[Tensor] | None = None
) -> Any:
    """Factor input = Q R; the older form of linalg.qr.

    >>> Q, R = torch.qr(torch.tensor([[3., 1.], [4., 2.]]))
    >>> torch.allclose(Q @ R, torch.tensor([[3., 1.], [4., 2.]])), R.shape
    (True, torch.Size([2, 2]))
    """
    warn_once(
        "torch.qr is deprecated in favor of torch.linalg.qr and will be removed in a future "
        "PyTorch release.\nThe boolean parameter 'some' has been replaced with a string parameter "
        "'mode'.\nQ, R = torch.qr(A, some)\nshould be replaced with\nQ, R = torch.linalg.qr(A, "
        "'reduced' if some else 'complete')"
    )
    result = _LEGACY(_qr(input, "reduced" if some else "complete"))
    return result if out is None else write_out(_qr.operator, result, out)


# -------------------------------------------------------------------------------- reflections


def _raw_reference(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    import scipy.linalg

    raw = [scipy.linalg.qr(a, mode="raw") for a in x.reshape(-1, *x.shape[-2:])]
    k = min(x.shape[-2:])
    return (np.stack([a for (a, _), _ in raw]).reshape(x.shape),
            np.stack([t for (_, t), _ in raw]).reshape(*x.shape[:-2], k))


@opaque(leading=2, layout=Layout.COLUMNS,
        name="geqrf", ref=_raw_reference, samples=rectangular_samples,
        result_type=return_type("geqrf", "a", "tau"))
def geqrf(input: Array) -> tuple[Array, Array]:
    """Compute a QR decomposition in LAPACK's packed form.

    Returns R on and above the diagonal, Householder vectors below it, and their scales tau, as
    `orgqr` and `ormqr` expect.

    >>> a, tau = torch.geqrf(torch.tensor([[3., 1.], [4., 2.]]))
    >>> a.triu()
    tensor([[-5.0000, -2.2000],
            [ 0.0000,  0.4000]])
    """
    check_matrix(input, "torch.geqrf", "input")
    check_kernel(input, "geqrf_cpu")
    a, tau = np.linalg.qr(input, "raw")
    return np.ascontiguousarray(np.swapaxes(a, -1, -2)), tau


def _check_reflections(A: Array, tau: Array, name: str, matrix: str = "input") -> None:
    if A.ndim < 2:
        raise RuntimeError(f"{name}: {matrix} must have at least 2 dimensions.")
    if name.endswith("product") and A.shape[-2] < A.shape[-1]:
        raise RuntimeError(
            f"{name}: {matrix}.shape[-2] must be greater than or equal to {matrix}.shape[-1]"
        )
    if A.shape[-1] < tau.shape[-1]:
        raise RuntimeError(
            f"{name}: {matrix}.shape[-1] must be greater than or equal to tau.shape[-1]"
        )
    if A.ndim - tau.ndim != 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than {matrix}, but got tau.ndim "
            f"equal to {tau.ndim} and {matrix}.ndim is equal to {A.ndim}"
        )
    if A.shape[:-2] != tau.shape[:-1]:
        raise RuntimeError(
            f"{name}: Expected batch dimensions of tau to be equal to {matrix}.shape[:-2], but got "
            f"{list(tau.shape[:-1])}"
        )
    if A.dtype != tau.dtype:
        raise RuntimeError(
            f"{name}: tau dtype {get_kind_name(tau)} does not match input dtype {get_kind_name(A)}"
        )


def apply_reflectors(A: Tensor, tau: Tensor, target: Tensor, adjoint: bool) -> Tensor:
    """Return Q target, or Q^H target, by applying the reflections one by one."""
    m, k = A.shape[-2], tau.shape[-1]
    vectors = tril(A, -1) + eye(m, A.shape[-1], dtype=A.dtype)
    order = range(k) if adjoint else range(k - 1, -1, -1)
    for i in order:
        v = vectors.narrow(-1, i, 1)
        scale = tau.narrow(-1, i, 1).unsqueeze(-1)
        scale = scale.conj() if adjoint else scale
        target = target - (scale * v) @ (mH(v) @ target)
    return target


def _reflections(rng: Rng) -> Iterator[Sample]:
    for shape in ((4, 3), (2, 3, 2)):
        A = well_conditioned(rng, *shape)
        yield (A, rng.normal(size=(*shape[:-2], shape[-1]))), {}


@opaque(layout=Layout.COLUMNS,
        name="_householder_product", expose=(), differentiable=False, samples=_reflections,
        ref=None)
def _householder_product(A: Array, tau: Array) -> Array:
    """The first columns of a product of reflections, from LAPACK."""
    y = np.empty(A.shape, A.dtype)
    multiply = get_lapack_routine("orgqr" if A.dtype.kind == "f" else "ungqr", A.dtype)
    for index, a, t in iterate_matrices(A, tau[..., None]):
        y[index] = multiply(a, t[:, 0])[0]
    return y


@linalg_function("orgqr")
def householder_product(A: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Compute the first columns of H_1 ... H_k, where H_i = I - tau_i v_i v_i^H.

    v_i is below the diagonal of A.

    >>> torch.linalg.householder_product(torch.tensor([[1.], [1.]]), torch.tensor([1.]))
    tensor([[ 0.],
            [-1.]])
    """
    name = "torch.linalg.householder_product"
    _check_reflections(A._array, tau._array, name)
    if not (A._tracked or tau._tracked) and A._array.size:
        return _householder_product(A, tau, out=out)
    start = eye(A.shape[-2], A.shape[-1], dtype=A.dtype).expand(A.shape)
    if not tau._array.size:
        start = start + A * 0  # a constant, but part of the graph
    y = apply_reflectors(A, tau, start, False)
    return y if out is None else write_result("linalg_householder_product", y, out)


def _check_target(A: Array, tau: Array, other: Array, left: bool) -> None:
    name = "torch.ormqr"
    if A.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if other.ndim < 2:
        raise RuntimeError(f"{name}: other must have at least 2 dimensions.")
    side = -2 if left else -1
    if other.shape[side] < tau.shape[-1]:
        raise RuntimeError(
            f"{name}: other.shape[{side}] must be greater than or equal to tau.shape[-1]"
        )
    if other.shape[side] != A.shape[-2]:
        raise RuntimeError(f"{name}: other.shape[{side}] must be equal to input.shape[-2]")
    if tau.shape[-1] != min(other.shape[side], A.shape[-1]):
        raise RuntimeError(
            f"{name}: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])"
        )
    if A.ndim - tau.ndim != 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal "
            f"to {tau.ndim} and input.ndim is equal to {A.ndim}"
        )
    if A.ndim != other.ndim:
        raise RuntimeError(
            f"{name}: Expected other to have the same number of dimensions as input, but got "
            f"other.ndim equal to {other.ndim} and input.ndim is equal to {A.ndim}"
        )
    for label, result in (("tau", tau.shape[:-1]), ("other", other.shape[:-2])):
        if result != A.shape[:-2]:
            raise RuntimeError(f"{name}: Expected batch dimensions of {label} to be equal to "
                               f"input.shape[:-2], but got {list(result)}")
    for label, x in (("tau", tau), ("other", other)):
        if x.dtype != A.dtype:
            raise RuntimeError(
                f"{name}: Expected input and {label} to have the same dtype, but input has dtype "
                f"{get_kind_name(A)} and {label} has dtype {get_kind_name(x)}"
            )


@composite(autocast=Policy.FULL, node="OrmqrBackward0")
def ormqr(
    input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False, *,
    out: Tensor | None = None
) -> Tensor:
    """Compute Q other, where Q is given by Householder reflections.

    Without `left`, compute other Q; with `transpose`, use Q^H.

    >>> a, tau = torch.geqrf(torch.tensor([[3., 1.], [4., 2.]]))
    >>> torch.ormqr(a, tau, a.triu())  # Q R, the matrix itself
    tensor([[3., 1.],
            [4., 2.]])
    """
    _check_target(input._array, tau._array, other._array, left)
    if left:
        y = apply_reflectors(input, tau, other, transpose)
    else:
        y = mH(apply_reflectors(input, tau, mH(other), not transpose))
    return y if out is None else write_result("ormqr", y, out)
