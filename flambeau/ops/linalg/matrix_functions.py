"""Functions of matrices: exponential, powers, condition, tensor equations, Vandermonde."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...native.foundation.user_frames import warn_once
from ...tensor.dtypes import FROM_NUMPY, HALF, int64
from ...tensor.meta import MetaArray
from ...tensor.promotion import promote_types
from ...tensor.tensor import Tensor
from ..core.operator import Array
from ..core.out import write_result
from ..core.registry import composite, opaque
from ..reduction.vector_norms import matrix_norm
from ..view.join import cat
from .declarations import linalg_function, mH
from .matmul import matmul
from .matrix_checks import check_floats, check_square
from .matrix_samples import square_samples
from .solves import inv, inv_ex, solve
from .svd import svdvals


def _write_to(out: Tensor | None, name: str, y: Tensor) -> Tensor:
    return y if out is None else write_result(name, y, out)


# ------------------------------------------------------------------------------- exponential


def _sum_series(A: np.ndarray) -> np.ndarray:
    y, term = np.eye(A.shape[-1]) + A * 0, np.eye(A.shape[-1]) + A * 0
    for i in range(1, 60):
        term = term @ A / i
        y = y + term
    return y


# Coefficients of the Pade approximants of degree 3, 5, 7 and 13, and the 1-norms up to which they
# are exact to float64: Higham, "The scaling and squaring method for the matrix exponential", 2005.
_PADE = (
    (1.495585217958292e-2, (120, 60, 12, 1)),
    (2.539398330063230e-1, (30240, 15120, 3360, 420, 30, 1)),
    (9.504178996162932e-1, (17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1)),
    (5.371920351148152, (
        64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
        10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1)),
)


def _compute_exponential(A: Array) -> Array:
    """exp(A): A is halved until a rational function is exact, whose result is squared as often."""
    with np.errstate(all="ignore"):
        size = np.abs(A).sum(-2).max(-1)
        largest = float(size.max())
        if not math.isfinite(largest):
            return np.full(A.shape, np.nan, A.dtype)
        bound, coefficients = next((p for p in _PADE if largest <= p[0]), _PADE[-1])
        halvings = np.ceil(np.log2(np.maximum(size / bound, 1))).astype(int)
        y = _evaluate_rational(
            A * (0.5**halvings)[..., None, None].astype(A.real.dtype), coefficients
        )
        for i in range(int(halvings.max())):
            more = halvings > i
            y = np.matmul(y, y) if more.all() else np.where(
                more[..., None, None], np.matmul(y, y), y)
    return y


def _evaluate_rational(A: Array, coefficients: tuple[int, ...]) -> Array:
    """(V - U)^-1 (V + U), U of the odd powers of A and V of the even ones."""
    square, power = np.matmul(A, A), np.eye(A.shape[-1], dtype=A.dtype)
    kind = A.real.dtype.type
    U, V = kind(coefficients[1]) * power, kind(coefficients[0]) * power
    for i in range(2, len(coefficients), 2):
        power = np.matmul(power, square) if i > 2 else square
        V = V + kind(coefficients[i]) * power
        U = U + kind(coefficients[i + 1]) * power
    U = np.matmul(A, U)
    return np.linalg.solve(V - U, V + U)


@opaque(leading=2,
        name="_matrix_exp", node="LinalgMatrixExpBackward0", expose=(), holomorphic=False,
        samples=square_samples, ref=_sum_series)
def _matrix_exp(A: Array) -> Array:
    """The exponential of square matrices."""
    check_floats(A, "linalg.matrix_exp")
    check_square(A, "linalg.matrix_exp")
    if not A.size or A.__class__ is MetaArray:
        return np.zeros_like(A)
    if FROM_NUMPY[A.dtype] in HALF:
        return _compute_exponential(A.astype(np.float32)).astype(A.dtype)
    return _compute_exponential(A)


@_matrix_exp.vjp
def _(g: Tensor, A: Tensor) -> Tensor:
    # exp([[X, G], [0, X]]) has the derivative along G in its upper right corner.
    n = A.shape[-1]
    X = mH(A)
    top = cat([X, g], -1)
    bottom = cat([X * 0, X], -1)
    return _matrix_exp(cat([top, bottom], -2)).narrow(-2, 0, n).narrow(-1, n, n)


@linalg_function("matrix_exp")
def matrix_exp(A: Tensor) -> Tensor:
    """Compute the exponential of square matrices, I + A + A A / 2 + ...

    Args:
        A: Square matrices, (..., n, n).

    >>> torch.linalg.matrix_exp(torch.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    return _matrix_exp(A)


# ------------------------------------------------------------------------------------ powers


@linalg_function("matrix_power")
def matrix_power(A: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """Raise square matrices to the integer power n; negative powers use the inverse.

    Args:
        A: Square matrices, (..., n, n).

    >>> torch.linalg.matrix_power(torch.tensor([[1, 1], [0, 1]]), 3)
    tensor([[1, 3],
            [0, 1]])
    """
    check_square(A._array, "linalg.matrix_power")
    if n == 0:
        eye = A.new_zeros(A.shape)
        eye.diagonal(0, -2, -1).fill_(1)
        return _write_to(out, "matrix_power", eye + A * 0 if A._tracked else eye)
    if n < 0:
        A, n = inv(A), -n
    y: Any = None
    while n:
        if n & 1:
            y = A if y is None else matmul(y, A)
        n >>= 1
        if n:
            A = matmul(A, A)
    return _write_to(out, "matrix_power", y.clone() if out is None and y is A else y)


def _choose_order(sizes: list[int]) -> list[list[int]]:
    """Where to split each range of a chain of products so that it costs least."""
    n = len(sizes) - 1
    cost = [[0.0] * n for _ in range(n)]
    split = [[0] * n for _ in range(n)]
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i][j] = math.inf
            for k in range(i, j):
                result = cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1]
                if result < cost[i][j]:
                    cost[i][j], split[i][j] = result, k
    return split


