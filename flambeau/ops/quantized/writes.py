"""Writes into quantized tensors: numbers are quantized as they go in, as the target is."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tensor.dtypes import float32
from ...tensor.layout import channels_last
from ...tensor.quantized import QuantizedTensor
from ...tensor.quantizers import PerTensor
from ...tensor.tensor import Tensor, wrap
from .dispatch import implements
from .views import get_codes, is_basic


@implements("copy_")
def copy_(self: Any, src: Any, non_blocking: bool = False) -> Tensor:
    """Write a float32 or another quantized tensor in place, quantizing it.

    RuntimeError for a different shape, or if either tensor is not contiguous.
    """
    if not isinstance(self, QuantizedTensor):
        raise RuntimeError(
            "Copying from quantized Tensor to non-quantized Tensor is not allowed, please use "
            "dequantize to get a float Tensor from a quantized Tensor")
    array: Any = self._array
    if isinstance(src, QuantizedTensor):
        if src.dtype is not self.dtype:
            raise RuntimeError("Quantized copy only works with Tensors with the same dtype")
        if src.shape != self.shape:
            raise RuntimeError("Quantized copy only works with Tensors with the same shape")
        array.quantizer = src._array.quantizer
        array.write(src._array.codes)
        return self
    if src.dtype is not float32:
        raise RuntimeError("Quantized copy only works with kFloat as source Tensor")
    if not (_are_both_contiguous(self, src)
            or _are_both_contiguous(self, src, memory_format=channels_last)):
        raise RuntimeError("Quantized copy only works with contiguous and NHWC Tensors")
    if self.shape != src.shape:
        raise RuntimeError("Quantized copy only works with Tensors with the same shape")
    array.write(array.quantizer.quantize(src._array))
    return self


def _are_both_contiguous(a: Tensor, b: Tensor, **order: Any) -> bool:
    return a.is_contiguous(**order) and b.is_contiguous(**order)


@implements("fill_")
def fill_(self: Any, value: Any) -> Tensor:
    """Set every element to the number."""
    array = self._array
    number = np.float32(value.item() if isinstance(value, Tensor) else value)
    array.write(array.quantizer.quantize(np.full(array.shape, number)))
    return self


def _require_per_tensor(x: Any, name: str) -> PerTensor:
    quantizer = x._array.quantizer
    if not isinstance(quantizer, PerTensor):
        raise RuntimeError(f"{name} for quantized tensors is currently only supported for per "
                           "tensor quantized tensors")
    return quantizer


@implements("masked_fill_")
def masked_fill_(self: Any, mask: Tensor, value: Any) -> Tensor:
    """Set the elements where the mask is true to the number."""
    number = np.array([value.item() if isinstance(value, Tensor) else value], np.float32)
    code = _require_per_tensor(self, "masked_fill__quantized_cpu").quantize(number)[0]
    codes = get_codes(self)
    codes.masked_fill_(mask, int(code))
    self._array.write(codes._array)
    return self


@implements("masked_fill")
def masked_fill(self: Any, mask: Tensor, value: Any) -> Tensor:
    """Return a copy filled as by `masked_fill_`."""
    return masked_fill_(self.clone(), mask, value)


@implements("index_put_")
def index_put_(self: Any, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """Write values at the given indices."""
    if isinstance(values, QuantizedTensor):
        raise RuntimeError("Value argument for quantized input_put should not be quantized")
    quantizer = _require_per_tensor(self, "index_put")
    if accumulate:
        raise RuntimeError("index_put for quantized tensors is currently only supported for "
                           "accumulate=False")
    codes = get_codes(self)
    codes.index_put_(indices, wrap(quantizer.quantize(values._array)))
    self._array.write(codes._array)
    return self


@implements("index_put")
def index_put(self: Any, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """Return a copy written as by `index_put_`."""
    return index_put_(self.clone(), indices, values, accumulate)


@implements("__setitem__")
def __setitem__(self: Any, index: Any, value: Any) -> None:
    """Put numbers in: a number, a float32 tensor or another quantized one."""
    if self.dtype.packed > 1:
        raise NotImplementedError(f"writing into parts of a tensor of {self.dtype} is not "
                                  "implemented in flambeau")
    if is_basic(index):
        _assign(self[index], value)
        return
    if not isinstance(value, Tensor):
        value = wrap(np.asarray(value, np.float32))
    quantizer = _require_per_tensor(self, "index_put")
    get_codes(self)[index] = wrap(quantizer.quantize(value._array))


def _assign(target: Any, value: Any) -> None:
    if not isinstance(value, Tensor):
        fill_(target, value)
        return
    while value.ndim > target.ndim and value.shape[0] == 1:
        value = value[0]
    copy_(target, value if value.shape == target.shape else value.expand(target.shape))
