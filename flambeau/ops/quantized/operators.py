"""Operators on quantized tensors: those that preserve order run on the integers, others dequantize,
compute in floating point and quantize again."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tensor.dtypes import qint8, qint32, quint8
from ...tensor.quantized import QuantizedArray, QuantizedTensor, quantized
from ...tensor.quantizers import PerTensor
from ...tensor.tensor import Tensor, wrap
from ..core.operator import PUBLIC
from .conversion import dequantize
from .dispatch import implements
from .views import get_codes, rewrap

_functional = PUBLIC["nn.functional"]


# --------------------------------------------------------------- order of the integers


def _require_per_tensor(x: Any, name: str) -> PerTensor:
    quantizer = x._array.quantizer
    if not isinstance(quantizer, PerTensor):
        raise NotImplementedError(f"{name} of a tensor quantized by channel is not implemented in "
                                  "flambeau")
    return quantizer


def _declare_ordered(name: str, space: Any) -> None:
    """Declare a selection of elements, which runs on their integers."""
    original = space[name]

    def function(input: Any, *args: Any, **kwargs: Any) -> Any:
        quantizer = _require_per_tensor(input, name)
        result = original(get_codes(input), *args, **kwargs)
        if not isinstance(result, tuple):
            return rewrap(result, quantizer)
        values, indices = result
        return type(result)((rewrap(values, quantizer), indices))

    function.__name__ = name
    implements(name)(function)


for _name in ("max", "min", "sort", "topk", "amax", "amin"):
    _declare_ordered(_name, PUBLIC["torch"])


def _declare_max_pool(name: str) -> None:
    """Declare the maximum of each window."""
    original = _functional[name]

    def function(input: Any, *args: Any, **kwargs: Any) -> Tensor:
        quantizer = _require_per_tensor(input, name)
        codes = input._array.codes
        pooled = original(wrap(codes.astype(np.float64)), *args, **kwargs)  # exact
        return quantized(pooled._array.astype(codes.dtype), quantizer)

    function.__name__ = name
    implements(name)(function)


for _name in ("max_pool1d", "max_pool2d", "max_pool3d"):
    _declare_max_pool(_name)


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


def _declare_requantized(name: str, space: Any) -> None:
    """Declare a function of the numbers whose result has the input's quantizer."""
    original = space[name]

    def function(input: Any, *args: Any, **kwargs: Any) -> Tensor:
        quantizer = _require_per_tensor(input, name)
        result = original(dequantize(input), *args, **kwargs)
        return quantized(quantizer.quantize(result._array), quantizer)

    function.__name__ = name
    implements(name)(function)


for _name in ("mean", "clamp"):
    _declare_requantized(_name, PUBLIC["torch"])
_declare_requantized("std", PUBLIC["torch"])
for _name in "hardtanh relu6 leaky_relu gelu threshold interpolate grid_sample".split():
    _declare_requantized(_name, _functional)


def _declare_mean_of_windows(name: str) -> None:
    """Declare means of windows, computed exactly on integers until they are rounded."""
    original = _functional[name]

    def function(input: Any, *args: Any, **kwargs: Any) -> Tensor:
        quantizer = _require_per_tensor(input, name)
        codes, zero = input._array.codes, quantizer.zero_point
        means = original(wrap((codes.astype(np.int64) - zero).astype(np.float32)), *args, **kwargs)
        steps = np.rint(means._array) + zero
        return quantized(np.clip(steps, *quantizer.dtype.limits).astype(codes.dtype), quantizer)

    function.__name__ = name
    implements(name)(function)


for _name in ("avg_pool2d", "avg_pool3d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"):
    _declare_mean_of_windows(_name)

# Scale and zero point of results in a known range, by dtype.
_ZERO_TO_ONE = {quint8: (2**-8, 0), qint8: (2**-8, -128), qint32: (2**-32, 0)}
_FIXED_RANGE = {
    "sigmoid": _ZERO_TO_ONE, "hardsigmoid": _ZERO_TO_ONE,
    "tanh": {quint8: (2**-7, 128), qint8: (2**-7, 0), qint32: (2**-31, 0)}}


def _declare_fixed_range(name: str) -> None:
    """Declare a function whose results lie in a known range, which its quantizer covers."""
    original = PUBLIC["torch"].get(name) or _functional[name]

    def function(input: Any, inplace: bool = False) -> Tensor:
        dtype = input.dtype
        if dtype not in _FIXED_RANGE[name]:
            raise NotImplementedError(f"{name} of {dtype}")
        quantizer = PerTensor(dtype, *_FIXED_RANGE[name][dtype])
        return quantized(quantizer.quantize(original(dequantize(input))._array), quantizer)

    function.__name__ = name
    implements(name)(function)


_declare_fixed_range("sigmoid")
_declare_fixed_range("tanh")
_declare_fixed_range("hardsigmoid")


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


def _declare_comparison(name: str, *operators: str) -> None:
    original = PUBLIC["torch"][name]

    def function(input: Any, other: Any) -> Any:
        a, b = (dequantize(x) if isinstance(x, QuantizedTensor) else x for x in (input, other))
        return original(a, b)

    function.__name__ = name
    implements(name, *operators)(function)


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _declare_comparison(_name, f"__{_name}__")
_class: Any = QuantizedTensor
_class.__hash__ = object.__hash__