def _chain(tensors: list[Tensor], split: list[list[int]], i: int, j: int) -> Tensor:
    if i == j:
        return tensors[i]
    k = split[i][j]
    return matmul(_chain(tensors, split, i, k), _chain(tensors, split, k + 1, j))


def _check_chain(tensors: list[Tensor]) -> None:
    n = len(tensors)
    if n < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {n}")
    first = tensors[0]
    for i, t in enumerate(tensors):
        at_end = i in (0, n - 1)
        allowed = (1, 2) if at_end else (2,)
        if t._array.ndim not in allowed:
            words = "1D or 2D" if at_end else "2D"
            subject = f"the {'last' if i else 'first'} tensor" if at_end else f"tensor {i}"
            raise RuntimeError(f"multi_dot(): {subject} must be {words} but got {t._array.ndim}D")
        if t.dtype is not first.dtype:
            raise RuntimeError(f"multi_dot(): all tensors must have be the same dtype but tensor 0 "
                               f"is {first.dtype} and tensor {i} {t.dtype}")


@linalg_function()
def multi_dot(tensors: Sequence[Tensor], *, out: Any = None) -> Tensor:
    """Multiply several matrices in the cheapest order.

    Args:
        tensors: The matrices in order; the first and the last may be vectors.

    >>> torch.linalg.multi_dot([torch.ones(1, 2), torch.ones(2, 3), torch.ones(3, 1)])
    tensor([[6.]])
    """
    chain = list(tensors)
    _check_chain(chain)
    row, column = chain[0]._array.ndim == 1, chain[-1]._array.ndim == 1
    shapes = [list(t.shape) for t in chain]
    chain[0] = chain[0].unsqueeze(0) if row else chain[0]
    chain[-1] = chain[-1].unsqueeze(-1) if column else chain[-1]
    for i in range(len(chain) - 1):
        if chain[i].shape[1] != chain[i + 1].shape[0]:
            raise RuntimeError(f"multi_dot(): tensors {i} and {i + 1} with shapes {shapes[i]} and "
                               f"{shapes[i + 1]} cannot be multiplied")
    sizes = [t.shape[0] for t in chain] + [chain[-1].shape[1]]
    y = _chain(chain, _choose_order(sizes), 0, len(chain) - 1)
    y = y.squeeze(-1) if column else y
    return _write_to(out, "linalg_multi_dot", y.squeeze(0) if row else y)


@composite(expose=("torch",), explains=True)
def chain_matmul(*matrices: Any, out: Any = None) -> Tensor:
    """Multiply several matrices; the older name of linalg.multi_dot.

    >>> torch.chain_matmul(torch.ones(2, 3), torch.ones(3, 4), torch.ones(4, 1)).flatten()
    tensor([12., 12.])
    """
    warn_once("torch.chain_matmul is deprecated and will be removed in a future PyTorch release. "
              "Use torch.linalg.multi_dot instead, which accepts a list of two or more tensors "
              "rather than multiple parameters.")
    for m in matrices:
        if m._array.ndim != 2:
            raise RuntimeError(f"Tensor dimension is {m._array.ndim}, expected 2 instead.")
    if len(matrices) == 0:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    return matrices[0] if len(matrices) == 1 else multi_dot(matrices, out=out)


# --------------------------------------------------------------------------------- condition

_NAMES = ("fro", "nuc")


