"""Sums, means, products, any, all and counts over axes; the rules that all reductions share."""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from ...autograd.unbroadcast import find_repeated_axes
from ...native.target.eager_costs import (
    MAX_COUNTED_ROW_ELEMENTS, MAX_NUMPY_MEAN_ELEMENTS,
)
from ...tensor import dtypes as types
from ...tensor.dtypes import FLOATS, FROM_NUMPY, HALF, dtype as Dtype
from ...tensor.narrow_dtypes import refuse_eight_bit
from ...tensor.promotion import legacy_name
from ...tensor.tensor import Tensor, wrap
from ..core.autocast import Policy
from ..core.axes import canonicalize_dim, canonicalize_dims, means_all_axes
from ..core.operator import Array
from ..core.out import write_result
from ..core.promotion import compute_dtype
from ..core.registry import Declared, composite, opaque
from ..core.sample_inputs import Rng, Sample, reductions
from ..core.scalar_conversion import number
from ..native.pointwise import try_kernel
from ..native.rows import is_worth_reducing, reduce_axes
from ..view.join import cat
from .numpy_reductions import reduce_product, reduce_sum
from .tangent_sums import are_plain, sum_products

Dims = int | Sequence[int] | None  # None and () stand for all axes


# ------------------------------------------------------------------------------ shared rules


def parse_axes(dim: Dims, ndim: int) -> tuple[int, ...] | None:
    """Return NumPy's `axis` for a `dim`; None for all axes."""
    if dim.__class__ is int and ndim:
        return (canonicalize_dim(dim, ndim),)
    if dim.__class__ is tuple and len(dim) == 1 and dim[0].__class__ is int and ndim:
        return (canonicalize_dim(dim[0], ndim),)
    if dim is None or means_all_axes(dim):
        return None
    return canonicalize_dims(dim, ndim)


def count_along(shape: Sequence[int], dim: Dims) -> int:
    """Return the number of elements reduced to one."""
    if dim.__class__ is int and shape:
        return shape[canonicalize_dim(dim, len(shape))]
    axes = parse_axes(dim, len(shape))
    return math.prod(shape if axes is None else [shape[axis] for axis in axes])


def sum_dtype(input: Array, dtype: Dtype | None) -> np.dtype:
    """Return the dtype of a sum: `dtype`, else int64 for integers and bools, else the input's."""
    if dtype is not None:
        return dtype.numpy
    return types.int64.numpy if input.dtype.kind in "biu" else input.dtype


def choose_mean_dtype(input: Array, dtype: Dtype | None, name: str) -> np.dtype:
    """Return the dtype of a mean or variance; raise RuntimeError for integers and bools."""
    kind = FROM_NUMPY[input.dtype] if dtype is None else dtype
    if not (kind.is_floating_point or kind.is_complex):
        subject = "Input" if dtype is None else "Optional"
        raise RuntimeError(
            f"{name}(): could not infer output dtype. {subject} dtype must be either a floating "
            f"point or complex dtype. Got: {legacy_name(kind)}"
        )
    return input.dtype if dtype is None else dtype.numpy


def round_to(y: Any, kind: np.dtype) -> Array:
    """Cast a result from the dtype of the computation to its final dtype."""
    y = np.asarray(y)
    return y if y.dtype == kind else y.astype(kind)


def spread(g: Tensor, shape: Sequence[int], dim: Dims, keepdim: bool) -> Tensor:
    """Expand a reduction's cotangent to the shape of its input, without a copy."""
    if g.__class__ is Tensor and not g._tracked and not g._array.ndim \
            and g._array.__class__ is np.ndarray:
        # Nothing records this and no subclass sees it: skip the operator's overhead.
        return wrap(np.ndarray(shape, g._array.dtype, g._array, 0, (0,) * len(shape)))
    if not keepdim and dim is not None and shape and dim != () and dim != []:
        axes = canonicalize_dims(dim, len(shape))
        g = g.reshape([1 if i in axes else n for i, n in enumerate(shape)])
    return g.expand(shape)


