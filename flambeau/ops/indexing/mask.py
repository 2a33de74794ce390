"""Masks: masked_fill, masked_select, masked_scatter, nonzero."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...autograd.inplace import check_writable
from ...native.foundation.public_names import c_class_name
from ...native.foundation.user_frames import add_notes
from ...native.runtime.background_jit import KernelPolicy
from ...native.target.eager_costs import MAX_NUMPY_POINTWISE_ELEMENTS
from ...tensor.capture_marks import shape_only
from ...tensor.dtypes import FLOATS, INTEGER
from ...tensor.meta import refuse_unknown_values
from ...tensor.narrow_dtypes import refuse_eight_bit
from ...tensor.overlap import check_operands
from ...tensor.overlap import Overlap
from ...tensor.tensor import Tensor, wrap
from ..core.errors import build_overload_error
from ..core.inplace import assign
from ..core.operator import Array, Number, Promotion
from ..core.out import write_result
from ..core.output_layout import Layout
from ..core.registry import (
    composite, opaque, pointwise, shape_depends_on_values, writes_by_operators,
)
from ..core.scalar_conversion import ORDINARY, convert_scalar, is_number
from ..creation.creation import public
from ..native.pointwise import serve
from ..pointwise.selection import select


def _mask_of(mask: Any, name: str) -> Tensor:
    if not isinstance(mask, Tensor):
        raise TypeError(f"{name}(): argument 'mask' must be Tensor, not {c_class_name(mask)}")
    if mask._array.dtype.kind == "b":
        return mask
    if name == "masked_select":
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    names = {"uint8": "unsigned char", "int32": "int", "int64": "long int", "float32": "float"}
    shown = names.get(mask.dtype.name, mask.dtype.name)
    raise add_notes(
        RuntimeError(
            f"{name.rstrip('_')}_ only supports boolean masks, but got mask with dtype {shown}"),
        "A mask of zeros and ones: mask.bool(), or mask == 0 for the zeros.",
    )


@shape_only
def create_fill_value(input: Tensor, value: Any, name: str) -> Tensor:
    if value.__class__ is float or value.__class__ is int:
        kind = input._array.dtype
        if kind in FLOATS and -ORDINARY < value < ORDINARY:
            return wrap(np.array(value, kind))
    if isinstance(value, Tensor):
        if value._array.ndim:
            raise RuntimeError(
                f"{name}_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value._array.ndim} dimension(s)."
            )
        if value.dtype.category > max(input.dtype.category, INTEGER):
            return wrap(convert_scalar(value._array.item(), input._array.dtype))
        return value.to(input.dtype)
    if not is_number(value):
        raise build_overload_error(name, ("input", "value"), (input, value))
    return wrap(convert_scalar(value, input._array.dtype))


@pointwise(layout=Layout.CONTIGUOUS,
           name="_masked_fill", node="MaskedFillBackward0", promotion=Promotion.NONE, expose=(),
           inplace=False, ref=lambda x, m, v: np.where(m, v, x),
           samples=lambda rng: iter([((rng.normal(size=(3, 4)), rng.normal(size=4) > 0,
                                       rng.normal(size=())), {})]))
def _masked_fill(input: Array, mask: Array, value: Array) -> Array:
    """Return `value` where the mask is True, else `input`."""
    if input.size > MAX_NUMPY_POINTWISE_ELEMENTS and input.dtype.kind == "f" \
            and input.dtype == value.dtype \
            and input.__class__ is np.ndarray and KernelPolicy.allowed \
            and (y := serve(_select_unless, (input, mask, value))) is not None:
        return y
    if input.__class__ is Array and mask.shape == input.shape \
            and input.size <= MAX_NUMPY_POINTWISE_ELEMENTS \
            and value.dtype is input.dtype and not value.ndim:
        y = input.copy()
        y[mask] = value
        return y
    return np.where(mask, value, input)


def _select_unless(x: Any, mask: Any, value: Any) -> Any:
    return np.where(mask, value, x)


@_masked_fill.vjp("input")
def _(g: Tensor, mask: Tensor) -> Tensor:
    return _masked_fill(g, mask, wrap(np.zeros((), g._array.dtype)))


@_masked_fill.vjp("value")
def _(g: Tensor, mask: Tensor) -> Tensor:
    return select(mask, g, 0)


def make_fill_overload(position: int) -> Callable[..., bool]:
    """Return a rule that chooses the node of a call: whether `value` is a tensor."""

    def fills_with_tensor(*args: Any, value: Any = None, **_: Any) -> bool:
        return isinstance(args[position] if len(args) > position else value, Tensor)

    return fills_with_tensor


@composite(node=("MaskedFillBackward0", "MaskedFillBackward1"), overload=make_fill_overload(2))
def masked_fill(input: Tensor, mask: Tensor, value: Tensor | Number) -> Tensor:
    """Return a copy with `value` where the mask is True.

    The mask broadcasts. Gradients flow to the elements kept, and to a 0-dim tensor `value`.

    >>> torch.masked_fill(torch.tensor([1., 2., 3.]), torch.tensor([True, False, True]), -1.)
    tensor([-1.,  2., -1.])
    """
    refuse_eight_bit(input._array, "masked_fill")
    return _masked_fill(input, _mask_of(mask, "masked_fill"),
                        create_fill_value(input, value, "masked_fill"))


@writes_by_operators
@public(spaces=("Tensor",))
def masked_fill_(self: Tensor, mask: Tensor, value: Any) -> Tensor:
    """Write `value` where the mask is True, in place.

    >>> torch.zeros(2).masked_fill_(torch.tensor([True, False]), 5.)
    tensor([5., 0.])
    """
    check_writable(self, "masked_fill_")
    check_operands(self._array, (mask,))
    return assign(self, masked_fill(self, mask, value), "masked_fill_")


@opaque(linear_in="input",
        name="_masked_select", node="MaskedSelectBackward0", expose=(),
        value_dependent_shape="masks",
        ref=lambda x, m: x[m], samples=lambda rng: iter(
            [((rng.normal(size=(3, 4)), rng.normal(size=(3, 4)) > 0), {})]))
def _masked_select(input: Array, mask: Array) -> Array:
    """Return the elements where the mask is True."""
    return input[mask]


@_masked_select.vjp("input")
def _(g: Tensor, mask: Tensor, input_shape: tuple[int, ...]) -> Tensor:
    return _masked_spread(g, mask, input_shape)


@opaque(linear_in="g", layout=Layout.FREE, name="_masked_spread", expose=(), ref=None, samples=None)
def _masked_spread(g: Array, mask: Array, shape: Any) -> Array:
    """Return zeros with `g` where the mask is True."""
    result = np.zeros(shape, g.dtype)
    result[mask] = g
    return result


@_masked_spread.vjp("g")
def _(g: Tensor, mask: Tensor) -> Tensor:
    return _masked_select(g, mask)


@shape_depends_on_values
@composite()
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the elements where the mask is True, as a one-dimensional tensor.

    >>> x = torch.tensor([[1, 2], [3, 4]])
    >>> torch.masked_select(x, x > 2)
    tensor([3, 4])
    """
    mask = _mask_of(mask, "masked_select")
    shape = np.broadcast_shapes(input._array.shape, mask._array.shape)
    refuse_unknown_values(mask, "masked_select.default")
    y = _masked_select(input.expand(*shape), mask.expand(*shape))
    return y if out is None else write_result(
        "masked_select", y, out, (input, mask), Overlap.NONE
    )