@linalg_function()
def cond(A: Tensor, p: Any = None, *, out: Any = None) -> Tensor:
    """Compute the condition number, the norm of A times that of its inverse.

    By default this is the ratio of the largest to the smallest singular value.

    >>> torch.linalg.cond(torch.tensor([[2., 0.], [0., 4.]]))
    tensor(2.)
    """
    if A._array.ndim < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    if (isinstance(p, str) and p not in _NAMES) or (
        p is not None and not isinstance(p, str) and abs(p) not in (1, 2, math.inf)
    ):
        shown = p if isinstance(p, str) else f"{p:g}"
        raise RuntimeError(f"linalg.cond got an invalid norm type: {shown}")
    if p is None or (not isinstance(p, str) and abs(p) == 2):
        S = svdvals(A)
        if not S.shape[-1]:
            return _write_to(out, "linalg_cond", S.new_zeros(S.shape[:-1]))
        first, last = S.select(-1, 0), S.select(-1, -1)
        return _write_to(out, "linalg_cond", last / first if p == -2 else first / last)
    check_square(A._array, f"linalg.cond(ord={p if isinstance(p, str) else format(p, 'g')})")
    if not A._array.shape[-1]:
        return _write_to(out, "linalg_cond", A.new_zeros(A.shape[:-2]).abs())
    if p == "nuc":  # of infinite entries there is no decomposition
        S = svdvals(A)
        return _write_to(out, "linalg_cond", S.sum(-1) * S.reciprocal().sum(-1))
    inverse, info = inv_ex(A)
    inverse = inverse.masked_fill((info > 0).unsqueeze(-1).unsqueeze(-1), math.inf)
    y = matrix_norm(A, p) * matrix_norm(inverse, p)
    return _write_to(out, "linalg_cond", y.nan_to_num(math.inf, math.inf, -math.inf))


# ------------------------------------------------------------------------- tensor equations


def _multiply_lengths(lengths: Any) -> int:
    return math.prod(lengths)


@linalg_function()
def tensorinv(A: Tensor, ind: int = 2, *, out: Any = None) -> Tensor:
    """Invert a tensor viewed as a matrix, with its first `ind` axes as the rows.

    Args:
        A: The tensor; its first `ind` axes and the others have equally many elements.

    >>> torch.linalg.tensorinv(torch.eye(4).reshape(2, 2, 4)).shape
    torch.Size([4, 2, 2])
    """
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    shape = tuple(A.shape)
    rows, columns = _multiply_lengths(shape[:ind]), _multiply_lengths(shape[ind:])
    if rows != columns:
        raise RuntimeError("Expected self to satisfy the requirement prod(self.shape[ind:]) == "
                           f"prod(self.shape[:ind]), but got {columns} != {rows}")
    y = inv(A.reshape(rows, columns)).reshape((*shape[ind:], *shape[:ind]))
    return _write_to(out, "linalg_tensorinv", y)


@linalg_function()
def tensorsolve(A: Tensor, B: Tensor, dims: Any = None, *, out: Any = None) -> Tensor:
    """Solve tensordot(A, X, X.ndim) = B for X, after moving the axes `dims` of A to the end.

    Args:
        A: The tensor.
        B: The right-hand side.
        dims: Axes of `A` to move to the end first. None: none.

    >>> A = torch.eye(6).reshape(2, 3, 6)
    >>> torch.linalg.tensorsolve(A, torch.ones(2, 3)).shape
    torch.Size([6])
    """
    if dims is not None:
        rank = A._array.ndim
        A = A.movedim(tuple(dims), tuple(range(rank - len(dims), rank)))
    known, unknown = tuple(A.shape[: B._array.ndim]), tuple(A.shape[B._array.ndim :])
    if _multiply_lengths(known) != _multiply_lengths(unknown):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {_multiply_lengths(unknown)} != "
            f"{_multiply_lengths(known)}"
        )
    n = _multiply_lengths(unknown)
    y = solve(A.reshape(n, n), B.reshape(n)).reshape(unknown)
    return _write_to(out, "linalg_tensorsolve", y)


@linalg_function()
def vander(x: Tensor, N: int | None = None) -> Tensor:
    """Compute powers 0 to N - 1 of each element along a new last axis.

    >>> torch.linalg.vander(torch.tensor([2, 3]), N=3)
    tensor([[1, 2, 4],
            [1, 3, 9]])
    """
    x = x if x._array.ndim else x.unsqueeze(0)
    count = x.shape[-1] if N is None else N
    if count < 2:
        raise RuntimeError("N must be greater than 1.")
    kind = x.dtype if x.dtype.is_floating_point or x.dtype.is_complex else None
    column = x.unsqueeze(-1)
    powers = column.expand((*x.shape, count - 1)).cumprod(-1)
    y = cat([(column * 0 + 1).to(powers.dtype), powers], -1)
    return y if kind is None else y.to(kind)


@composite(name="vander", expose=("torch",), explains=True)
def vander_legacy(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Compute powers N - 1 to 0 of a vector's elements, or 0 to N - 1 with `increasing`.

    >>> torch.vander(torch.tensor([1, 2, 3]))
    tensor([[1, 1, 1],
            [4, 2, 1],
            [9, 3, 1]])
    """
    if x._array.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    count = x.shape[0] if N is None else N
    if count < 0:
        raise RuntimeError("N must be non-negative.")
    column = x.to(promote_types(x.dtype, int64)).unsqueeze(-1)
    parts = [column * 0 + 1] if count else [column.narrow(-1, 0, 0)]
    for _ in range(count - 1):
        parts.append(parts[-1] * column)
    y = cat(parts, -1)
    return y if increasing else y.flip(-1)


@linalg_function()
def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Return the diagonals of matrices as a view.

    >>> torch.linalg.diagonal(torch.tensor([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]))
    tensor([[1, 4],
            [5, 8]])
    """
    return A.diagonal(offset, dim1, dim2)
