"""Norms of vectors and matrices: vector_norm defines the derivatives, the others call it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...native.target.eager_costs import MAX_COUNTED_ROW_ELEMENTS
from ...tensor.dtypes import FROM_NUMPY, HALF, dtype as Dtype
from ...tensor.promotion import legacy_name, promote_types
from ...tensor.tensor import Tensor
from ..core.axes import canonicalize_dim, canonicalize_dims, means_all_axes
from ..core.operator import PUBLIC, Array, publish
from ..core.out import write_result
from ..core.out_dtypes import check_out_dtype
from ..core.promotion import compute_dtype
from ..core.registry import composite, opaque
from ..core.sample_inputs import Rng, Sample
from ..native.rows import reduce_axes
from .numpy_reductions import reduce_max, reduce_min, reduce_sum
from .reduce import Dims, parse_axes, spread
from .tangent_sums import are_plain, sum_products

_dot_rows: Any = np.vecdot  # NumPy's stubs lack `axis`


def _sample_vectors(rng: Rng) -> Iterator[Sample]:
    x = rng.uniform(0.3, 2, (3, 4)) * rng.choice([-1.0, 1.0], (3, 4))
    for order in (2, 1, 3, 0.5, math.inf, -math.inf, -2):
        yield (x, order, 1), {}
    yield (x,), {"keepdim": True}
    yield (rng.uniform(0.3, 2, (2, 3, 2)), 2, (0, -1)), {}


def check_floating(input: Array, name: str) -> None:
    """Raise RuntimeError for a dtype that is neither floating point nor complex."""
    kind = FROM_NUMPY[input.dtype]
    if not (kind.is_floating_point or kind.is_complex):
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got "
                           f"{legacy_name(kind).removesuffix('Type')}")


def check_norm_dtype(input: Array, dtype: Any, name: str) -> None:
    """Raise RuntimeError for a `dtype` in which the norm of `input` cannot be computed."""
    if dtype is None:
        return
    kind = FROM_NUMPY[input.dtype]
    spelled = legacy_name(dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"{name}: dtype should be floating point or complex, but got {spelled}")
    if kind.is_complex != dtype.is_complex:
        side = "complex" if kind.is_complex else "real"
        raise RuntimeError(f"{name}: dtype should be {side} for {side} inputs, but got {spelled}")
    if promote_types(kind, dtype) is not dtype:
        raise RuntimeError(
            f"{name}: the dtype of the input ({legacy_name(kind)}) should be convertible without "
            f"narrowing to the specified dtype ({spelled})"
        )


def _needs_elements(input: Array, order: float, axes: tuple[int, ...] | None) -> None:
    if input.size or (order >= 0 and order != math.inf):
        return
    shown = f"{order:g}"
    for axis in axes or ():
        if input.shape[axis] == 0:
            raise RuntimeError(
                f"linalg.vector_norm cannot compute the {shown} norm on the dimension {axis}"
                "because this dimension is empty and the operation does not have an identity"
            )
    if axes is None:
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {shown} norm on an empty tensor because the "
            "operation does not have an identity"
        )


def _measure_2_norm(x: Array, axes: tuple[int, ...] | None, keepdim: bool) -> Any:
    """Return the root of the sum of squares, by BLAS's dot if the elements are contiguous."""
    if axes is None and x.flags.c_contiguous:
        flat = x.reshape(-1)
        total = np.sqrt(np.vdot(flat, flat).real)
        return total.reshape((1,) * x.ndim) if keepdim else total
    if axes is not None and len(axes) == 1 and x.dtype.kind == "f" and not keepdim and (
        x.strides[axes[0]] == x.itemsize
    ):
        return np.sqrt(_dot_rows(x, x, axis=axes[0]))
    square = x.real**2 + x.imag**2 if x.dtype.kind == "c" else np.multiply(x, x)
    return np.sqrt(reduce_sum(square, axes, None, None, keepdim))


def _measure_norm(x: Array, order: float, axes: tuple[int, ...] | None, keepdim: bool) -> Any:
    """The norm of a float32 or wider array."""
    if order == 2:
        return _measure_2_norm(x, axes, keepdim)
    size = np.abs(x)
    if order == 1:
        return reduce_sum(size, axes, None, None, keepdim)
    if order == 0:
        return reduce_sum((size != 0).astype(size.dtype), axes, None, None, keepdim)
    if order in (math.inf, -math.inf):
        return (reduce_max if order > 0 else reduce_min)(size, axes, None, None, keepdim)
    total = reduce_sum(size**order, axes, None, None, keepdim)
    return np.power(total, size.dtype.type(1 / order))


