"""Variances and standard deviations over axes, alone or with the mean."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np

from ...native.foundation.user_frames import warn
from ...native.target.eager_costs import MAX_COUNTED_ROW_ELEMENTS
from ...tensor.narrow_dtypes import EIGHT_BIT, refuse_eight_bit
from ...tensor.tensor import Tensor
from ..core.axes import means_all_axes
from ..core.operator import Array
from ..core.out import write_result
from ..core.promotion import compute_dtype
from ..core.registry import composite, opaque
from ..core.sample_inputs import Rng, Sample
from ..core.scalar_conversion import number
from ..native.pointwise import try_kernel
from ..native.rows import reduce_axes
from .numpy_reductions import reduce_sum
from .reduce import Dims, choose_mean_dtype, count_along, mean, parse_axes, round_to, spread
from .tangent_sums import are_plain, sum_products

_QUIET = nullcontext()  # if nothing can be divided by zero; np.errstate takes 2 us


def _sample(rng: Rng) -> Iterator[Sample]:
    yield (rng.normal(size=(3, 4)), None, False, 1), {}
    yield (rng.normal(size=(3, 4)), 1, True, 0), {}


@opaque(name="_var", node="VarBackward0", expose=(), samples=_sample,
        ref=lambda x, dim, keepdim, correction: np.var(
            x, None if dim is None else dim, keepdims=keepdim, ddof=correction))
def _var(input: Array, dim: Dims, keepdim: bool, correction: float) -> Array:
    """Variance, with `correction` subtracted from the count."""
    if input.dtype in EIGHT_BIT:
        if dim is None or means_all_axes(dim):
            raise RuntimeError(f"std_var_all: Unsupported dtype {EIGHT_BIT[input.dtype]}")
        refuse_eight_bit(input, "std_cpu")
    kind = choose_mean_dtype(input, None, "var")
    axes = parse_axes(dim, input.ndim)
    inside = compute_dtype(kind)
    x = input if input.dtype == inside else input.astype(inside)
    n = count_along(input.shape, dim)
    if x.size > MAX_COUNTED_ROW_ELEMENTS and n > correction \
            and (squares := _sum_squares_in_kernels(x, axes, keepdim, n)) is not None:
        return round_to(squares / squares.dtype.type(n - correction), kind)
    with _QUIET if n > correction else np.errstate(all="ignore"):
        d = x - _compute_means(x, axes, n)
        square = (d * d.conj()).real if d.dtype.kind == "c" else np.multiply(
            d, d, out=d if input.ndim else None)
        total = reduce_sum(square, axes, None, None, keepdim)
        y = total / number(max(n - correction, 0), total.dtype)
    return round_to(y, kind if kind.kind != "c" else y.dtype)


def _compute_means(x: Array, axes: tuple[int, ...] | None, n: int) -> Array:
    """Return means whose sums are exact enough for equal numbers to have a variance of zero."""
    if x.__class__ is np.ndarray and x.dtype == np.float32:
        total = np.add.reduce(x, axes, np.float64, keepdims=True)
        return np.asarray(np.divide(total, n), np.float32)
    return reduce_sum(x, axes, None, None, True) / number(n, x.dtype)


def _sum_squares_in_kernels(
    x: Array, axes: tuple[int, ...] | None, keepdim: bool, n: int
) -> Array | None:
    """Sum the squared distances from the mean with kernels; None if they do not support x."""
    if x.__class__ is not np.ndarray or x.dtype.kind != "f":
        return None
    centre = reduce_axes(np.add, x, axes, True)
    if centre is None:
        return None
    centre /= n
    squares = try_kernel(
        _compute_square_distance, x, centre.reshape(()) if axes is None else centre
    )
    return None if squares is None else reduce_axes(np.add, squares, axes, keepdim)


def _compute_square_distance(x: Array, centre: Array) -> Array:
    d = x - centre
    return d * d


def _center(input: Tensor, dim: Dims) -> Tensor:
    return input - input.mean(None if means_all_axes(dim) else dim, True)


@_var.vjp
def _(g: Tensor, input: Tensor, dim: Dims, keepdim: bool, correction: float) -> Tensor:
    n = count_along(input.shape, dim)
    scale = 2 / (n - correction) if n > correction else math.nan
    return spread(g, input.shape, dim, keepdim) * (_center(input, dim) * scale)


def _push_variance(
    input: Array, input_t: Array | None, dim: Dims, keepdim: bool, correction: float
) -> tuple[Array, Array] | None:
    """Return a variance and its tangent, or None."""
    n = count_along(input.shape, dim)
    if input_t is None or not are_plain(input, input_t) or n <= correction:
        return None
    axes = parse_axes(dim, input.ndim)
    centre = reduce_axes(np.add, input, axes, True)
    if centre is None:
        centre = np.add.reduce(input, axes, keepdims=True)
    distance = input - centre / number(n, input.dtype)
    y = _var.operator.body(input, dim, keepdim, correction)
    slope = sum_products(distance, input_t, axes, keepdim)
    return y, slope * number(2 / (n - correction), y.dtype)


@_var.value_and_jvp
def _(
    input_t: Array | None, input: Array, dim: Dims, keepdim: bool, correction: float
) -> tuple[Array, Array] | None:
    return _push_variance(input, input_t, dim, keepdim, correction)


@opaque(name="_std", node="StdBackward0", expose=(), samples=_sample,
        ref=lambda x, dim, keepdim, correction: np.std(
            x, None if dim is None else dim, keepdims=keepdim, ddof=correction))
def _std(input: Array, dim: Dims, keepdim: bool, correction: float) -> Array:
    """Square root of the variance."""
    y = _var.operator.body(input, dim, keepdim, correction)
    return np.asarray(np.sqrt(y)).astype(y.dtype, copy=False)  # never below zero


@_std.vjp
def _(
    g: Tensor, input: Tensor, y: Tensor, dim: Dims, keepdim: bool, correction: float
) -> Tensor:
    n = count_along(input.shape, dim)
    scale = 1 / (n - correction) if n > correction else math.nan
    share = (g / y).masked_fill(y == 0, 0)
    return spread(share, input.shape, dim, keepdim) * (_center(input, dim) * scale)


@_std.value_and_jvp
def _(
    input_t: Array | None, input: Array, dim: Dims, keepdim: bool, correction: float
) -> tuple[Array, Array] | None:
    pair = _push_variance(input, input_t, dim, keepdim, correction)
    if pair is None:
        return None
    y = np.asarray(np.sqrt(pair[0]))
    return y, np.divide(pair[1], 2 * y, out=np.zeros_like(y), where=y != 0)


def _read_correction(
    name: str, input: Tensor, dim: Any, unbiased: Any, correction: float | None
) -> tuple[Dims, float]:
    """Return `dim` and the correction of the count, from either of PyTorch's two argument lists."""
    if isinstance(dim, bool):
        if unbiased is not None and not isinstance(unbiased, bool):
            raise TypeError(f"{name}() received an invalid combination of arguments")
        dim, unbiased = None, dim
    elif unbiased.__class__ in (int, float):
        raise TypeError(f"{name}() received an invalid combination of arguments: 'unbiased' must "
                        f"be bool, not {unbiased.__class__.__name__}")
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    shape = input._array.shape
    if 0 in shape or count_along(shape, dim) <= correction:
        warn(f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the "
             "reduction factor (input numel divided by output numel).")
    return dim, correction