@opaque(linear_in="input + source",
        name="_masked_scatter", node="MaskedScatterBackward0", expose=(), ref=None, samples=None)
def _masked_scatter(input: Array, mask: Array, source: Array) -> Array:
    """Replace the elements where the mask is True by the first elements of `source`."""
    result = input.copy()
    count = int(mask.sum())
    if source.size < count:
        raise RuntimeError(
            f"masked_scatter: expected self and source to have enough elements: the mask has "
            f"{count}, source {source.size}"
        )
    result[mask] = source.reshape(-1)[:count]
    return result


@_masked_scatter.vjp("input")
def _(g: Tensor, mask: Tensor) -> Tensor:
    return _masked_fill(g, mask, wrap(np.zeros((), g._array.dtype)))


@_masked_scatter.vjp("source")
def _(g: Tensor, mask: Tensor, source_shape: tuple[int, ...]) -> Tensor:
    return _gather_masked(g, mask, math.prod(source_shape)).reshape(source_shape)


@opaque(linear_in="input", expose=(), ref=None, samples=None)
def _gather_masked(input: Array, mask: Array, count: int) -> Array:
    """Return the elements where the mask is True, and zeros behind them, `count` in all."""
    chosen = input[mask]
    result = np.zeros(count, input.dtype)
    result[: chosen.size] = chosen
    return result


