"""Operators on quantized tensors: those that preserve order run on the integers, others dequantize,
compute in floating point and quantize again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...tensor.dtypes import qint8, qint32, quint8
from ...tensor.quantized import QuantizedArray, QuantizedTensor, quantized
from ...tensor.quantizers import PerTensor
from ...tensor.tensor import Tensor, wrap
from ..core.operator import PUBLIC
from ..interception.window_stubs import select_functions
from .conversion import dequantize
from .dispatch import implements, implements_each
from .views import get_codes

_torch, _functional = PUBLIC["torch"], PUBLIC["nn.functional"]


# --------------------------------------------------------------- order of the integers


def _require_per_tensor(x: Any, name: str) -> PerTensor:
    quantizer = x._array.quantizer
    if not isinstance(quantizer, PerTensor):
        raise NotImplementedError(f"{name} of a tensor quantized by channel is not implemented in "
                                  "flambeau")
    return quantizer


@implements_each(select_functions(_torch, "max min sort topk amax amin"))
def choose_elements(original: Callable, input: Any, *args: Any, **kwargs: Any) -> Any:
    """Choose elements by their order, which is that of their integers."""
    quantizer = _require_per_tensor(input, original.__name__)
    result = original(get_codes(input), *args, **kwargs)
    if not isinstance(result, tuple):
        return quantized(result._array, quantizer)
    values, indices = result
    return type(result)((quantized(values._array, quantizer), indices))


@implements_each(select_functions(_functional, "max_pool1d max_pool2d max_pool3d"))
def choose_maxima(original: Callable, input: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Choose the maximum of each window."""
    quantizer = _require_per_tensor(input, original.__name__)
    codes = input._array.codes
    pooled = original(wrap(codes.astype(np.float64)), *args, **kwargs)  # exact
    return quantized(pooled._array.astype(codes.dtype), quantizer)


@implements("pad")
def pad(input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Tensor:
    """Pad with the quantized value of a number, or with the existing elements."""
    quantizer = _require_per_tensor(input, "pad")
    codes = wrap(input._array.codes.astype(np.float64))  # exact for all integers
    if mode == "constant":
        code = quantizer.quantize(np.array([0.0 if value is None else value], np.float32))[0]
        result = _functional["pad"](codes, pad, mode, float(code))
    else:
        result = _functional["pad"](codes, pad, mode)
    return quantized(result._array.astype(input._array.codes.dtype), quantizer)


@implements("relu")
def relu(input: Any, inplace: bool = False) -> Tensor:
    """Replace negative elements by the zero point."""
    codes = np.maximum(input._array.codes, _require_per_tensor(input, "relu").zero_point)
    if not inplace:
        return quantized(codes.astype(input._array.codes.dtype), input._array.quantizer)
    input._array.codes[...] = codes
    return input


@implements("relu_")
def relu_(input: Any) -> Tensor:
    """Replace negative elements by the zero point, in place."""
    return relu(input, True)


# ---------------------------------------------------------- through floating point


@implements_each(select_functions(_torch, "mean clamp std") | select_functions(
    _functional, "hardtanh relu6 leaky_relu gelu threshold interpolate grid_sample"))
def requantize_result(original: Callable, input: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Compute on the numbers, and quantize the result like the input."""
    quantizer = _require_per_tensor(input, original.__name__)
    result = original(dequantize(input), *args, **kwargs)
    return quantized(quantizer.quantize(result._array), quantizer)


@implements_each(select_functions(
    _functional, "avg_pool2d avg_pool3d adaptive_avg_pool2d adaptive_avg_pool3d"))
def average_windows(original: Callable, input: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Average windows, exactly on integers until the means are rounded."""
    quantizer = _require_per_tensor(input, original.__name__)
    codes, zero = input._array.codes, quantizer.zero_point
    means = original(wrap((codes.astype(np.int64) - zero).astype(np.float32)), *args, **kwargs)
    steps = np.rint(means._array) + zero
    return quantized(np.clip(steps, *quantizer.dtype.limits).astype(codes.dtype), quantizer)


# Scale and zero point of results in a known range, by dtype.
_ZERO_TO_ONE = {quint8: (2**-8, 0), qint8: (2**-8, -128), qint32: (2**-32, 0)}
_FIXED_RANGE = {
    "sigmoid": _ZERO_TO_ONE, "hardsigmoid": _ZERO_TO_ONE,
    "tanh": {quint8: (2**-7, 128), qint8: (2**-7, 0), qint32: (2**-31, 0)}}


@implements_each(select_functions(_torch, "sigmoid tanh")
                 | select_functions(_functional, "hardsigmoid"))
def cover_fixed_range(original: Callable, input: Any, inplace: bool = False) -> Tensor:
    """Compute a function whose results lie in a known range, which its quantizer covers."""
    name, dtype = original.__name__, input.dtype
    if dtype not in _FIXED_RANGE[name]:
        raise NotImplementedError(f"{name} of {dtype}")
    quantizer = PerTensor(dtype, *_FIXED_RANGE[name][dtype])
    return quantized(quantizer.quantize(original(dequantize(input))._array), quantizer)


@implements("cat", "concat")
def cat(tensors: Any, dim: int = 0) -> Tensor:
    """Concatenate tensors, with the quantizer of the first."""
    quantizer = _require_per_tensor(tensors[0], "cat")
    parts = [x._array.codes if x._array.quantizer.same(quantizer)
             else quantizer.quantize(x._array.values()) for x in tensors]
    return quantized(np.concatenate(parts, dim), quantizer)


@implements("stack")
def stack(tensors: Any, dim: int = 0) -> Tensor:
    """Stack tensors along a new axis, with the quantizer of the first."""
    return cat([x.unsqueeze(dim) for x in tensors], dim)


@implements("equal")
def equal(input: Any, other: Any) -> bool:
    """Test whether both have the same shape, quantizer and integers."""
    a, b = input._array, getattr(other, "_array", None)
    return isinstance(a, QuantizedArray) and isinstance(b, QuantizedArray) \
        and a.quantizer.same(b.quantizer) and np.array_equal(a.codes, b.codes)


_COMPARISONS = select_functions(_torch, "eq ne lt le gt ge")


@implements_each(_COMPARISONS | {f"__{name}__": f for name, f in _COMPARISONS.items()})
def compare(original: Callable, input: Any, other: Any) -> Any:
    """Compare the numbers."""
    a, b = (dequantize(x) if isinstance(x, QuantizedTensor) else x for x in (input, other))
    return original(a, b)


_class: Any = QuantizedTensor
_class.__hash__ = object.__hash__
