"""Reductions and normalizations over the elements where a mask is True."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .. import ops
from ..canonical_masks import _canonical_dim as _canonical_dim
from ..canonical_masks import _input_mask as _input_mask
from ..canonical_masks import _output_mask as _output_mask
from ..canonical_masks import _where as _where
from ..ops.core.axes import canonicalize_dims
from ..ops.core.operator import PUBLIC
from ..tensor import dtypes as types
from ..tensor.dtypes import dtype as Dtype
from ..tensor.tensor import Tensor

Dims = int | Sequence[int] | None


def _lowest(dtype: Dtype) -> Any:
    if dtype is types.bool_:
        return False
    return -math.inf if dtype.is_floating_point or dtype.is_complex else types.iinfo(dtype).min


def _highest(dtype: Dtype) -> Any:
    if dtype is types.bool_:
        return True
    return math.inf if dtype.is_floating_point or dtype.is_complex else types.iinfo(dtype).max


# The neutral element of each operation, which replaces masked-out elements.
_NEUTRAL: dict[str, Callable[[Dtype], Any]] = {
    "sum": lambda kind: 0, "prod": lambda kind: 1, "amax": _lowest, "amin": _highest,
    "argmax": _lowest, "argmin": _highest, "logsumexp": _lowest, "median": lambda kind: math.nan,
    "norm": lambda kind: 0, "least norm": _highest,
}


def _fill(operation: str, input: Tensor, mask: Tensor | None) -> Tensor:
    """The input with the operation's neutral element where the mask is False."""
    if mask is None:
        return input
    value = _NEUTRAL[operation](input.dtype)
    return ops.where(_input_mask(input, mask=mask), input, input.new_full((), value))


def _reduction_identity(op_name: str, input: Tensor, *args: Any) -> Tensor | None:
    """Return the operation's neutral element, or None if there is none."""
    name = op_name.rpartition(".")[2]
    name = {"cumsum": "sum", "cumprod": "prod", "logaddexp": "logsumexp"}.get(name, name)
    if name in ("mean", "var", "std"):
        return None
    if name == "norm" and args and args[0] == -math.inf:
        name = "least norm"
    if name not in _NEUTRAL:
        raise NotImplementedError(f"identity of {op_name} on {input.dtype} input")
    floating = input.dtype.is_floating_point
    dtype = types.float32 if name == "median" and not floating else input.dtype
    return ops.full((), _NEUTRAL[name](dtype), dtype=dtype)


def _axes(dim: Dims, input: Tensor) -> tuple[int, ...]:
    return canonicalize_dims(None if dim == () or dim == [] else dim, input._array.ndim)


def _sparse(
    name: str, input: Tensor, dim: Dims, keepdim: bool, dtype: Dtype, mask: Tensor | None
) -> Tensor:
    """Reduce the stored values of a sparse tensor."""
    reduce: Any = PUBLIC["sparse"]["reduce_masked"]
    identity = _NEUTRAL[name](dtype)
    return reduce(name, input, _axes(dim, input), bool(keepdim), dtype, mask, identity)


def _summed_dtype(input: Tensor, dtype: Dtype | None) -> Dtype:
    if dtype is not None:
        return dtype
    floating = input.dtype.is_floating_point or input.dtype.is_complex
    return input.dtype if floating else types.int64