@composite(numpy_names=True)
def var(
    input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *,
    correction: float | None = None, out: Tensor | None = None
) -> Tensor:
    """Variance over the axes `dim`, with divisor n - correction (default 1).

    >>> torch.var(torch.tensor([1., 3.])), torch.var(torch.tensor([1., 3.]), correction=0)
    (tensor(2.), tensor(1.))
    """
    dim, less = _read_correction("var", input, dim, unbiased, correction)
    return _var(input, dim, keepdim, less, out=out)


@composite(numpy_names=True)
def std(
    input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *,
    correction: float | None = None, out: Tensor | None = None
) -> Tensor:
    """Standard deviation over the axes `dim`, with divisor n - correction (default 1).

    >>> torch.std(torch.tensor([1., 3.])), torch.std(torch.tensor([1., 3.]), correction=0)
    (tensor(1.4142), tensor(1.))
    """
    dim, less = _read_correction("std", input, dim, unbiased, correction)
    y = _std(input, dim, keepdim, less)
    return y if out is None else write_result("std", y, out)


@composite(expose=("torch",), numpy_names=True, node="VarMeanBackward0")
def var_mean(
    input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *,
    correction: float | None = None
) -> tuple[Tensor, Tensor]:
    """Return the variance and the mean over the axes `dim`.

    >>> torch.var_mean(torch.tensor([[1., 3.], [2., 2.]]), dim=1)
    (tensor([2., 0.]), tensor([2., 2.]))
    """
    dim, less = _read_correction("var_mean", input, dim, unbiased, correction)
    return _var(input, dim, keepdim, less), mean(input, dim, keepdim)


@composite(expose=("torch",), numpy_names=True, node="StdMeanBackward0")
def std_mean(
    input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *,
    correction: float | None = None
) -> tuple[Tensor, Tensor]:
    """Return the standard deviation and the mean over the axes `dim`.

    >>> torch.std_mean(torch.tensor([[1., 3.], [2., 2.]]), dim=1)
    (tensor([1.4142, 0.0000]), tensor([2., 2.]))
    """
    dim, less = _read_correction("std_mean", input, dim, unbiased, correction)
    return _std(input, dim, keepdim, less), mean(input, dim, keepdim)