# By norm order: the reduction of a kernel, and the formula of each term.
_KERNELS: dict[float, tuple[np.ufunc, str]] = {
    1: (np.add, "absolute"), 2: (np.add, "square"), math.inf: (np.maximum, "absolute"),
    -math.inf: (np.minimum, "absolute"),
}


def _measure_in_kernel(
    x: Array, order: float, axes: tuple[int, ...] | None, keepdim: bool
) -> Array | None:
    """Return the norm of a large array from a kernel, or None."""
    if order not in _KERNELS:
        return None
    fold, formula = _KERNELS[order]
    y = reduce_axes(fold, x, axes, keepdim, formula)
    return np.sqrt(y) if y is not None and order == 2 else y


@opaque(name="_vector_norm", node="LinalgVectorNormBackward0", expose=(), holomorphic=False,
        samples=_sample_vectors, kernel="norm_cpu",
        ref=lambda x, ord=2, dim=None, keepdim=False: np.linalg.vector_norm(
            x, axis=dim, keepdims=keepdim, ord=ord))
def _vector_norm(
    input: Array, ord: float = 2, dim: Dims = None, keepdim: bool = False,
    dtype: Dtype | None = None
) -> Array:
    """The norm of the elements along `dim`, (sum |x|^ord)^(1/ord)."""
    check_floating(input, "linalg.vector_norm")
    check_norm_dtype(input, dtype, "linalg.vector_norm")
    kind = input.dtype if dtype is None else dtype.numpy
    axes = parse_axes(dim, input.ndim)
    _needs_elements(input, ord, axes)
    inside = compute_dtype(kind)
    if input.size > MAX_COUNTED_ROW_ELEMENTS and kind == input.dtype \
            and (y := _measure_in_kernel(input, ord, axes, keepdim)) is not None:
        return y.astype(kind, copy=False)
    y = np.asarray(_measure_norm(input if input.dtype == inside else input.astype(inside),
                                 ord, axes, keepdim))
    return y.astype(kind) if FROM_NUMPY[kind] in HALF else y


@_vector_norm.vjp
def _(g: Tensor, input: Tensor, y: Tensor, ord: float, dim: Dims, keepdim: bool) -> Tensor:
    if ord == 0:
        return input * 0
    g, y = (spread(t, input.shape, dim, keepdim) for t in (g, y))
    if ord == 2:
        return g * (input / y).masked_fill(y == 0, 0)
    if ord == 1:
        return g * input.sgn()
    size = input.abs()
    if ord in (math.inf, -math.inf):
        is_extreme = ((size == y) | size.isnan()).to(g.dtype)
        return input.sgn() * (g * is_extreme / is_extreme.sum(None if means_all_axes(dim) else dim,
                                                              True))
    if ord < 1:
        scaled = input.sgn() * size.pow(ord - 1).masked_fill(size == 0, 0)
        return scaled * (g * y.pow(1 - ord))
    if ord < 2:
        return input.sgn() * size.pow(ord - 1) * (g * y.pow(1 - ord)).masked_fill(y == 0, 0)
    return input * size.pow(ord - 2) * (g / y.pow(ord - 1)).masked_fill(y == 0, 0)


@_vector_norm.value_and_jvp
def _(
    input_t: Array | None, input: Array, ord: float, dim: Dims, keepdim: bool, dtype: Dtype | None
) -> tuple[Array, Array] | None:
    if ord != 2 or dtype is not None or input_t is None or not are_plain(input, input_t):
        return None
    y = _vector_norm.operator.body(input, ord, dim, keepdim, dtype)
    dot = sum_products(input, input_t, parse_axes(dim, input.ndim), keepdim)
    return y, np.divide(dot, y, out=np.zeros_like(y), where=y != 0)


def _check_target(name: str, A: Tensor, dtype: Dtype | None, out: Tensor | None) -> None:
    """RuntimeError unless `out` has the dtype of a norm of A, real if A is complex."""
    if out is not None:
        kind = A.dtype if dtype is None else dtype
        check_out_dtype(name, kind.to_real() if kind.is_complex else kind, out.dtype)


