"""Conversion between floating-point and quantized tensors: quantize_per_tensor, dequantize, ..."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...native.target.eager_costs import MAX_NUMPY_COSTLY_ELEMENTS
from ...tensor.dtypes import FLOAT32, QuantizedDtype, float16, qint8, quint8
from ...tensor.meta import MetaArray
from ...tensor.quantized import (
    QuantizedArray, QuantizedCreated, QuantizedTensor, quantized, quantized_on_bytes,
)
from ...tensor.quantizers import (
    PerChannel, PerTensor, Quantizer, choose_parameters, get_quantization_range,
)
from ...tensor.tensor import Tensor, wrap
from ...tensor.windows.opaque_window import describe_missing_implementation
from ..core.operator import publish
from ..creation.creation import public
from ..native.byte_products import quantize_rows

_SCALAR_NAMES = {"float64": "Double", "float32": "Float", "float16": "Half",
                 "bfloat16": "BFloat16", "int64": "Long", "int32": "Int", "int16": "Short",
                 "int8": "Char", "uint8": "Byte", "bool": "Bool"}


def _check_dtype(dtype: Any) -> QuantizedDtype:
    if not isinstance(dtype, QuantizedDtype):
        name = getattr(dtype, "name", str(dtype))
        raise RuntimeError(f"ScalarType {_SCALAR_NAMES.get(name, name)} is not supported in "
                           "new_qtensor.")
    return dtype


def _check_float32(input: Tensor) -> np.ndarray:
    array = input._array
    if array.__class__ is MetaArray:
        raise NotImplementedError("quantized meta tensors are not implemented in flambeau")
    if array.dtype != FLOAT32:
        name = input.dtype.name
        raise RuntimeError("Quantize only works on Float Tensor, got "
                           f"{_SCALAR_NAMES.get(name, name)}")
    return array


def _check_zero_point(zero_point: int, dtype: QuantizedDtype, name: str) -> None:
    codes: Any = dtype.codes
    limits = np.iinfo(codes)  # those of the bytes, also where a byte packs several integers
    low, high = int(limits.min), int(limits.max)
    if not low <= zero_point <= high:
        side = "below lower" if zero_point < low else "above upper"
        raise RuntimeError(f"{name} zero_point {zero_point} is {side} bound.")


@public()
def quantize_per_tensor(input: Any, scale: Any, zero_point: Any, dtype: Any) -> Any:
    """Quantize a float32 tensor to integers: round(input / scale + zero_point).

    Rounds half to even and saturates. A list of tensors takes tensors of scales and zero points,
    and gives a tuple. RuntimeError for another dtype or a zero point out of the integers' range.
    https://pytorch.org/docs/stable/generated/torch.quantize_per_tensor.html

    >>> torch.quantize_per_tensor(torch.tensor([-1., 0.24]), 0.1, 10, torch.quint8)
    tensor([-1.0000,  0.2000], size=(2,), dtype=torch.quint8,
           quantization_scheme=torch.per_tensor_affine, scale=0.1, zero_point=10)
    """
    if isinstance(input, (list, tuple)):
        return tuple(
            quantize_per_tensor(x, s, z, dtype)
            for x, s, z in zip(input, scale.tolist(), zero_point.tolist(), strict=True)
        )
    kind = _check_dtype(dtype)
    values = _check_float32(input)
    scale = float(scale.item() if isinstance(scale, Tensor) else scale)
    zero_point = int(zero_point.item() if isinstance(zero_point, Tensor) else zero_point)
    quantizer = make_tensor_quantizer(kind, scale, zero_point)
    codes = _try_kernel(values, scale, zero_point) if kind is quint8 else None
    return quantized(quantizer.quantize(values) if codes is None else codes, quantizer)


def _try_kernel(values: np.ndarray, scale: float, zero_point: int) -> np.ndarray | None:
    """Return the bytes of a large contiguous array, or None."""
    if values.size <= MAX_NUMPY_COSTLY_ELEMENTS or not values.flags.c_contiguous:
        return None
    codes = quantize_rows(values.reshape(1, -1), scale, zero_point)
    return None if codes is None else codes[0, : values.size].reshape(values.shape)


@public()
def quantize_per_tensor_dynamic(input: Tensor, dtype: Any, reduce_range: bool) -> Tensor:
    """Quantize a tensor with a scale and zero point chosen from its range.

    `reduce_range` uses one bit less. A float16 dtype casts to float16 instead.
    https://pytorch.org/docs/stable/generated/torch.quantize_per_tensor_dynamic.html

    >>> torch.quantize_per_tensor_dynamic(torch.tensor([0., 1.]), torch.quint8, False).int_repr()
    tensor([  0, 255], dtype=torch.uint8)
    """
    if dtype is float16:
        return input.to(float16)
    if dtype not in (qint8, quint8):
        raise RuntimeError(f"dtype {getattr(dtype, 'scalar_name', dtype)}not supported")
    values = _check_float32(input)
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    scale, zero = choose_parameters(low, high, *get_quantization_range(dtype, reduce_range))
    return quantize_per_tensor(input, scale, zero, dtype)


def _read_parameters(numbers: Any, dtype: type) -> np.ndarray:
    array = numbers._array if isinstance(numbers, Tensor) else np.asarray(numbers)
    return np.ascontiguousarray(array, dtype)


def make_channel_quantizer(
    dtype: QuantizedDtype, scales: Any, zero_points: Any, axis: int, shape: tuple[int, ...]
) -> PerChannel:
    """Return a quantizer of a shape; RuntimeError for parameters that do not fit it."""
    floating = zero_points._array.dtype.kind == "f"
    steps = _read_parameters(scales, np.float32 if floating else np.float64)
    zeros = _read_parameters(zero_points, np.float32 if floating else np.int64)
    if steps.ndim != 1 or zeros.ndim != 1:
        raise RuntimeError("scale/zero_point tensor must be 1-D")
    if steps.size != zeros.size:
        raise RuntimeError("number of elements in scales and zero_points must match")
    if not 0 <= axis < len(shape):
        raise RuntimeError("Channel axis out of range in per channel affine quantization. Got: "
                           f"{axis}Expected: [0, {len(shape)})")
    if steps.size != shape[axis]:
        raise RuntimeError("length of scales must equal to channel, expected "
                           f"{shape[axis]} got, {steps.size}")
    if not floating:
        for zero in zeros.tolist():
            _check_zero_point(zero, dtype, "quantize_tensor_per_channel_affine")
    return PerChannel(dtype, steps, zeros, axis)


@public()
def quantize_per_channel(
    input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, dtype: Any
) -> Tensor:
    """Quantize a tensor with a scale and a zero point per index along `axis`.

    https://pytorch.org/docs/stable/generated/torch.quantize_per_channel.html

    >>> x = torch.tensor([[-1., 0.], [1., 2.]])
    >>> zeros = torch.zeros(2, dtype=torch.int64)
    >>> torch.quantize_per_channel(x, torch.tensor([0.1, 0.01]), zeros, 0, torch.qint8).int_repr()
    tensor([[-10,   0],
            [100, 127]], dtype=torch.int8)
    """
    kind = _check_dtype(dtype)
    values = _check_float32(input)
    quantizer = make_channel_quantizer(kind, scales, zero_points, axis, values.shape)
    return quantized(quantizer.quantize(values), quantizer)


@public(spaces=("torch", "Tensor"), explains=True)
def dequantize(input: Any) -> Any:
    """Return a quantized tensor as float32, other tensors cast to float32; lists give tuples.

    https://pytorch.org/docs/stable/generated/torch.dequantize.html

    >>> torch.quantize_per_tensor(torch.tensor([0.26]), 0.1, 0, torch.qint8).dequantize()
    tensor([0.3000])
    """
    if isinstance(input, (list, tuple)):
        return tuple(dequantize(x) for x in input)
    if not isinstance(input, QuantizedTensor):
        return input.float()
    return wrap(_use_array(input, "dequantize").values())


@public(spaces=("torch", "Tensor"), explains=True)
def int_repr(input: Tensor) -> Tensor:
    """Return the integers of a quantized tensor as a new tensor.

    Sub-byte dtypes give their packed bytes, in one row.
    https://pytorch.org/docs/stable/generated/torch.Tensor.int_repr.html

    >>> torch.quantize_per_tensor(torch.tensor([0.26]), 0.1, 5, torch.quint8).int_repr()
    tensor([8], dtype=torch.uint8)
    """
    array = _use_array(input, "int_repr")
    codes_per_byte = array.quantizer.dtype.packed
    if codes_per_byte > 1:
        return wrap(array.memory[: -(-array.size // codes_per_byte)].copy())
    return wrap(array.codes.copy("K"))


def _use_array(input: Tensor, name: str) -> QuantizedArray:
    """Return a quantized tensor's array, telling a capture about it; NotImplementedError for other
    tensors."""
    array: Any = input._array
    if not isinstance(array, QuantizedArray):
        raise NotImplementedError(describe_missing_implementation(name, "CPU"))
    if QuantizedCreated.used is not None:
        QuantizedCreated.used()
    return array


def _find_quantizer(input: Tensor, name: str, cls: type, scheme: str) -> Any:
    quantizer = _use_array(input, name).quantizer
    if not isinstance(quantizer, cls):
        raise RuntimeError(f"Expected {scheme} to be true, but got false.")
    return quantizer


def _require_per_tensor(input: Tensor, name: str) -> PerTensor:
    quantizer: PerTensor = _find_quantizer(
        input, name, PerTensor, "quantizer->qscheme() == kPerTensorAffine")
    return quantizer


def _require_per_channel(input: Tensor, name: str) -> PerChannel:
    quantizer: PerChannel = _find_quantizer(
        input, name, PerChannel, "quantizer->qscheme() == kPerChannelAffine || "
        "quantizer->qscheme() == kPerChannelAffineFloatQParams")
    return quantizer


@public(spaces=("torch", "Tensor"), explains=True)
def q_scale(input: Tensor) -> float:
    """Return the scale of a per-tensor quantized tensor.

    >>> torch.quantize_per_tensor(torch.zeros(2), 0.1, 5, torch.quint8).q_scale()
    0.1
    """
    return _require_per_tensor(input, "q_scale").scale


@public(spaces=("torch", "Tensor"), explains=True)
def q_zero_point(input: Tensor) -> int:
    """Return the zero point of a per-tensor quantized tensor.

    >>> torch.quantize_per_tensor(torch.zeros(2), 0.1, 5, torch.quint8).q_zero_point()
    5
    """
    return _require_per_tensor(input, "q_zero_point").zero_point


@public(spaces=("torch", "Tensor"), explains=True)
def q_per_channel_scales(input: Tensor) -> Tensor:
    """Return the scales of a per-channel quantized tensor.

    >>> scales, zeros = torch.tensor([0.5, 0.25]), torch.tensor([0, 0])
    >>> x = torch.quantize_per_channel(torch.zeros(2, 3), scales, zeros, 0, torch.qint8)
    >>> x.q_per_channel_scales()
    tensor([0.5000, 0.2500], dtype=torch.float64)
    """
    return wrap(_require_per_channel(input, "q_per_channel_scales").scales.copy())


@public(spaces=("torch", "Tensor"), explains=True)
def q_per_channel_zero_points(input: Tensor) -> Tensor:
    """Return the zero points of a per-channel quantized tensor.

    >>> scales, zeros = torch.tensor([0.5, 0.25]), torch.tensor([0, 0])
    >>> x = torch.quantize_per_channel(torch.zeros(2, 3), scales, zeros, 0, torch.qint8)
    >>> x.q_per_channel_zero_points()
    tensor([0, 0])
    """
    return wrap(_require_per_channel(input, "q_per_channel_zero_points").zero_points.copy())


@public(spaces=("torch", "Tensor"), explains=True)
def q_per_channel_axis(input: Tensor) -> int:
    """Return the channel axis of a per-channel quantized tensor.

    >>> scales, zeros = torch.tensor([0.5, 0.25]), torch.tensor([0, 0])
    >>> x = torch.quantize_per_channel(torch.zeros(2, 3), scales, zeros, 0, torch.qint8)
    >>> x.q_per_channel_axis()
    0
    """
    return _require_per_channel(input, "q_per_channel_axis").axis


def qscheme(self: Tensor) -> Any:
    """Return the quantization scheme of a quantized tensor.

    >>> torch.quantize_per_tensor(torch.zeros(2), 0.1, 5, torch.quint8).qscheme()
    torch.per_tensor_affine
    """
    return _use_array(self, "qscheme").quantizer.scheme


publish(qscheme, ("qscheme",), ("Tensor",))


def _find_codes_dtype(input: Tensor) -> QuantizedDtype:
    from ...tensor.dtypes import QUANTIZED

    for dtype in QUANTIZED.values():
        if dtype.codes == input._array.dtype:
            return dtype
    raise RuntimeError(f"integers of dtype {input.dtype} are not a quantized dtype's")


@public()
def _make_per_tensor_quantized_tensor(input: Tensor, scale: float, zero_point: int) -> Tensor:
    """Wrap the integers of a uint8, int8 or int32 tensor as a quantized tensor."""
    quantizer = PerTensor(_find_codes_dtype(input), float(scale), int(zero_point))
    return quantized(input._array.copy("K"), quantizer)


@public()
def _make_per_channel_quantized_tensor(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int
) -> Tensor:
    """Wrap the integers of a uint8, int8 or int32 tensor, quantized by channel."""
    dtype = _find_codes_dtype(input)
    quantizer = make_channel_quantizer(dtype, scale, zero_point, axis, input._array.shape)
    return quantized(input._array.copy("K"), quantizer)


def make_tensor_quantizer(dtype: QuantizedDtype, scale: Any, zero_point: Any) -> PerTensor:
    """Return a quantizer with one scale; RuntimeError for a zero point that does not fit."""
    _check_zero_point(int(zero_point), dtype, "quantize_tensor_per_tensor_affine")
    return PerTensor(dtype, float(scale), int(zero_point))


def quantized_tensor_on(memory: Tensor, size: Any, quantizer: Quantizer) -> Tensor:
    """Return a quantized tensor sharing the memory of its integers, as loaded from a file.

    Integers smaller than a byte are packed into a vector of bytes.
    """
    if quantizer.dtype.packed > 1:
        return quantized_on_bytes(memory._array, tuple(size), quantizer)
    return quantized(memory._array, quantizer)


def _create_empty(size: Any, quantizer: Quantizer) -> Tensor:
    return quantized(np.zeros(tuple(size), quantizer.dtype.codes), quantizer)


@public()
def _empty_affine_quantized(
    *size: Any, scale: float = 1.0, zero_point: int = 0, dtype: Any = None, **ignored: Any
) -> Tensor:
    """Return an uninitialized quantized tensor."""
    shape = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    return _create_empty(shape, PerTensor(_check_dtype(dtype), float(scale), int(zero_point)))


@public()
def _empty_per_channel_affine_quantized(
    *size: Any, scales: Tensor, zero_points: Tensor, axis: int, dtype: Any = None, **ignored: Any
) -> Tensor:
    """Return an uninitialized tensor, quantized by channel."""
    shape = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    return _create_empty(shape,
                         make_channel_quantizer(_check_dtype(dtype), scales, zero_points, axis,
                                                       tuple(shape)))


@public()
def empty_quantized(size: Any, qtensor: Tensor, **ignored: Any) -> Tensor:
    """Return an uninitialized quantized tensor with another tensor's quantizer."""
    return _create_empty(size, _use_array(qtensor, "empty_quantized").quantizer)


@public()
def _choose_qparams_per_tensor(input: Tensor, reduce_range: bool = False) -> tuple[float, int]:
    """Return the scale and uint8 zero point that span a tensor's values."""
    values = input._array
    return choose_parameters(float(values.min()), float(values.max()),
                             *get_quantization_range(quint8, reduce_range))
