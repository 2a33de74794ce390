"""Quantized tensors: a window of integers, and the quantizer that maps them to numbers.

Views share the integers and the quantizer. Every use as a dense array fails, as for sparse tensors;
the operators are in `ops/quantized`.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from .dtypes import QuantizedDtype
from .printing import format_array, format_tensor, prints_as_tensor, quantized_str
from .quantizers import Quantizer
from .storage import TypedStorage, UntypedStorage, get_offset, get_storage
from .tensor import Tensor, creation, wrap
from .windows.opaque_window import OpaqueWindow


class QuantizedArray(OpaqueWindow):
    """Integers (`codes`) and the quantizer that produced them."""

    __slots__ = ("codes", "quantizer")

    def __init__(self, codes: np.ndarray, quantizer: Quantizer) -> None:
        self.codes, self.quantizer = codes, quantizer

    kind, backend = "quantized", "QuantizedCPU"
    memory = property(lambda self: self.codes, doc="What lies in its storage.")
    dtype = property(lambda self: self.codes.dtype)
    shape = property(lambda self: self.codes.shape)
    strides = property(lambda self: self.codes.strides)
    itemsize = property(lambda self: self.codes.itemsize)
    nbytes = property(lambda self: self.codes.nbytes)
    base = property(lambda self: self.codes)

    def values(self) -> np.ndarray:
        """Return the float32 numbers."""
        return self.quantizer.dequantize(self.codes)

    def write(self, codes: np.ndarray) -> None:
        """Overwrite the integers; `codes` broadcasts."""
        self.codes[...] = codes

    def rows(self, positions: np.ndarray) -> np.ndarray:
        """Return the integers at some positions along the first axis."""
        rows: np.ndarray = self.codes[positions]
        return rows


class PackedArray(QuantizedArray):
    """Integers of four or two bits, packed consecutively into the bytes of `memory`.

    `codes` unpacks them into one byte each, so views of such tensors are copies. As in PyTorch, the
    memory is sized for whole bytes per row, and the unused bytes are at its end.
    """

    __slots__ = ("_shape", "memory")
    memory: np.ndarray

    def __init__(self, memory: np.ndarray, shape: tuple[int, ...], quantizer: Quantizer) -> None:
        self.memory, self._shape, self.quantizer = memory, shape, quantizer

    @classmethod
    def of(cls, codes: np.ndarray, quantizer: Quantizer) -> PackedArray:
        """Pack integers."""
        codes_per_byte = quantizer.dtype.packed
        *outer, columns = codes.shape or (1,)
        memory = np.zeros(math.prod(outer) * -(-columns // codes_per_byte), np.uint8)
        result = cls(memory, codes.shape, quantizer)
        result.write(codes)
        return result

    @property
    def codes(self) -> np.ndarray:  # type: ignore[override]
        """The integers, one per byte."""
        return self._unpack(self.memory)[: self.size].reshape(self._shape)

    def _unpack(self, memory: np.ndarray) -> np.ndarray:
        codes_per_byte = self.quantizer.dtype.packed
        bits = 8 // codes_per_byte
        shifts = np.arange(codes_per_byte, dtype=np.uint8) * np.uint8(bits)
        return ((memory[..., None] >> shifts) & np.uint8(2**bits - 1)).reshape(
            *memory.shape[:-1], -1)

    shape = property(lambda self: self._shape)
    dtype = property(lambda self: self.memory.dtype)
    itemsize = property(lambda self: 1)
    nbytes = property(lambda self: self.memory.nbytes)
    base = property(lambda self: self.memory)

    def write(self, codes: np.ndarray) -> None:
        """Overwrite the integers; `codes` broadcasts."""
        codes_per_byte = self.quantizer.dtype.packed
        flat = np.broadcast_to(codes, self._shape).reshape(-1)
        groups = np.zeros((-(-flat.size // codes_per_byte), codes_per_byte), np.uint8)
        groups.reshape(-1)[: flat.size] = flat
        shifts = np.arange(codes_per_byte, dtype=np.uint8) * np.uint8(8 // codes_per_byte)
        self.memory[: len(groups)] = np.bitwise_or.reduce(groups << shifts, axis=1)

    def rows(self, positions: np.ndarray) -> np.ndarray:
        """Return the integers at some positions along the first axis; unpack only those if rows
        are whole bytes."""
        length = math.prod(self._shape[1:])
        if length % self.quantizer.dtype.packed:
            rows: np.ndarray = self.codes[positions]
            return rows
        chosen = self.memory.reshape(self._shape[0], -1)[positions]
        return self._unpack(chosen).reshape(*positions.shape, *self._shape[1:])


@prints_as_tensor
class QuantizedTensor(Tensor):
    """A tensor whose window is a QuantizedArray. Its methods come from `ops/quantized`."""

    __slots__ = ()
    _array: Any

    @property
    def dtype(self) -> QuantizedDtype:
        """`torch.qint8`, `torch.quint8`, `torch.qint32`, `torch.quint4x2` or `torch.quint2x4`."""
        dtype: QuantizedDtype = self._array.quantizer.dtype
        return dtype

    is_quantized = property(lambda self: True)
    is_cpu = property(lambda self: True)
    data = property(lambda self: wrap_quantized(self._array),
                    lambda self, value: setattr(self, "_array", value._array))

    def _alias(self, cls: type | None = None) -> Tensor:
        return Tensor._alias(self, QuantizedTensor if cls is None else cls)

    def _is_view(self) -> bool:
        return False

    # mypy rejects keyword arguments added to special methods.
    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        if tensor_contents is not None:
            return format_tensor(self, tensor_contents=tensor_contents)
        array = self._array
        quantizer = array.quantizer
        details = [f"dtype={self.dtype}", f"quantization_scheme={quantizer.scheme}",
                   *quantizer.suffixes(lambda numbers: repr(wrap(numbers)))]
        return quantized_str(format_array(array.values(), len("tensor(")), self, details)

    def stride(self, dim: int | None = None) -> Any:
        """Return the strides in elements, or the one along `dim`."""
        return wrap(self._array.codes).stride(dim)

    def is_contiguous(self, *args: Any, **kwargs: Any) -> bool:
        """Return whether its elements lie in memory in the order of the memory format."""
        return wrap(self._array.codes).is_contiguous(*args, **kwargs)

    def data_ptr(self) -> int:
        """Return the address of its first integer."""
        return wrap(self._array.memory).data_ptr()

    def storage_offset(self) -> int:
        """Return the offset of its first integer in its storage."""
        return get_offset(self._array.memory)

    def untyped_storage(self) -> UntypedStorage:
        """Return the memory of its integers."""
        return get_storage(self._array.memory)

    def storage(self) -> TypedStorage:
        """Return the memory of its integers, as elements of its dtype."""
        return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype)

    def is_shared(self) -> bool:
        """Return whether its integers are shared with other processes."""
        return wrap(self._array.memory).is_shared()

    def type(self, *args: Any, **kwargs: Any) -> Any:
        """Return the type name; NotImplementedError for a cast."""
        if args or kwargs:
            raise NotImplementedError("a quantized tensor cannot be cast; call dequantize() first")
        return f"torch.quantized.{self.dtype.scalar_name}Tensor"

    def item(self) -> Any:
        """Return the only element as a number; RuntimeError if there are more or none."""
        if self._array.size != 1:
            raise RuntimeError(
                f"a Tensor with {self._array.size} elements cannot be converted to Scalar")
        return self._array.values().item()

    def tolist(self) -> NoReturn:
        """Raise RuntimeError, as in PyTorch."""
        error = RuntimeError("load_scalar: invalid type")
        error.add_note("Call dequantize() or int_repr() first.")
        raise error

    def _numpy(self, *, force: bool = False) -> NoReturn:
        """Raise TypeError: call `dequantize()` or `int_repr()` first."""
        error = TypeError(f"Got unsupported ScalarType {self.dtype.scalar_name}")
        error.add_note("Call dequantize() or int_repr() first.")
        raise error

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Return self; RuntimeError for True, because integers have no gradients."""
        if requires_grad:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        return self