def sum(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The sum of the elements where the mask is True.

    >>> torch.masked.sum(torch.tensor([1., 2., 4.]), mask=torch.tensor([True, False, True]))
    tensor(5.)
    """
    result_dtype = _summed_dtype(input, dtype)
    if input._array.strides is None:
        return _sparse("sum", input, dim, keepdim, result_dtype, mask)
    return ops.sum(_fill("sum", input, mask), _axes(dim, input), bool(keepdim), dtype=result_dtype)


def prod(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The product of the elements where the mask is True.

    >>> x, mask = torch.tensor([3., 9., 4.]), torch.tensor([True, False, True])
    >>> torch.masked.prod(x, mask=mask)
    tensor(12.)
    """
    if input._array.strides is None:
        return _sparse("prod", input, dim, keepdim, _summed_dtype(input, dtype), mask)
    y = _fill("prod", input, mask).to(_summed_dtype(input, dtype))
    axes = () if isinstance(dim, list) and not dim else _axes(dim, input)
    for axis in sorted(axes, reverse=True):
        y = y.prod(axis, bool(keepdim))
    return y


def cumsum(
    input: Tensor, dim: int, *, dtype: Dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The cumulative sums along an axis of the elements where the mask is True.

    >>> x, mask = torch.tensor([1., 2., 4.]), torch.tensor([True, False, True])
    >>> torch.masked.cumsum(x, 0, mask=mask)
    tensor([1., 1., 5.])
    """
    result_dtype = input.dtype if dtype is None else dtype
    return ops.cumsum(_fill("sum", input, mask), dim, dtype=result_dtype).to(result_dtype)


def cumprod(
    input: Tensor, dim: int, *, dtype: Dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The cumulative products along an axis of the elements where the mask is True.

    >>> x, mask = torch.tensor([1., 2., 4.]), torch.tensor([True, False, True])
    >>> torch.masked.cumprod(x, 0, mask=mask)
    tensor([1., 1., 4.])
    """
    result_dtype = input.dtype if dtype is None else dtype
    return ops.cumprod(_fill("prod", input, mask), dim, dtype=result_dtype).to(result_dtype)


def _extreme(name: str, doc: str) -> Callable[..., Tensor]:
    def function(
        input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Dtype | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        if input._array.strides is None:
            return _sparse(name, input, dim, keepdim, dtype or input.dtype, mask)
        y = getattr(ops, name)(_fill(name, input, mask), _axes(dim, input), bool(keepdim))
        return y if dtype is None else y.to(dtype)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{doc}

    >>> x, mask = torch.tensor([1., 2., 4., 8.]), torch.tensor([False, True, True, False])
    >>> torch.masked.{name}(x, mask=mask)
    tensor({"4" if name == "amax" else "2"}.)
    """
    return function


amax = _extreme("amax", "The largest element where the mask is True.")
amin = _extreme("amin", "The smallest element where the mask is True.")


def _place(name: str, doc: str) -> Callable[..., Tensor]:
    def function(
        input: Tensor, dim: int | None = None, *, keepdim: bool = False,
        dtype: Dtype | None = None, mask: Tensor | None = None,
    ) -> Tensor:
        y = getattr(ops, name)(_fill(name, input, mask), dim, bool(keepdim))
        return y.to(input.dtype if dtype is None else dtype)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{doc}

    >>> x, mask = torch.tensor([1., 2., 4., 8.]), torch.tensor([False, True, True, False])
    >>> torch.masked.{name}(x, mask=mask)
    tensor({"2" if name == "argmax" else "1"}.)
    """
    return function


argmax = _place("argmax", "The index of the largest element where the mask is True.")
argmin = _place("argmin", "The index of the smallest element where the mask is True.")


def _count(input: Tensor, dim: Dims, keepdim: bool, mask: Tensor | None) -> Tensor:
    """Return the number of unmasked elements along the axes."""
    if mask is None:
        counted = input.new_ones(input.shape, dtype=types.int64)
    else:
        counted = _input_mask(input, mask=mask)
    return counted.sum(_axes(dim, input), keepdim)


def _divide(total: Tensor, counts: Tensor) -> Tensor:
    """The quotient of two sparse tensors with the same sparsity pattern."""
    if total.is_sparse:
        values = total._values() / counts._values()
        return ops.sparse_coo_tensor(total._indices(), values, total.shape, is_coalesced=True)
    values = total.values() / counts.values()
    return ops.sparse_csr_tensor(total.crow_indices(), total.col_indices(), values, total.shape)


def mean(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The mean of the elements where the mask is True; nan if there are none.

    >>> x, mask = torch.tensor([1., 2., 4.]), torch.tensor([True, False, True])
    >>> torch.masked.mean(x, mask=mask)
    tensor(2.5000)
    """
    result_dtype, source = (input.dtype, "Input") if dtype is None else (dtype, "Optional")
    if not (result_dtype.is_floating_point or result_dtype.is_complex):
        raise ValueError(
            f"mean(): Could not infer output dtype. {source} dtype must be either a floating point "
            f"or complex dtype. Got: {result_dtype}"
        )
    total = sum(input, dim, keepdim=keepdim, dtype=result_dtype, mask=mask)
    if input._array.strides is None:
        if mask is None:
            raise ValueError(f"masked mean expects explicit mask for {input.layout} tensor input")
        valid = _input_mask(input, mask=mask).to(result_dtype)
        return _divide(total, sum(valid, dim, keepdim=keepdim, dtype=result_dtype, mask=mask))
    return total / _count(input, dim, bool(keepdim), mask)


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The lower median, along an axis, of the elements where the mask is True.

    >>> x, mask = torch.tensor([1., 2., 4.]), torch.tensor([True, False, True])
    >>> torch.masked.median(x, 0, mask=mask)
    tensor(1.)
    """
    result_dtype = input.dtype if dtype is None else dtype
    floating = input.dtype.is_floating_point
    source = input if floating else input.to(types.float32)
    y = ops.nanmedian(_fill("median", source, mask), dim, keepdim).values
    if floating:
        return y
    if bool(y.isnan().any()):
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating "
                         "point")
    return y.to(result_dtype)


def logsumexp(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The logarithm of the sum of exponentials where the mask is True.

    >>> x, mask = torch.tensor([0., 9., 0.]), torch.tensor([True, False, True])
    >>> torch.masked.logsumexp(x, 0, mask=mask)
    tensor(0.6931)
    """
    y = ops.logsumexp(_fill("logsumexp", input, mask), _axes(dim, input), bool(keepdim))
    return y.to(input.dtype if dtype is None else dtype)


def logaddexp(
    input: Tensor, other: Tensor, *, dtype: Dtype | None = None, input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """log(exp(input) + exp(other)), each term only where its mask is True.

    >>> x, mask = torch.tensor([0., 0.]), torch.tensor([True, False])
    >>> torch.masked.logaddexp(x, x, input_mask=mask, other_mask=mask)[0]
    tensor(0.6931)
    """
    y = ops.logaddexp(_fill("logsumexp", input, input_mask),
                      _fill("logsumexp", other, other_mask))
    return y.to(input.dtype if dtype is None else dtype)


def norm(
    input: Tensor, ord: float | None = 2.0, dim: Dims = None, *, keepdim: bool = False,
    dtype: Dtype | None = None, mask: Tensor | None = None,
) -> Tensor:
    """The norm of the elements where the mask is True.

    >>> x, mask = torch.tensor([3., 9., 4.]), torch.tensor([True, False, True])
    >>> torch.masked.norm(x, 2, 0, mask=mask)
    tensor(5.)
    """
    result_dtype = input.dtype if dtype is None else dtype
    order = 2.0 if ord is None else ord
    x = _fill("least norm" if order == -math.inf else "norm", input, mask)
    vector_norm = PUBLIC["linalg"]["vector_norm"]
    return vector_norm(x, order, _axes(dim, input), bool(keepdim), dtype=result_dtype)


def _variance(
    input: Tensor, dim: Dims, unbiased: bool | None, correction: float | None, keepdim: bool,
    dtype: Dtype | None, mask: Tensor | None,
) -> Tensor:
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    result_dtype = input.dtype if dtype is None else dtype
    floating = result_dtype.is_floating_point or result_dtype.is_complex
    result_dtype = result_dtype if floating or dtype is not None else types.float32
    sum_dtype = result_dtype if floating else types.float32
    count = _count(input, dim, True, mask)
    centred = input - sum(input, dim, keepdim=True, dtype=result_dtype, mask=mask) / count
    square = centred * centred.conj()
    total = sum(square, dim, keepdim=keepdim, dtype=sum_dtype, mask=mask)
    degrees = (count.reshape(total.shape).to(total.dtype
                                             if not total.is_complex() else types.float64)
               - correction).clamp(min=0)
    return (total / degrees.to(total.real.dtype)).to(result_dtype)


def var(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *,
    correction: float | None = None, keepdim: bool = False, dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The variance of the elements where the mask is True.

    >>> x, mask = torch.tensor([1., 2., 3.]), torch.tensor([True, False, True])
    >>> torch.masked.var(x, mask=mask, unbiased=False)
    tensor(1.)
    """
    return _variance(input, dim, unbiased, correction, bool(keepdim), dtype, mask)


def std(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *,
    correction: float | None = None, keepdim: bool = False, dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The standard deviation of the elements where the mask is True.

    >>> x, mask = torch.tensor([1., 2., 3.]), torch.tensor([True, False, True])
    >>> torch.masked.std(x, mask=mask)
    tensor(1.4142)
    """
    return _variance(input, dim, unbiased, correction, bool(keepdim), dtype, mask).sqrt()


def softmax(
    input: Tensor, dim: int, *, dtype: Dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The softmax along an axis over the elements where the mask is True; 0 elsewhere.

    >>> x, mask = torch.tensor([1., 2., 1.]), torch.tensor([True, False, True])
    >>> torch.masked.softmax(x, 0, mask=mask)[[0, 2]]
    tensor([0.5000, 0.5000])
    """
    return _fill("amax", input, mask).softmax(dim, dtype=dtype or input.dtype)


def log_softmax(
    input: Tensor, dim: int, *, dtype: Dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The logarithm of the masked softmax.

    >>> x, mask = torch.tensor([1., 2., 1.]), torch.tensor([True, False, True])
    >>> torch.masked.log_softmax(x, 0, mask=mask)[[0, 2]]
    tensor([-0.6931, -0.6931])
    """
    return _fill("amax", input, mask).log_softmax(dim, dtype=dtype or input.dtype)


def softmin(
    input: Tensor, dim: int, *, dtype: Dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The masked softmax of the negative elements.

    >>> x, mask = torch.tensor([1., 2., 1.]), torch.tensor([True, False, True])
    >>> torch.masked.softmin(x, 0, mask=mask)[[0, 2]]
    tensor([0.5000, 0.5000])
    """
    return (-_fill("amin", input, mask)).softmax(dim, dtype=dtype or input.dtype)


def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The elements divided by their norm along an axis, where the mask is True; 0 elsewhere.

    >>> x, mask = torch.tensor([3., 9., 4.]), torch.tensor([True, False, True])
    >>> torch.masked.normalize(x, 2, 0, mask=mask)[[0, 2]]
    tensor([0.6000, 0.8000])
    """
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _fill("sum", input, mask) / ops.maximum(size, size.new_full((), eps))


__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp",
    "logsumexp", "mean", "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum",
    "var",
]
