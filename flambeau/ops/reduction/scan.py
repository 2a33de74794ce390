"""Scans along an axis: cumsum, cumprod, cummax, cummin, logcumsumexp, diff, trapezoid."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.mode import is_grad_enabled
from ...native.target.eager_costs import MAX_NUMPY_ROW_ELEMENTS
from ...tensor.capture_marks import are_all_true, holds
from ...tensor.dtypes import dtype as Dtype
from ...tensor.overlap import Overlap
from ...tensor.promotion import refuse_complex
from ...tensor.tensor import Tensor
from ..core.axes import canonicalize_dim
from ..core.operator import Array, Number
from ..core.out import write_result
from ..core.promotion import compute_dtype
from ..core.registry import composite, opaque
from ..core.return_types import return_type
from ..core.sample_inputs import scans
from ..native import scan
from ..native.route import native_route
from ..native.scan import scan_axis
from ..pointwise.exponential import log1p_of_complex
from ..view.join import cat
from .reduce import round_to, sum_dtype
from .tangent_sums import are_plain


@opaque(extents_follow=True, kernel="cumsum_out_cpu", dtype_of_out=True, overlap=Overlap.SAME,
        linear_in="input", ref=lambda x, dim: np.cumsum(x, dim), samples=scans, inplace=True)
def cumsum(input: Array, dim: int, *, dtype: Dtype | None = None) -> Array:
    """Cumulative sum along an axis.

    >>> torch.tensor([1, 2, 3]).cumsum(0)
    tensor([1, 3, 6])
    """
    kind = sum_dtype(input, dtype)
    axis = canonicalize_dim(dim, input.ndim)
    if not input.ndim:
        return input.astype(kind)
    if input.size > MAX_NUMPY_ROW_ELEMENTS and (kind == input.dtype or kind == np.int64) and (
        result := scan_axis(np.add, input.astype(kind, copy=False), axis)
    ) is not None:
        return _add_to_zero(result[0], axis)
    return _add_to_zero(round_to(np.cumsum(input, axis, compute_dtype(kind)), kind), axis)


def _add_to_zero(sums: Array, axis: int) -> Array:
    """Return sums that began with their first element as sums that begin at 0.0, which are never
    -0.0; those of programs begin there."""
    return sums if (begun := _begin_at_zero(sums, axis)) is None else begun


@native_route
def _begin_at_zero(sums: Array, axis: int) -> Array | None:
    if not sums.size or sums.dtype.kind not in "fc" or sums.take([0], axis).all():
        return None
    return np.add(sums, 0, out=sums)


@cumsum.vjp
def _(g: Tensor, dim: int) -> Tensor:
    if not g.dim() or g.shape[dim] == 1:
        return g
    return g.flip(dim).cumsum(dim).flip(dim)


@opaque(ref=lambda x, dim: np.cumprod(x, dim), samples=scans, inplace=True,
        kernel="cumprod_out_cpu", dtype_of_out=True, overlap=Overlap.SAME)
def cumprod(input: Array, dim: int, *, dtype: Dtype | None = None) -> Array:
    """Cumulative product along an axis.

    >>> torch.cumprod(torch.tensor([1, 2, 3, 4]), dim=0)
    tensor([ 1,  2,  6, 24])
    """
    kind = sum_dtype(input, dtype)
    axis = canonicalize_dim(dim, input.ndim)
    if not input.ndim:
        return input.astype(kind)
    if input.size > MAX_NUMPY_ROW_ELEMENTS and kind == input.dtype \
            and (result := scan_axis(np.multiply, input, axis)) is not None:
        return result[0]
    return round_to(np.cumprod(input, axis, compute_dtype(kind)), kind)


@cumprod.vjp
def _(g: Tensor, input: Tensor, dim: int, dtype: Dtype | None) -> Tensor:
    if not input.dim() or not input.numel():
        return g
    x = input if dtype is None else input.to(dtype)
    if holds(x.detach() != 0, are_all_true):
        return (g * x.cumprod(dim)).flip(dim).cumsum(dim).flip(dim) / x
    n = x.shape[dim]  # with zeros: each element's share, product by product
    shares = []
    for k in range(n):
        head = x.narrow(dim, 0, k)
        rest = x.narrow(dim, k + 1, n - k - 1)
        ones = x.narrow(dim, k, 1) * 0 + 1
        before = head.prod(dim, keepdim=True) if k else ones
        products = before * cat([ones, rest], dim).cumprod(dim)
        shares.append((g.narrow(dim, k, n - k) * products).sum(dim, keepdim=True))
    return cat(shares, dim)


@cumprod.value_and_jvp
def _(
    input_t: Array | None, input: Array, dim: int, dtype: Dtype | None
) -> tuple[Array, Array] | None:
    if dtype is not None or input_t is None or not input.ndim or not are_plain(input, input_t):
        return None
    y = cumprod.operator.body(input, dim)
    if not y.all() or not np.isfinite(y).all():  # zeros, underflow: others' products are needed
        return None
    shares = cumsum.operator.body(input_t / input, dim)
    return y, np.multiply(y, shares, out=shares)


def _scan_number(name: str, input: Array, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the running extreme of a 0-dim array, which takes dim 0 or -1, and its index."""
    if dim not in (0, -1):
        raise IndexError(f"{name}(): Expected reduction dim -1 or 0 for scalar but got {dim}")
    return input.copy(), np.zeros((), np.int64)