_methods: Any = QuantizedTensor
_methods.numpy = _methods.__array__ = QuantizedTensor._numpy
QuantizedTensor.__name__ = QuantizedTensor.__qualname__ = "Tensor"
QuantizedTensor.__module__ = Tensor.__module__


class QuantizedCreated:
    """Callbacks: `first` when the first quantized tensor is created, `used` when one is made or
    read.

    `ops/quantized/dispatch.py` sets `first`, a compiler's capture sets `used`.
    """

    first: Any = None
    used: Any = None


def wrap_quantized(array: QuantizedArray) -> QuantizedTensor:
    """Wrap `array` in a quantized tensor: a leaf."""
    if QuantizedCreated.first is not None:
        first, QuantizedCreated.first = QuantizedCreated.first, None
        first()
    if QuantizedCreated.used is not None:
        QuantizedCreated.used()
    result: QuantizedTensor = object.__new__(QuantizedTensor)
    result._array = array
    result._requires_grad = result._tracked = False
    result._node = result._grad = result._counter = result._base = None
    result._stamp = creation.stamp
    return result


def quantized(codes: np.ndarray, quantizer: Quantizer) -> QuantizedTensor:
    """Return a quantized tensor on integers, packed if the dtype stores several per byte."""
    if quantizer.dtype.packed > 1:
        return wrap_quantized(PackedArray.of(codes, quantizer))
    return wrap_quantized(QuantizedArray(codes, quantizer))


def quantized_on_bytes(
    memory: np.ndarray, shape: tuple[int, ...], quantizer: Quantizer
) -> QuantizedTensor:
    """Return a quantized tensor on packed integers."""
    return wrap_quantized(PackedArray(memory, shape, quantizer))