@_gather_masked.vjp
def _(g: Tensor, mask: Tensor) -> Tensor:
    return _masked_scatter(g.new_zeros(mask.shape), mask, g)


@composite(explains=True)
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Return a copy with successive elements of `source` where the mask is True.

    >>> mask = torch.tensor([True, False, True])
    >>> torch.masked_scatter(torch.zeros(3), mask, torch.tensor([7., 8., 9.]))
    tensor([7., 0., 8.])
    """
    if input.dtype is not source.dtype:
        raise RuntimeError(
            f"masked_scatter: expected self and source to have same dtypes but got {input.dtype} "
            f"and {source.dtype}"
        )
    if _mask_of(mask, "masked_scatter_") is not mask:
        raise RuntimeError(
            "masked_scatter_ only supports boolean masks, but got mask with dtype Byte"
        )
    shape = np.broadcast_shapes(input._array.shape, mask._array.shape)
    return _masked_scatter(input.expand(*shape), mask.expand(*shape), source)


@public(spaces=("Tensor",))
def masked_scatter_(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Write successive elements of `source` where the mask is True, in place.

    >>> torch.zeros(2).masked_scatter_(torch.tensor([False, True]), torch.tensor([5.]))
    tensor([0., 5.])
    """
    check_writable(self, "masked_scatter_")
    check_operands(self._array, (mask,))
    return assign(self, masked_scatter(self, mask, source), "masked_scatter_")


@shape_depends_on_values
@public(spaces=("torch", "Tensor"), explains=True)
def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False) -> Any:
    """Return the indices of the nonzero elements: a matrix, or one vector per axis with `as_tuple`.

    >>> torch.nonzero(torch.tensor([[0, 1], [1, 0]]))
    tensor([[0, 1],
            [1, 0]])
    >>> torch.nonzero(torch.tensor([0, 5, 7]), as_tuple=True)
    (tensor([1, 2]),)
    """
    array = input._array
    refuse_eight_bit(array, "nonzero_count_cpu")
    refuse_unknown_values(input, "nonzero.default")
    if as_tuple:
        if out is not None:
            raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
        result = np.argwhere(array if array.ndim else array.reshape(1))
        return tuple(map(wrap, np.ascontiguousarray(result.T, np.int64)))
    y = wrap(np.argwhere(array).astype(np.int64, copy=False))
    return y if out is None else write_result("nonzero", y, out, (input,))


@shape_depends_on_values
@public(spaces=("torch", "Tensor"), explains=True)
def argwhere(input: Tensor) -> Tensor:
    """Return the indices of the nonzero elements, one row each.

    >>> torch.argwhere(torch.tensor([[0, 1], [1, 0]]))
    tensor([[0, 1],
            [1, 0]])
    """
    return nonzero(input)


@public(spaces=("torch", "Tensor"))
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """Return the indices of the first `size` nonzero elements, padded with `fill_value`.

    >>> torch.nonzero_static(torch.tensor([0, 5, 7]), size=3, fill_value=-1).flatten()
    tensor([ 1,  2, -1])
    """
    result = np.argwhere(input._array)[:size]
    new = np.full((size, result.shape[1]), fill_value, np.int64)
    new[: len(result)] = result
    return wrap(new)