def _declare_running(name: str, ufunc: np.ufunc) -> Any:
    def body(input: Array, dim: int) -> tuple[np.ndarray, ...]:
        refuse_complex(input, f"{name}_cpu")
        if not input.ndim:
            return _scan_number(name, input, dim)
        axis = canonicalize_dim(dim, input.ndim)
        if input.size > MAX_NUMPY_ROW_ELEMENTS \
                and (match := scan_axis(ufunc, input, axis, True)) is not None:
            return match
        values = ufunc.accumulate(input, axis) if input.size else input.copy()
        numbers = np.arange(input.shape[axis]).reshape([-1 if i == axis else 1
                                                     for i in range(input.ndim)])
        same = (input == values) | ((input != input) & (values != values))
        last_equal = np.maximum.accumulate(np.where(same, numbers, 0), axis) if input.size else \
            np.zeros(input.shape, np.int64)
        return values, last_equal.astype(np.int64)

    body.__name__ = name
    body.__doc__ = f"""The {name[3:]}imum of the elements so far along an axis, and its last index.

    >>> torch.{name}(torch.tensor([2, 1, 3, 2]), 0).values
    tensor([{"2, 2, 3, 3" if name == "cummax" else "2, 1, 1, 1"}])
    """
    new = opaque(result_type=return_type(name, "values", "indices"), constant_outputs=(1,),
                 index_output=1, samples=scans, kernel=f"{name}_cpu", overlap=Overlap.SAME,
                 ref=lambda x, dim: ufunc.accumulate(x, dim))(body)

    @new.vjp
    def _(
        gs: tuple[Tensor, None], ys: tuple[Tensor, ...], input_shape: tuple[int, ...], dim: int
    ) -> Tensor:
        if not input_shape:
            return gs[0]
        return gs[0].new_zeros(input_shape).scatter_add(dim, ys[1], gs[0])

    @new.jvp
    def _(input_t: Tensor, ys: tuple[Tensor, ...], dim: int) -> tuple[Tensor | None, ...]:
        return (input_t.gather(dim, ys[1]) if input_t.dim() else input_t), None

    return new


cummax, cummin = _declare_running("cummax", np.maximum), _declare_running("cummin", np.minimum)


def _logcumsumexp_ref(x: np.ndarray, dim: int) -> np.ndarray:
    return np.log(np.cumsum(np.exp(x), dim))


@opaque(ref=_logcumsumexp_ref, samples=scans, kernel="logcumsumexp_out_cpu",
        overlap=Overlap.SAME)
def logcumsumexp(input: Array, dim: int) -> Array:
    """Logarithm of the cumulative sum of exp(input) along an axis.

    >>> torch.logcumsumexp(torch.tensor([1000., 1000.]), 0)
    tensor([1000.0000, 1000.6932])
    """
    if input.dtype.kind not in "fcV":
        raise RuntimeError(f'"logcumsumexp_out_cpu" not implemented for {input.dtype}')
    axis = canonicalize_dim(dim, input.ndim)
    if not input.ndim or not input.size:
        return input.copy()
    if input.dtype.kind == "c":
        return _complex_logcumsumexp(input, axis)
    kind = compute_dtype(input.dtype)
    if input.size > MAX_NUMPY_ROW_ELEMENTS \
            and (y := scan.logcumsumexp(input.astype(kind, copy=False), axis)) is not None:
        return round_to(y, input.dtype)
    return round_to(np.logaddexp.accumulate(input.astype(kind, copy=False), axis), input.dtype)


def _complex_logcumsumexp(input: Array, axis: int) -> Array:
    """The same of complex numbers, step by step: the phase is that of the largest term so far,
    and is not wrapped."""
    rows = np.moveaxis(input, axis, 0)
    y = np.empty_like(rows)
    total = np.full(rows.shape[1:], -np.inf, rows.dtype)
    with np.errstate(all="ignore"):
        for i, term in enumerate(rows):
            total = y[i] = _add_complex_exponentials(term, total)
    return np.ascontiguousarray(np.moveaxis(y, 0, axis))


