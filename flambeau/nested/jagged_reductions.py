"""Rules of the jagged layout: reductions, softmax and normalizations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import ops
from ..ops.core.operator import PUBLIC
from ..tensor import dtypes as types
from ..tensor.tensor import Tensor
from .jagged_shapes import rule
from .jagged_tensor import NestedTensor
from .packing import pack, pad

_functional = PUBLIC["nn.functional"]


def _normalize_axes(dim: Any, nt: NestedTensor) -> list[int] | None:
    """Return the reduced axes as numbers from 0, or None if all axes are reduced."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return None
    return [nt.axis(d) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]


def _inner(nt: NestedTensor, axes: list[int]) -> list[int]:
    """Return the axes of the values, where batch and ragged axis are merged."""
    r = nt._ragged_idx
    return list(dict.fromkeys(r - 1 if a == 0 else a - 1 for a in axes))


def _map_parts(function: Callable[[Tensor], Tensor], result: Any) -> Any:
    """Apply a function to a tensor, or to each part of a tuple."""
    if isinstance(result, tuple):
        return type(result)(map(function, result))
    return function(result)


def reduce(
    call: Callable[..., Any], name: str, padding: Any, nt: NestedTensor, dim: Any,
    keepdim: bool = False,
) -> Any:
    """Return `call(x, dim, keepdim)` over axes of a nested tensor.

    `padding` is a value that does not change the result.
    """
    axes, r = _normalize_axes(dim, nt), nt._ragged_idx
    is_tuple = isinstance(dim, (tuple, list))
    if axes is None:
        y = call(nt._values, dim, keepdim)
        return _map_parts(lambda t: t.unsqueeze(r), y) if keepdim else y
    inner = _inner(nt, axes)
    over_rest = any(a not in (0, r) for a in axes)
    if r in axes:
        if nt._lengths is not None:
            raise RuntimeError(f"{name}(): reducing across the ragged dimension is not supported "
                               "for non-contiguous nested tensors with holes")
        if 0 in axes:
            y = call(nt._values, inner if is_tuple else inner[0], keepdim)
            return _map_parts(lambda t: t.unsqueeze(0), y) if keepdim else y
        if over_rest:
            raise RuntimeError(f"{name}(): reducing along a ragged and non-batch dimension is not "
                               "supported for nested tensors")
        return call(pad(nt, padding), [r] if is_tuple else r, keepdim)
    if 0 in axes:
        raise RuntimeError(f"{name}(): reducing along the batch dimension but not the ragged "
                           "dimension is not supported for nested tensors")
    y = call(nt._values, inner if is_tuple else inner[0], keepdim)
    ragged_idx = r if keepdim else r - sum(a < r - 1 for a in inner)
    return _map_parts(lambda t: nt._build_like(t, ragged_idx), y)


def _get_lowest_or_highest(dtype: Any, highest: bool) -> Any:
    """Return the highest or lowest value of a dtype."""
    if dtype is types.bool_:
        return highest
    limits = types.finfo(dtype) if dtype.is_floating_point else types.iinfo(dtype)
    return limits.max if highest else limits.min