@composite(expose=("linalg",), numpy_names=True)
def vector_norm(
    x: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *,
    dtype: Dtype | None = None, out: Any = None
) -> Tensor:
    """Vector norm along `dim`, or of all elements: (sum |x|^ord)^(1/ord).

    `ord` may also be 0 (count of nonzeros), inf (largest magnitude) or -inf (smallest).

    >>> torch.linalg.vector_norm(torch.tensor([3., 4.]))
    tensor(5.)
    """
    if not isinstance(ord, (int, float, np.number)):
        raise TypeError("linalg_vector_norm(): argument 'ord' (position 2) must be Number, not "
                        f"{type(ord).__name__}")
    return _vector_norm(x, float(ord), dim, keepdim, dtype, out=out)


@composite(name="_powsum", expose=("linalg",), numpy_names=True)
def powsum(
    x: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *,
    dtype: Dtype | None = None, out: Any = None
) -> Tensor:
    """Sum of |x|^ord along `dim`, or over all elements; a vector norm before its root.

    >>> torch.linalg._powsum(torch.tensor([3., 4.]))
    tensor(25.)
    """
    powers = x.to(dtype or x.dtype).abs().pow(ord)
    return powers.sum(() if dim is None else dim, keepdim, out=out)


# --------------------------------------------------------------------------------- matrices


def _normalize_matrix_axes(A: Tensor, dim: Any) -> tuple[int, int]:
    shape = A._array.shape
    if len(shape) < 2:
        raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions."
                           f" (shape {list(shape)})")
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) != 2:
        raise RuntimeError(
            f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, dims))}"
        )
    a, b = (canonicalize_dim(d, len(shape)) for d in dims)
    if a == b:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({a}, {b})")
    return a, b


def _refuse_half(A: Tensor) -> None:
    if A.dtype in HALF:
        raise RuntimeError("linalg.matrix_norm: Low precision dtypes not supported. Got "
                           f"{legacy_name(A.dtype)}")


def _measure_singular_values(
    A: Tensor, ord: Any, axes: tuple[int, int], keepdim: bool
) -> Tensor:
    """Return the nuclear norm, or the largest (2) or smallest (-2) singular value."""
    _refuse_half(A)
    values = PUBLIC["linalg"]["svdvals"](A.movedim(axes, (-2, -1)))
    if ord == "nuc" or values.shape[-1] == 0:
        y = values.sum(-1)
    else:
        y = values.amax(-1) if ord > 0 else values.amin(-1)
    if keepdim:
        for axis in sorted(axes):
            y = y.unsqueeze(axis)
    return y


def _measure_row_sums(A: Tensor, ord: Any, axes: tuple[int, int], keepdim: bool) -> Tensor:
    """Return the largest (1, inf) or smallest (-1, -inf) column or row sum of magnitudes."""
    summed, chosen = axes if abs(ord) == 1 else axes[::-1]
    sums = _vector_norm(A, 1.0, (summed,), True)
    if sums.shape[chosen] == 0 and ord > 0:
        y = sums.sum(chosen, True)
    else:
        y = sums.amax(chosen, True) if ord > 0 else sums.amin(chosen, True)
    return y if keepdim else y.squeeze(axes)


@composite(expose=("linalg",), numpy_names=True)
def matrix_norm(
    A: Tensor, ord: float | str = "fro", dim: int | Sequence[int] = (-2, -1), keepdim: bool = False,
    *, dtype: Dtype | None = None, out: Any = None
) -> Tensor:
    """Matrix norm of order 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2.

    Args:
        dim (tuple of ints): The axes of the rows and columns.
        ord: The order: 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2.

    >>> torch.linalg.matrix_norm(torch.tensor([[1., -2.], [3., 4.]]), 1)
    tensor(6.)
    """
    check_floating(A._array, "linalg.matrix_norm")
    axes = _normalize_matrix_axes(A, dim)
    check_norm_dtype(A._array, dtype, "linalg.matrix_norm")
    _check_target("linalg_matrix_norm", A, dtype, out)
    if dtype is not None and dtype is not A.dtype:
        A = A.to(dtype)
    if ord == "fro":
        return _vector_norm(A, 2.0, axes, keepdim, out=out)
    if ord == "nuc" or (not isinstance(ord, str) and abs(ord) == 2):
        y = _measure_singular_values(A, ord, axes, keepdim)
        return y if out is None else write_result("linalg_matrix_norm", y, out)
    if not isinstance(ord, str) and abs(ord) in (1, math.inf):
        y = _measure_row_sums(A, ord, axes, keepdim)
        return y if out is None else write_result("linalg_matrix_norm", y, out)
    shown = ord if isinstance(ord, str) else f"{ord:g}"
    raise RuntimeError(f"linalg.matrix_norm: Order {shown} not supported.")