# -------------------------------------------------------------------------------------- sums


def reduces_axes(input: Any, dim: Dims = None, *_: Any) -> bool:
    """Whether axes are named: PyTorch differentiates reductions of everything separately."""
    return dim is not None


@opaque(extents_follow=True, linear_in="input", samples=reductions, kernel="sum_cpu",
        dtype_of_out=True,
        node=("SumBackward0", "SumBackward1"), overload=reduces_axes,
        ref=lambda x, dim=None, keepdim=False: x.sum(dim, keepdims=keepdim))
def sum(
    input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: Dtype | None = None
) -> Array:
    """Sum over the axes `dim`, by default all of them.

    >>> torch.tensor([[1., 2.], [3., 4.]]).sum(0)
    tensor([4., 6.])
    """
    if dtype is None and is_worth_reducing(input):
        y = reduce_axes(np.add, input, parse_axes(dim, input.ndim), keepdim)
        if y is not None:
            return round_to(y, sum_dtype(input, None))
    if dim is None and dtype is None and input.dtype.kind == "f" and input.itemsize > 2:
        return np.add.reduce(input, None, out=..., keepdims=keepdim)  # out=...: an array, always
    kind = sum_dtype(input, dtype)
    inside = types.float32.numpy if FROM_NUMPY[kind] in HALF else kind
    y = reduce_sum(input, parse_axes(dim, input.ndim), inside, None, keepdim)
    return y if inside == kind else np.asarray(y).astype(kind)


@sum.vjp
def _(g: Tensor, input_shape: tuple[int, ...], dim: Dims, keepdim: bool) -> Tensor:
    return spread(g, input_shape, dim, keepdim)


@composite(explains=True)
def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """Sum over the axes along which `size` would broadcast to the tensor's shape.

    >>> torch.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
    """
    if len(size) == 1 and not isinstance(size[0], int):
        size = tuple(size[0])
    shape = input._array.shape
    if not size:
        return sum(input)
    if shape == tuple(size):
        return input
    new = len(shape) - len(size)
    if new < 0 or builtins.any(n not in (1, m) for n, m in zip(size, shape[new:], strict=True)):
        raise RuntimeError(
            f"size {{{list(size)}}} is not expandable to size {{{list(shape)}}}."
        )
    axes = [*find_repeated_axes(shape, tuple(size))]
    if len(axes) == new:  # new memory, not a view: a leaf may keep it as its gradient
        return sum(input, axes)
    y = sum(input, axes, True) if axes else input
    return y.reshape(size) if new else y


@opaque(extents_follow=True, linear_in="input", samples=reductions,
        kernel="sum_cpu", dtype_of_out=True,
        node=("MeanBackward0", "MeanBackward1"), overload=reduces_axes,
        ref=lambda x, dim=None, keepdim=False: np.mean(x, dim, keepdims=keepdim))
