"""What quantized tensors compute: views and copies of the integers, what keeps their order, and
functions that go through floating point and are quantized again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tensor.dtypes import qint8, quint8
from ...tensor.quantized import QuantizedArray, QuantizedTensor, quantized, wrap_quantized
from ...tensor.quantizers import PerChannel, PerTensor, Quantizer
from ...tensor.tensor import Tensor, wrap
from ..core.registry import PUBLIC
from .conversion import dequantize
from .dispatch import implements

_functional = PUBLIC["nn.functional"]


def _codes(x: Tensor) -> Tensor:
    return wrap(x._array.codes)


def _rewrapped(result: Any, quantizer: Quantizer) -> Any:
    if isinstance(result, (list, tuple)):
        return type(result)(_rewrapped(r, quantizer) for r in result)
    return quantized(result._array, quantizer)


def _declare_view(name: str, keeps_channels: bool) -> None:
    """A view or copy of the integers, with the same quantizer."""
    own = vars(Tensor)[name]

    def function(self: Any, *args: Any, **kwargs: Any) -> Any:
        quantizer = self._array.quantizer
        if isinstance(quantizer, PerChannel) and not keeps_channels:
            raise RuntimeError("Setting strides is possible only on uniformly quantized tensor")
        return _rewrapped(own(_codes(self), *args, **kwargs), quantizer)

    function.__name__ = name
    implements(name)(function)


for _name in ("clone", "contiguous", "detach", "cpu", "alias"):
    if _name in vars(Tensor):
        _declare_view(_name, True)
for _name in (
    "reshape permute t transpose swapaxes swapdims flatten unflatten squeeze unsqueeze narrow "
    "expand expand_as chunk split unbind index_select as_strided movedim view_as reshape_as "
    "swapaxes tile repeat flip masked_select gather"
).split():
    if _name in vars(Tensor):
        _declare_view(_name, False)


@implements("view")
def view(self: Any, *shape: Any) -> Tensor:
    """The integers under another shape."""
    result = Tensor.view(_codes(self), *shape)
    quantizer = self._array.quantizer
    if isinstance(quantizer, PerChannel):
        axis, count = quantizer.axis, quantizer.scales.size
        length = result.shape[axis] if axis < result.ndim else 1
        if length != count:
            raise RuntimeError(f"length of scales must equal to channel, expected {length} got, "
                               f"{count}")
    return quantized(result._array, quantizer)


@implements("__getitem__")
def __getitem__(self: Any, index: Any) -> Tensor:
    """Some of the elements; of a tensor quantized by channel those of one place or all."""
    array = self._array
    if not isinstance(array.quantizer, PerChannel):
        return quantized(_codes(self)[index]._array, array.quantizer)
    if array.quantizer.axis == 0 and isinstance(index, int):
        return quantized(array.codes[index], array.quantizer.at(index))
    raise RuntimeError("Setting strides is possible only on uniformly quantized tensor")


@implements("select")
def select(self: Any, dim: int, index: int) -> Tensor:
    """The elements at one place along an axis."""
    array = self._array
    quantizer, codes = array.quantizer, _codes(self).select(dim, index)._array
    if isinstance(quantizer, PerChannel):
        if dim % array.ndim != quantizer.axis:
            raise RuntimeError("Setting strides is possible only on uniformly quantized tensor")
        quantizer = quantizer.at(index)
    return quantized(codes, quantizer)


# --------------------------------------------------------------- order of the integers


def _per_tensor(x: Any, name: str) -> PerTensor:
    quantizer = x._array.quantizer
    if not isinstance(quantizer, PerTensor):
        raise NotImplementedError(f"{name} of a tensor quantized by channel is not implemented in "
                                  "flambeau")
    return quantizer


def _declare_ordered(name: str, space: Any) -> None:
    """A choice among the elements, which is one among their integers."""
    own = space[name]

    def function(input: Any, *args: Any, **kwargs: Any) -> Any:
        quantizer = _per_tensor(input, name)
        result = own(_codes(input), *args, **kwargs)
        if not isinstance(result, tuple):
            return _rewrapped(result, quantizer)
        values, indices = result
        return type(result)((_rewrapped(values, quantizer), indices))

    function.__name__ = name
    implements(name)(function)


for _name in ("max", "min", "sort", "topk", "amax", "amin"):
    _declare_ordered(_name, PUBLIC["torch"])


@implements("max_pool2d")
def max_pool2d(input: Any, *args: Any, **kwargs: Any) -> Tensor:
    """The greatest element of each window."""
    quantizer = _per_tensor(input, "max_pool2d")
    codes = input._array.codes
    pooled = _functional["max_pool2d"](wrap(codes.astype(np.float32)), *args, **kwargs)
    return quantized(pooled._array.astype(codes.dtype), quantizer)


@implements("relu")
def relu(input: Any, inplace: bool = False) -> Tensor:
    """Negative elements become the zero point."""
    codes = np.maximum(input._array.codes, _per_tensor(input, "relu").zero_point)
    if not inplace:
        return quantized(codes.astype(input._array.codes.dtype), input._array.quantizer)
    input._array.codes[...] = codes
    return input  # type: ignore[no-any-return]


@implements("relu_")
def relu_(input: Any) -> Tensor:
    """Negative elements become the zero point, in place."""
    return relu(input, True)  # type: ignore[no-any-return]


# ---------------------------------------------------------- through floating point


def _declare_requantized(name: str, space: Any) -> None:
    """A function of the numbers, whose result has the input's quantizer."""
    own = space[name]

    def function(input: Any, *args: Any, **kwargs: Any) -> Tensor:
        quantizer = _per_tensor(input, name)
        result = own(dequantize(input), *args, **kwargs)
        return quantized(quantizer.quantize(result._array), quantizer)

    function.__name__ = name
    implements(name)(function)