@composite(expose=(), numpy_names=True)
def linalg_norm(
    A: Tensor, ord: float | str | None = None, dim: int | None = None, keepdim: bool = False, *,
    out: Any = None, dtype: Dtype | None = None
) -> Tensor:
    """Vector norm, or matrix norm if `ord` and the number of axes call for one.

    >>> x = torch.tensor([[3., 0.], [0., 4.]])
    >>> torch.linalg.norm(x), torch.linalg.norm(x, "nuc"), torch.linalg.norm(x, 1, dim=0)
    (tensor(5.), tensor(7.), tensor([3., 4.]))
    """
    axes = None if dim is None else [dim] if isinstance(dim, (int, np.integer)) else list(dim)
    rank = A._array.ndim
    if axes is not None and len(axes) not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {axes}"
        )
    if axes is None and ord is not None and rank not in (1, 2):
        raise RuntimeError("linalg.norm: If dim is not specified but ord is, the input must be 1D "
                           f"or 2D. Got {rank}D.")
    _check_target("linalg_norm", A, dtype, out)
    if isinstance(ord, str) or (ord is not None and (len(axes) if axes else rank) == 2):
        where = tuple(range(rank)) if axes is None else tuple(axes)
        return matrix_norm(A, ord, where if len(where) != 1 or rank > 1 else (-2, -1), keepdim,
                           dtype=dtype, out=out)
    return vector_norm(A, 2 if ord is None else ord, axes, keepdim, dtype=dtype, out=out)


publish(linalg_norm, ("norm",), ("linalg",))


@composite(explains=True)
def norm(
    input: Tensor, p: float | str = "fro", dim: Any = None, keepdim: bool = False, out: Any = None,
    dtype: Dtype | None = None
) -> Any:
    """Norm along `dim`, or of all elements: 'fro' (2), 'nuc', or a number as in vector_norm.

    >>> torch.tensor([3., 4.]).norm()
    tensor(5.)
    """
    axes = None if dim is None else [dim] if isinstance(dim, (int, np.integer)) else list(dim)
    if isinstance(p, str):
        if p == "fro" and (axes is None or len(axes) <= 2):
            return _vector_norm(input, 2.0, axes, keepdim, dtype, out=out)
        where = tuple(range(input._array.ndim)) if axes is None else tuple(axes)
        return matrix_norm(input, p, where, keepdim, dtype=dtype, out=out)
    return vector_norm(input, 2 if p is None else p, axes, keepdim, dtype=dtype, out=out)


@composite(expose=("torch",))
def nuclear_norm(
    input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *,
    out: Tensor | None = None
) -> Tensor:
    """Nuclear norm of a matrix, the sum of its singular values.

    >>> torch.nuclear_norm(torch.diag(torch.tensor([3., -4.])))
    tensor(7.)
    """
    return matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim, out=out)


@composite(expose=("torch",), explains=True)
def frobenius_norm(
    input: Tensor, dim: int | Sequence[int], keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """Frobenius norm along `dim`, the square root of the sum of squares.

    >>> torch.frobenius_norm(torch.tensor([[3., 4.], [6., 8.]]), dim=1)
    tensor([ 5., 10.])
    """
    return _vector_norm(input, 2.0, canonicalize_dims(dim, input._array.ndim), keepdim, out=out)


@composite(expose=("torch",), explains=True)
def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """Norm over every axis except `dim`, which is kept; -1 reduces all axes.

    Args:
        dim (int): The axis to keep. -1: none.

    >>> torch.norm_except_dim(torch.tensor([[3., 4.], [6., 8.]]), 2, 0)
    tensor([[ 5.],
            [10.]])
    """
    if dim == -1:
        return norm(v, pow)
    axes = [i for i in range(v._array.ndim) if i != canonicalize_dim(dim, v._array.ndim)]
    return vector_norm(v, pow, axes, True) if axes else v.abs()
