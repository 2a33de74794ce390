"""torch.sparse.spsolve: solve linear equations with a sparse matrix, by SciPy's SuperLU."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.tangents import skip_missing, sum_terms
from ...tensor.layout import sparse_csr, strided
from ...tensor.sparse import SparseTensor
from ...tensor.tensor import Tensor, wrap
from ..core.operator import Array
from ..linalg.matrix_checks import LinAlgError
from .assembly import create_compressed
from .dispatch import sparse_operator
from .products import to_scipy


@sparse_operator(node="SpsolveBackward0")
def _solve(input: Array, other: Array) -> Array:
    from scipy.sparse.linalg import splu

    try:
        factors = splu(to_scipy(input).tocsc())
    except RuntimeError as error:  # SuperLU: "Factor is exactly singular"
        raise LinAlgError("spsolve: the solver failed because the input matrix is singular") \
            from error
    result: np.ndarray = factors.solve(np.ascontiguousarray(other)).astype(other.dtype, copy=False)
    return np.ascontiguousarray(result)


@_solve.vjp("other")
def _(g: Any, input: Any) -> Any:
    return _solve(_conjugate_transpose(input), g)


@_solve.vjp("input")
def _(g: Any, y: Any, input: Any) -> Any:
    """Return the outer product -A^-H g y^H, computed only at the coordinates of A."""
    a: Any = input._array
    s = _solve(_conjugate_transpose(input), g)
    lines = np.repeat(np.arange(len(a.compressed) - 1), np.diff(a.compressed))
    axes = (lines, a.plain) if a.by_row else (a.plain, lines)  # in storage order
    rows, columns = map(wrap, axes)
    values = -(s.index_select(0, rows) * y.conj().index_select(0, columns))
    if values.dim() > 1:
        values = values.sum(1)
    return create_compressed(values, a.layout, a.compressed, a.plain, a.shape)


@_solve.jvp
def _(input_t: Any, other_t: Any, y: Any, input: Any) -> Any:
    return _solve(input, sum_terms(other_t, skip_missing(lambda t: -(t @ y), input_t)))


def _conjugate_transpose(x: Tensor) -> Tensor:
    result = x.transpose(0, 1)
    return result.conj() if x.is_complex() else result


def spsolve(input: Tensor, other: Tensor, *, left: bool = True) -> Tensor:
    """Return the solution x of `input @ x = other`, or of `x @ input = other` if not `left`.

    `input` is a square matrix in CSR layout, `other` a vector or, beyond PyTorch, a matrix.
    RuntimeError if shapes, layouts or dtypes do not fit, LinAlgError for a singular matrix.

    >>> a = torch.tensor([[2., 0.], [1., 4.]]).to_sparse_csr()
    >>> torch.sparse.spsolve(a, torch.tensor([2., 9.]))
    tensor([1., 2.])
    """
    _check(input, other, left)
    if left:
        return _solve(input, other)
    y = _solve(input.transpose(0, 1), other.transpose(0, 1) if other.dim() == 2 else other)
    return y.transpose(0, 1) if other.dim() == 2 else y


def _check(input: Tensor, other: Tensor, left: bool) -> None:
    if not isinstance(input, SparseTensor) or input.layout is not sparse_csr:
        raise RuntimeError(f"spsolve: expected input in CSR layout, got {input.layout}")
    if input.dim() != 2 or input.shape[0] != input.shape[1]:
        raise RuntimeError(
            f"spsolve: expected a square matrix, got {list(input.shape)}")
    if other.layout is not strided or other.dim() not in (1, 2):
        raise RuntimeError("spsolve: expected other to be a dense vector or matrix")
    if other.shape[0 if left else -1] != input.shape[0]:
        raise RuntimeError(f"spsolve: a matrix {list(input.shape)} and a right side "
                           f"{list(other.shape)} do not fit")
    if input.dtype is not other.dtype or input._array.dtype.char not in "fdFD":
        raise RuntimeError("spsolve: expected operands of one dtype, float32, float64, complex64 "
                           f"or complex128, got {input.dtype} and {other.dtype}")