for _name in ("mean", "clamp"):
    _declare_requantized(_name, PUBLIC["torch"])
for _name in "hardtanh relu6 leaky_relu avg_pool2d adaptive_avg_pool2d interpolate".split():
    _declare_requantized(_name, _functional)

_FIXED_RANGE = {"sigmoid": ((1 / 256, 0), (1 / 256, -128)), "tanh": ((2 / 256, 128), (2 / 256, 0))}


def _declare_fixed_range(name: str) -> None:
    """A function whose results lie in a known range, which its quantizer covers."""
    own = PUBLIC["torch"][name]

    def function(input: Any) -> Tensor:
        dtype = input.dtype
        if dtype not in (qint8, quint8):
            raise NotImplementedError(f"{name} of {dtype}")
        scale, zero = _FIXED_RANGE[name][dtype is qint8]
        quantizer = PerTensor(dtype, scale, zero)
        return quantized(quantizer.quantize(own(dequantize(input))._array), quantizer)

    function.__name__ = name
    implements(name)(function)


_declare_fixed_range("sigmoid")
_declare_fixed_range("tanh")


@implements("cat", "concat")
def cat(tensors: Any, dim: int = 0) -> Tensor:
    """The tensors behind one another, with the first one's quantizer."""
    quantizer = _per_tensor(tensors[0], "cat")
    parts = [x._array.codes if x._array.quantizer.same(quantizer)
             else quantizer.quantize(x._array.values()) for x in tensors]
    return quantized(np.concatenate(parts, dim), quantizer)


@implements("equal")
def equal(input: Any, other: Any) -> bool:
    """Whether both have one shape, one quantizer and the same integers."""
    a, b = input._array, getattr(other, "_array", None)
    return isinstance(b, QuantizedArray) and a.quantizer.same(b.quantizer) \
        and np.array_equal(a.codes, b.codes)


def _declare_comparison(name: str, *operators: str) -> None:
    own = PUBLIC["torch"][name]

    def function(input: Any, other: Any) -> Any:
        a, b = (dequantize(x) if isinstance(x, QuantizedTensor) else x for x in (input, other))
        return own(a, b)

    function.__name__ = name
    implements(name, *operators)(function)


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _declare_comparison(_name, f"__{_name}__")
QuantizedTensor.__hash__ = object.__hash__  # type: ignore[method-assign]


@implements("copy_")
def copy_(self: Any, src: Any, non_blocking: bool = False) -> Tensor:
    """Put numbers in: quantized, where `src` is a float32 or another quantized tensor."""
    array = self._array
    if not isinstance(self, QuantizedTensor):
        self._array[...] = src._array.values()
    elif isinstance(src, QuantizedTensor):
        if src.dtype is not self.dtype:
            raise RuntimeError("Quantized copy only works with Tensors with the same dtype")
        if src.shape != self.shape:
            raise RuntimeError("Quantized copy only works with Tensors with the same shape")
        array.codes[...] = src._array.codes
        array.quantizer = src._array.quantizer
    else:
        array.codes[...] = array.quantizer.quantize(np.broadcast_to(src._array, array.shape))
    return self  # type: ignore[no-any-return]


@implements("fill_")
def fill_(self: Any, value: Any) -> Tensor:
    """Every element becomes the number."""
    return copy_(self, wrap(np.float32(value)))  # type: ignore[no-any-return]


@implements("to")
def to(self: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Itself: the only device is the CPU. RuntimeError for a dtype: call dequantize()."""
    if any(hasattr(a, "is_floating_point") and a is not self.dtype
           for a in (*args, *kwargs.values())):
        error = RuntimeError("Creation of quantized tensor requires quantized dtype like "
                             "torch.quint8")
        error.add_note("Call dequantize() for a float32 tensor.")
        raise error
    return self  # type: ignore[no-any-return]


@implements("float", "half", "double", "bfloat16", "int", "long")
def refuse_cast(self: Any, *args: Any, **kwargs: Any) -> Tensor:
    """RuntimeError: `dequantize()` gives float32 numbers."""
    return to(self, wrap(np.float32(0)).dtype)  # type: ignore[no-any-return]


@implements("isclose", "allclose")
def isclose(*ignored: Any, **named: Any) -> Any:
    """RuntimeError, as in PyTorch."""
    raise RuntimeError("isclose is not supported for quantized inputs.")


@implements("empty_like")
def empty_like(self: Any, **ignored: Any) -> Tensor:
    """A tensor of any numbers of the same shape, with the same quantizer."""
    return wrap_quantized(QuantizedArray(np.zeros_like(self._array.codes), self._array.quantizer))
