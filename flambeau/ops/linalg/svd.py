"""Singular values: svd, svdvals, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...tensor.tensor import Tensor
from ..core.autocast import Policy
from ..core.operator import Array
from ..core.out import write_result
from ..core.output_layout import Layout
from ..core.registry import composite, opaque
from ..core.return_types import return_type
from ..view.triangles import diag_embed
from .declarations import linalg_function, mH, to_dtype_of
from .matrix_checks import (
    LinAlgError, check_floats, check_kernel, check_matrix, check_phase, iterate_matrices,
)
from .matrix_samples import rectangular_samples


def _decompose(A: Array, full_matrices: bool, vectors: bool) -> tuple:
    """U, S and Vh as contiguous arrays, empty ones where no vectors are wanted."""
    check_floats(A, "linalg.svd")
    check_matrix(A, "linalg.svd")
    check_kernel(A, "linalg_svd_cpu")
    if not A.size:
        return _decompose_nothing(A, full_matrices, vectors)
    try:
        if not vectors:
            return None, np.linalg.svd(A, False, False), None
        return tuple(np.linalg.svd(A, full_matrices))
    except np.linalg.LinAlgError:
        raise _create_failure(A) from None


def _create_failure(A: Array) -> Exception:
    for index, x in iterate_matrices(A):
        batch = f"(Batch element {np.ravel_multi_index(index, A.shape[:-2])}): " if index else ""
        if not np.isfinite(x).all():
            return LinAlgError(f"linalg.svd: {batch}The algorithm failed to converge because the "
                               "input matrix contained non-finite values.")
    return LinAlgError("linalg.svd: The algorithm failed to converge because the input matrix is "
                       "ill-conditioned or has too many repeated singular values.")


def _decompose_nothing(A: Array, full_matrices: bool, vectors: bool) -> tuple:
    batch, (m, n) = A.shape[:-2], A.shape[-2:]
    k = min(m, n)
    S = np.zeros((*batch, k), A.real.dtype)
    if not vectors:
        return None, S, None
    rows, columns = (m, n) if full_matrices else (k, k)
    U = np.broadcast_to(np.eye(m, rows, dtype=A.dtype), (*batch, m, rows)).copy()
    Vh = np.broadcast_to(np.eye(columns, n, dtype=A.dtype), (*batch, columns, n)).copy()
    return U, S, Vh


@opaque(leading=2, layout=Layout.COLUMNS,
        name="_linalg_svd", node="LinalgSvdBackward0", expose=(), holomorphic=False,
        samples=rectangular_samples, result_type=return_type("linalg_svd", "U", "S", "Vh"),
        ref=lambda A: np.linalg.svd(A, full_matrices=False))
def compute_svd(A: Array, full_matrices: bool = False) -> tuple[Array, Array, Array]:
    """U, S and Vh with A = U diag(S) Vh."""
    return _decompose(A, full_matrices, True)


@compute_svd.vjp
def _(gs: tuple[Tensor, Tensor, Tensor], ys: tuple[Tensor, ...]) -> Tensor | None:
    U, S, Vh = ys
    k = S.shape[-1]
    gU, gS, gVh = gs
    gU = gU.narrow(-1, 0, k) if gU is not None and gU.shape[-1] > k else gU
    gVh = gVh.narrow(-2, 0, k) if gVh is not None and gVh.shape[-2] > k else gVh
    return compute_svd_cotangent(gU, gS, gVh, U.narrow(-1, 0, k), S, Vh.narrow(-2, 0, k))


def _differentiate_values(gS: Tensor, U: Tensor, Vh: Tensor) -> Tensor:
    return (U * to_dtype_of(gS, U).unsqueeze(-2)) @ Vh


def _check_phase(gU: Tensor | None, gVh: Tensor | None, U: Tensor, Vh: Tensor) -> None:
    """Raise RuntimeError if a loss changes with the phase of complex singular vectors."""
    phases = [] if gU is None else [(mH(U) @ gU).diagonal(0, -2, -1).imag]
    if gVh is not None:
        phases.append((Vh @ mH(gVh)).diagonal(0, -2, -1).imag)
    check_phase(sum(phases[1:], phases[0])._array, (
        "svd_backward: The singular vectors in the complex case are specified up to multiplication "
        "by e^{i phi}. The specified loss function depends on this phase term, making it "
        "ill-defined."))


def compute_svd_cotangent(
    gU: Tensor, gS: Tensor, gVh: Tensor, U: Tensor, S: Tensor, Vh: Tensor
) -> Tensor | None:
    """Return the cotangent of A = U diag(S) Vh, for thin U and Vh."""
    if gU is None and gVh is None:
        return None if gS is None else _differentiate_values(gS, U, Vh)
    m, k, n = U.shape[-2], S.shape[-1], Vh.shape[-1]
    squares = S * S
    gaps = squares.unsqueeze(-2) - squares.unsqueeze(-1)
    gaps = gaps + diag_embed(gaps.new_ones(k))
    inner = None
    if gU is not None:
        rotation = mH(U) @ gU
        rotation = rotation - mH(rotation)
        inner = rotation / gaps * S.unsqueeze(-2)
        if U.is_complex():
            inner = inner + diag_embed(rotation.diagonal(0, -2, -1) / (2 * S))
    if gVh is not None:
        rotation = Vh @ mH(gVh)
        of_V = S.unsqueeze(-1) * ((rotation - mH(rotation)) / gaps)
        inner = of_V if inner is None else inner + of_V
    if U.is_complex():
        _check_phase(gU, gVh, U, Vh)
    if gS is not None:
        inner = inner + diag_embed(to_dtype_of(gS, U))
    if m > k and gU is not None:
        outside = gU / S.unsqueeze(-2)
        return (U @ inner + outside - U @ (mH(U) @ outside)) @ Vh
    if n > k and gVh is not None:
        outside = gVh / S.unsqueeze(-1)
        return U @ (inner @ Vh + outside - (outside @ mH(Vh)) @ Vh)
    return U @ (inner @ Vh) if m >= n else (U @ inner) @ Vh


@opaque(leading=2,
        name="_linalg_svdvals", expose=(), node="LinalgSvdBackward0", holomorphic=False,
        differentiable=False, samples=rectangular_samples,
        ref=lambda A: np.linalg.svd(A, compute_uv=False))
def _svdvals(A: Array) -> Array:
    """The singular values alone."""
    return _decompose(A, False, False)[1]


def _refuse_driver(driver: None) -> None:
    if driver is not None:
        raise RuntimeError("torch.linalg.svd: keyword argument `driver=` is only supported on CUDA "
                           "inputs with cuSOLVER backend.")


@linalg_function(autocast=Policy.FULL)
def svd(
    A: Tensor, full_matrices: bool = True, *, driver: Any = None,
    out: Tensor | Sequence[Tensor] | None = None
) -> Any:
    """Factor A = U diag(S) Vh, with singular values in descending order.

    >>> torch.linalg.svd(torch.tensor([[3., 0.], [0., 4.]])).S
    tensor([4., 3.])
    """
    _refuse_driver(driver)
    return compute_svd(A, full_matrices, out=out)


@linalg_function()
def svdvals(A: Tensor, *, driver: Any = None, out: Any = None) -> Tensor:
    """Compute singular values in descending order.

    >>> torch.linalg.svdvals(torch.tensor([[3., 0.], [0., 4.]]))
    tensor([4., 3.])
    """
    _refuse_driver(driver)
    if not A._tracked:
        return _svdvals(A, out=out)
    y = compute_svd(A, False)[1]
    return y if out is None else write_result("svdvals", y, out)


_LEGACY = return_type("svd", "U", "S", "V")


@composite(name="svd", explains=True)
def svd_legacy(
    input: Tensor, some: bool = True, compute_uv: bool = True, *,
    out: Tensor | Sequence[Tensor] | None = None
) -> Any:
    """Factor input = U diag(S) V^H; U and V are zero without `compute_uv`.

    >>> U, S, V = torch.svd(torch.tensor([[3., 0.], [0., -4.]]))
    >>> S
    tensor([4., 3.])
    """
    rank = input._array.ndim
    if rank < 2:
        raise RuntimeError("linalg.svd: The input tensor A must have at least 2 dimensions.")
    if compute_uv:
        U, S, Vh = compute_svd(input, not some)
        result = U, S, mH(Vh)
    else:
        batch, (m, n) = input.shape[:-2], input.shape[-2:]
        result = (input.new_zeros((*batch, m, m)), svdvals(input),
                  input.new_zeros((*batch, n, n)))
    return _LEGACY(*result if out is None else write_result("svd", result, out))