@rule("sum")
def sum_(
    input: NestedTensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """The sum over all elements, or over axes."""
    if dim is None and not keepdim:
        return ops.sum(input._values, dtype=dtype)
    return reduce(lambda x, d, keep: ops.sum(x, d, keep, dtype=dtype), "sum", 0, input, dim,
                  keepdim)


@rule()
def mean(
    input: NestedTensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """The mean over all elements, or over axes; over the ragged axis per row."""
    if dim is None:
        return ops.mean(input._values, dtype=dtype)
    axes, r = _normalize_axes(dim, input) or [], input._ragged_idx
    if r in axes and 0 not in axes:
        if any(a != r for a in axes):
            raise AssertionError("Cannot reduce on both ragged and non-batch dimensions without "
                                 "also reducing on batch")
        total = reduce(lambda x, d, keep: ops.sum(x, d, keep, dtype=dtype), "mean", 0, input,
                       dim, True)
        y = total / input.measure_rows().reshape(-1, *[1] * (total.dim() - 1))
        return y if keepdim else y.squeeze(r)
    return reduce(lambda x, d, keep: ops.mean(x, d, keep, dtype=dtype), "mean", 0.42, input, dim,
                  keepdim)


@rule()
def prod(
    input: NestedTensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """The product of all elements, or along an axis."""
    if dim is None:
        return ops.prod(input._values, dtype=dtype)
    return reduce(lambda x, d, keep: ops.prod(x, d, keep, dtype=dtype), "prod", 1, input, dim,
                  keepdim)


def _register_selection(name: str, padding: Callable[[Any], Any]) -> None:
    """Register a reduction that takes one axis, several or none, and no dtype."""
    function = getattr(ops, name)

    def select(input: NestedTensor, dim: Any = None, keepdim: bool = False) -> Any:
        if dim is None and not keepdim:
            return function(input._values)
        return reduce(function, name, padding(input.dtype), input, dim, keepdim)

    rule(name)(select)


for _name in ("min", "amin", "argmin"):
    _register_selection(_name, lambda dtype: _get_lowest_or_highest(dtype, True))
for _name in ("max", "amax", "argmax"):
    _register_selection(_name, lambda dtype: _get_lowest_or_highest(dtype, False))
_register_selection("any", lambda dtype: False)
_register_selection("all", lambda dtype: True)


def _normalize_softmax_axis(input: NestedTensor, dim: Any, name: str) -> int:
    if isinstance(dim, (tuple, list)):
        raise RuntimeError(f"{name}(): not supported for dimensions of type 'tuple' for "
                           "NestedTensor")
    axis = input.axis(-1 if dim is None else dim)
    if axis == 0:
        raise RuntimeError(f"{name}(): not supported when reducing across the batch dimension for "
                           "NestedTensor")
    return axis


@rule("softmax", "_softmax")
def softmax(
    input: NestedTensor, dim: Any = None, *args: Any, dtype: Any = None, **kwargs: Any
) -> NestedTensor:
    """Softmax along an axis; along the ragged axis, per row."""
    axis, r = _normalize_softmax_axis(input, dim, "softmax"), input._ragged_idx
    if axis != r:
        return input._build_like(ops.softmax(input._values, axis - 1, dtype=dtype))
    if r > 1:
        raise RuntimeError("softmax(): not supported when reducing along the ragged dimension for "
                           "ragged_idx > 1 for NestedTensor")
    if input._lengths is not None:
        raise RuntimeError("softmax(): not supported where lengths is not None if reducing across "
                           "the ragged dimension for NestedTensor")
    padded = pad(input, -math.inf)
    return input._build_like(pack(input, ops.softmax(padded, r, dtype=dtype)))


@rule("log_softmax", "_log_softmax")
def log_softmax(
    input: NestedTensor, dim: Any = None, *args: Any, dtype: Any = None, **kwargs: Any
) -> NestedTensor:
    """The logarithm of softmax along an axis other than the ragged one."""
    axis = _normalize_softmax_axis(input, dim, "log_softmax")
    if axis == input._ragged_idx:
        raise RuntimeError("log_softmax(): not supported when reducing along the ragged dimension "
                           "for NestedTensor")
    return input._build_like(ops.log_softmax(input._values, axis - 1, dtype=dtype))


@rule()
def layer_norm(
    input: NestedTensor, normalized_shape: Any, weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5, *args: Any, **kwargs: Any,
) -> NestedTensor:
    """Layer normalization over trailing axes; over the ragged axis, per row."""
    if input.dim() <= 2:
        raise RuntimeError("layer_norm(): not supported for NestedTensor objects with 2 or fewer "
                           "dimensions")
    if input.dim() == len(normalized_shape):
        raise RuntimeError("layer_norm(): not supported when normalizing over the batch dimension "
                           "for NestedTensor")
    if input._size[input._ragged_idx] not in normalized_shape:
        return input._build_like(
            _functional["layer_norm"](input._values, normalized_shape, weight, bias, eps))
    if input._lengths is not None:
        raise RuntimeError("layer_norm(): not supported where lengths is not None if operating on "
                           "the ragged dimension for NestedTensor")
    axes = tuple(range(1, input.dim()))
    padded = pad(input, 0)
    mask = pad(input._build_like(ops.ones_like(input._values)), 0)
    count = input.measure_rows().reshape(-1, *[1] * len(axes)) * math.prod(padded.shape[2:])
    centred = (padded - padded.sum(axes, True) / count) * mask
    y = centred / (centred.square().sum(axes, True) / count + eps).sqrt()
    return input._build_like(pack(input, y))


@rule()
def rms_norm(
    input: NestedTensor, normalized_shape: Any, weight: Tensor | None = None,
    eps: float | None = None,
) -> NestedTensor:
    """Root mean square normalization over axes behind the ragged axis."""
    if len(normalized_shape) > input.dim() - input._ragged_idx - 1:
        raise ValueError("rms_norm(): Normalization over the ragged dim not supported for nested "
                         "tensors")
    return input._build_like(_functional["rms_norm"](input._values, normalized_shape, weight, eps))


@rule()
def to_padded_tensor(
    input: NestedTensor, padding: float, output_size: Any = None, out: Any = None
) -> Tensor:
    """The rows in a dense tensor, filled up with `padding`."""
    if input._lengths is not None:
        raise RuntimeError("to_padded_tensor(): not supported for nested tensors with holes")
    if output_size is not None:
        return pad(input, padding, output_size[input._ragged_idx])
    max_length = input._maybe_max_seqlen
    return pad(input, padding, input._values.shape[0] if max_length is None else max_length)


@rule()
def masked_select(input: NestedTensor, mask: NestedTensor) -> NestedTensor:
    """The chosen elements of each row."""
    if input.dim() > 2:
        raise RuntimeError("masked_select only support 2-D selections currently")
    if input.shape != mask.shape:
        raise RuntimeError(f"Mask with shape {mask.shape} is not compatible with input's shape "
                           f"{input.shape}")
    chosen = mask._values
    counts = ops.cat([chosen.new_zeros(1, dtype=types.int64), chosen.cumsum(0)])
    return NestedTensor(input._values.masked_select(chosen), counts[input._offsets])