def mean(
    input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: Dtype | None = None
) -> Array:
    """Arithmetic mean over the axes `dim`, by default all of them.

    >>> torch.tensor([1., 2., 6.]).mean()
    tensor(3.)
    """
    is_large = input.size > MAX_NUMPY_MEAN_ELEMENTS or dim is not None and is_worth_reducing(input)
    if dtype is None and input.size and not is_large and input.dtype in FLOATS \
            and input.__class__ is Array:
        axes = None if dim is None else parse_axes(dim, input.ndim)
        y = np.add.reduce(input, axes, out=..., keepdims=keepdim)
        return np.divide(y, number(input.size // y.size, input.dtype), out=...)
    kind = choose_mean_dtype(input, dtype, "mean")
    inside = compute_dtype(kind)
    axes, total = parse_axes(dim, input.ndim), None
    if is_large and dtype is None:
        total = reduce_axes(np.add, input, axes, keepdim)
    if total is None:
        total = reduce_sum(input, axes, inside, None, keepdim)
    return round_to(np.divide(total, inside.type(count_along(input.shape, dim))), kind)


@mean.vjp
def _(g: Tensor, input_shape: tuple[int, ...], dim: Dims, keepdim: bool) -> Tensor:
    return spread(g, input_shape, dim, keepdim) / count_along(input_shape, dim)


@opaque(name="_nansum", expose=(), node="NansumBackward0", samples=reductions, dtype_of_out=True,
        kernel="nansum_cpu",
        ref=lambda x, dim=None, keepdim=False: np.nansum(x, dim, keepdims=keepdim))
def _nansum(
    input: Array, dim: Dims = None, keepdim: bool = False, dtype: Dtype | None = None
) -> Array:
    """Sum, NaN counting as zero."""
    kind, axes = sum_dtype(input, dtype), parse_axes(dim, input.ndim)
    if input.size > MAX_COUNTED_ROW_ELEMENTS and kind == input.dtype \
            and (y := reduce_axes(np.add, input, axes, keepdim, "known")) is not None:
        return round_to(y, kind)
    known = np.where(np.isnan(input), input.dtype.type(0), input)
    return round_to(reduce_sum(known, axes, compute_dtype(kind), None, keepdim), kind)


@_nansum.vjp
def _(g: Tensor, input: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    return spread(g, input.shape, dim, keepdim) * input.isnan().logical_not()


@composite(numpy_names=True)
def nansum(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Dtype | None = None,
    out: Tensor | None = None
) -> Tensor:
    """Sum over the axes `dim`, treating NaN as zero.

    >>> torch.nansum(torch.tensor([1., float("nan"), 3.]))
    tensor(4.)
    """
    if input.dtype.is_complex:
        raise RuntimeError("nansum does not support complex inputs")
    if not input.dtype.is_floating_point:
        return sum(input, dim, keepdim, dtype=dtype, out=out)
    return _nansum(input, dim, keepdim, dtype, out=out)


@composite(numpy_names=True)
def nanmean(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Dtype | None = None,
    out: Tensor | None = None
) -> Tensor:
    """Mean over the axes `dim`, ignoring NaN.

    >>> torch.nanmean(torch.tensor([1., float("nan"), 3.]))
    tensor(2.)
    """
    if not (input.dtype.is_floating_point or input.dtype.is_complex):
        raise RuntimeError(
            "nanmean(): expected input to have floating point or complex dtype but got "
            f"{legacy_name(input.dtype)}"
        )
    count = input.isnan().logical_not().sum(dim, keepdim)
    y = _nansum(input, dim, keepdim, dtype) / count
    return y if out is None else write_result("nanmean", y, out)


# ---------------------------------------------------------------------------- tests and counts


def _sample_bools(rng: Rng) -> Iterator[Sample]:
    yield (rng.integers(0, 2, (3, 4)) > 0,), {}
    yield (rng.integers(0, 2, (3, 4)) > 0, 0), {}


def _declare_test(name: str, ufunc: np.ufunc) -> Declared:
    """Declare `any` or `all`."""

    def body(input: Array, dim: Dims = None, keepdim: bool = False) -> Array:
        if dim is None and not keepdim and input.dtype.kind == "b" and input.size \
                and input.__class__ is Array:
            first = input.argmax() if ufunc is np.logical_or else input.argmin()
            return np.array(input.item(first))  # half the time of ufunc.reduce
        kind = np.uint8 if input.dtype == np.uint8 else np.bool_
        axes = () if dim.__class__ in (tuple, list) and not dim else parse_axes(dim, input.ndim)
        y = ufunc.reduce(input.astype(np.bool_), axes, keepdims=keepdim)
        return np.asarray(y).astype(kind)

    body.__name__ = name
    body.__doc__ = f"""Whether {name} of the elements {"is" if name == "any" else "are"} true.

    Of an empty tensor: {name == "all"}. uint8 stays uint8, as in PyTorch.

    >>> torch.{name}(torch.tensor([[True, False], [True, True]]), dim=1)
    tensor([{"True, True" if name == "any" else "False,  True"}])
    """
    return opaque(differentiable=False, samples=_sample_bools,
                  ref=lambda x, dim=None: getattr(np, name)(x, dim))(body)


any, all = _declare_test("any", np.logical_or), _declare_test("all", np.logical_and)


@opaque(differentiable=False, ref=lambda x, dim=None: np.count_nonzero(x, dim),
        samples=lambda rng: iter([((rng.integers(0, 2, (3, 4)),), {}),
                                  ((rng.integers(0, 2, (3, 4)),), {"dim": 1})]))
def count_nonzero(input: Array, dim: Dims = None, *more: int) -> Array:
    """Count the nonzero elements, in total or along axes.

    Args:
        dim: The axes. None: all.
        more: Further axes, where they are passed as several numbers.

    >>> torch.count_nonzero(torch.tensor([[0, 1], [2, 3]]), dim=0)
    tensor([1, 2])
    """
    if more:
        dim = (cast("int", dim), *more)
    if dim is None:
        refuse_eight_bit(input, "nonzero_count_cpu")
    if input.size > MAX_COUNTED_ROW_ELEMENTS \
            and (y := try_kernel(_differ_from_0, input)) is not None:
        input = y
    return np.asarray(np.count_nonzero(input, parse_axes(dim, input.ndim)), np.int64)


def _differ_from_0(x: Array) -> Array:
    return x != 0


# ----------------------------------------------------------------------------------- products


@opaque(autocast=Policy.FULL, kernel="prod_out_cpu", dtype_of_out=True,
        node=("ProdBackward0", "ProdBackward1"), overload=reduces_axes,
        ref=lambda x, dim=None, keepdim=False: np.prod(x, dim, keepdims=keepdim),
        samples=lambda rng: iter([((rng.normal(size=(3, 4)),), {}),
                                  ((rng.normal(size=(3, 4)), 1), {})]))
def prod(
    input: Array, dim: int | None = None, keepdim: bool = False, *, dtype: Dtype | None = None
) -> Array:
    """Product of all elements, or along an axis.

    >>> torch.prod(torch.tensor([[1, 2], [3, 4]]), dim=1)
    tensor([ 2, 12])
    """
    if input.size > MAX_COUNTED_ROW_ELEMENTS and dtype is None:
        y = reduce_axes(np.multiply, input, parse_axes(dim, input.ndim), keepdim)
        if y is not None:
            return round_to(y, sum_dtype(input, None))
    kind = sum_dtype(input, dtype)
    axis = None if dim is None else canonicalize_dim(dim, input.ndim)
    axis = axis if input.ndim else None
    return round_to(reduce_product(input, axis, compute_dtype(kind), None, keepdim), kind)


@prod.vjp
def _(g: Tensor, input: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    if dim is None:
        return (g * multiply_others(input.reshape(-1), 0)).reshape(input.shape)
    share = multiply_others(input, dim) if input.dim() else input.new_ones(())
    return spread(g, input.shape, dim, keepdim) * share


@prod.value_and_jvp
def _(
    input_t: Array | None, input: Array, dim: int | None, keepdim: bool, dtype: Dtype | None
) -> tuple[Array, Array] | None:
    if dtype is not None or input_t is None or not are_plain(input, input_t):
        return None
    y = prod.operator.body(input, dim, keepdim)
    if not y.all() or not np.isfinite(y).all():  # zeros, underflow: others' products are needed
        return None
    return y, y * sum_products(1 / input, input_t, parse_axes(dim, input.ndim), keepdim)


def multiply_others(x: Tensor, dim: int) -> Tensor:
    """Return, for each element, the product of the others along an axis; handles zeros."""
    n = x.shape[dim]
    if not n:
        return x.clone()  # empty, and with x's history
    shape = list(x.shape)
    shape[dim] = 1
    ones = x.new_ones(shape)
    before = cat([ones, x.narrow(dim, 0, n - 1)], dim).cumprod(dim)
    after = cat([ones, x.flip(dim).narrow(dim, 0, n - 1)], dim).cumprod(dim).flip(dim)
    return before * after