def _add_complex_exponentials(x: Array, y: Array) -> Array:
    """log(exp(x) + exp(y)), with PyTorch's choices where a real part is infinite or NaN."""
    below = x.real < y.real
    smaller, larger = np.where(below, x, y), np.where(below, y, x)
    result = log1p_of_complex(np.exp(smaller - larger)) + larger
    equal = np.isinf(smaller.real) & (smaller.real == larger.real)
    result = np.where(equal & (smaller.real < 0), smaller, result)
    result = np.where(equal & (smaller.real > 0), np.log(np.exp(smaller) + np.exp(larger)), result)
    missing = np.isnan(x) | np.isnan(y)
    return np.where(missing, np.asarray(complex(np.nan, np.nan), x.dtype), result)


@logcumsumexp.vjp
def _(g: Tensor, input: Tensor, y: Tensor, dim: int) -> Tensor:
    if not input.dim():
        return g
    if g.is_complex() or is_grad_enabled():  # plain, so that it differentiates again
        top = input.detach().amax(dim, True) if not g.is_complex() else 0
        return (g * (top - y).exp()).flip(dim).cumsum(dim).flip(dim) * (input - top).exp()
    sides = []
    for sign in (1, -1):  # in logarithms, the positive and the negative part apart
        size = (g * sign).clamp(min=0).log()
        sides.append(((size - y).flip(dim).logcumsumexp(dim).flip(dim) + input).exp())
    return sides[0] - sides[1]


def _check_side(input: Tensor, side: Tensor, at: int) -> None:
    """RuntimeError for a tensor to prepend or append whose shape does not fit."""
    if side._array.ndim != input._array.ndim:
        raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    for axis, (n, m) in enumerate(zip(input._array.shape, side._array.shape, strict=True)):
        if n != m and axis != at:
            raise RuntimeError(
                "diff expects the shape of tensor to prepend or append to match that of input "
                f"except along the differencing dimension; input.size({axis}) = {n}, but got "
                f"tensor.size({axis}) = {m}"
            )


@composite(explains=True)
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None,
    append: Tensor | None = None, *, out: Tensor | None = None
) -> Tensor:
    """n-th difference of neighboring elements along an axis.

    >>> torch.diff(torch.tensor([1, 4, 9, 16]))
    tensor([3, 5, 7])
    >>> torch.diff(torch.tensor([1, 4, 9, 16]), n=2)
    tensor([2, 2])
    """
    if not input._array.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    axis = canonicalize_dim(dim, input._array.ndim)
    parts = [x for x in (prepend, input, append) if x is not None]
    for side in (prepend, append):
        if side is not None:
            _check_side(input, side, axis)
    y = cat(parts, axis) if len(parts) > 1 else input
    for _ in range(min(n, y._array.shape[axis])):
        length = y._array.shape[axis]
        later, earlier = y.narrow(axis, 1, length - 1), y.narrow(axis, 0, length - 1)
        y = later ^ earlier if y._array.dtype == np.bool_ else later - earlier
    y = y.clone() if y is input else y
    return y if out is None else write_result("diff", y, out)


def _compute_spacing(x: Any, dx: Any, y: Tensor, axis: int) -> Any:
    """The widths between the points, shaped to multiply along the axis."""
    if x is None:
        return 1 if dx is None else dx
    widths = x.diff(dim=-1 if x._array.ndim == 1 else axis)
    if x._array.ndim == 1:
        shape = [1] * y._array.ndim
        shape[axis] = -1
        return widths.reshape(shape)
    return widths


def _compute_trapezoids(y: Tensor, x: Any, dx: Any, dim: int) -> tuple[Tensor, int]:
    axis = canonicalize_dim(dim, y._array.ndim)
    n = y._array.shape[axis]
    if n == 0:
        raise RuntimeError("trapezoid: cannot integrate over an empty axis")
    widths = _compute_spacing(x, dx, y, axis)
    return (y.narrow(axis, 1, n - 1) + y.narrow(axis, 0, n - 1)) * widths / 2, axis


@composite(aliases=("trapz",), expose=("torch",), explains=True)
def trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Number | None = None, dim: int = -1
) -> Tensor:
    """Integrate along an axis by the trapezoidal rule, with points `x` or spacing `dx`.

    >>> torch.trapezoid(torch.tensor([0., 2., 4.]))
    tensor(4.)
    """
    if y._array.shape and y._array.shape[dim] == 0:
        return y.sum(dim).to(y.dtype)
    pieces, axis = _compute_trapezoids(y, x, dx, dim)
    return pieces.sum(axis)


@composite(expose=("torch",), explains=True)
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Number | None = None, dim: int = -1
) -> Tensor:
    """Cumulative integral along an axis by the trapezoidal rule.

    >>> torch.cumulative_trapezoid(torch.tensor([0., 2., 4.]))
    tensor([1., 4.])
    """
    if y._array.ndim and not y._array.shape[canonicalize_dim(dim, y._array.ndim)]:
        return y.new_empty(y._array.shape)
    pieces, axis = _compute_trapezoids(y, x, dx, dim)
    return pieces.cumsum(axis)
