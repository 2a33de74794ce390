"""Quantized tensors: a window on integers, and the quantizer that says what they stand for.

Views share the integers and the quantizer. Every use as a dense array fails, as for sparse tensors;
what operators do is in `ops/quantized`.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from .dtypes import QuantizedDtype
from .printing import array_str, prints_as_tensor, quantized_str, tensor_str
from .quantizers import Quantizer
from .storage import TypedStorage, UntypedStorage, offset_of, storage_of
from .tensor import Tensor, creation, wrap
from .windows.opaque_window import OpaqueWindow


class QuantizedArray(OpaqueWindow):
    """Integers (`codes`) and the quantizer that they were made by."""

    __slots__ = ("codes", "quantizer")

    def __init__(self, codes: np.ndarray, quantizer: Quantizer) -> None:
        self.codes, self.quantizer = codes, quantizer

    kind, backend = "quantized", "QuantizedCPU"
    dtype = property(lambda self: self.codes.dtype)
    shape = property(lambda self: self.codes.shape)
    strides = property(lambda self: self.codes.strides)
    itemsize = property(lambda self: self.codes.itemsize)
    nbytes = property(lambda self: self.codes.nbytes)
    base = property(lambda self: self.codes)

    def values(self) -> np.ndarray:
        """The float32 numbers."""
        return self.quantizer.dequantize(self.codes)


@prints_as_tensor
class QuantizedTensor(Tensor):
    """A tensor whose window is a QuantizedArray. Its methods come from `ops/quantized`."""

    __slots__ = ()
    _array: Any

    @property
    def dtype(self) -> QuantizedDtype:
        """`torch.qint8`, `torch.quint8` or `torch.qint32`."""
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

    # mypy forgets what the keywords of special methods are called.
    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        if tensor_contents is not None:
            return tensor_str(self, tensor_contents=tensor_contents)
        array = self._array
        quantizer = array.quantizer
        details = [f"dtype={self.dtype}", f"quantization_scheme={quantizer.scheme}",
                   *quantizer.suffixes(lambda numbers: repr(wrap(numbers)))]
        return quantized_str(array_str(array.values(), len("tensor(")), self, details)

    def stride(self, dim: int | None = None) -> Any:
        """Its strides in elements, or the one along `dim`."""
        return wrap(self._array.codes).stride(dim)

    def is_contiguous(self, *args: Any, **kwargs: Any) -> bool:
        """Whether its elements lie in the order of the memory format."""
        return wrap(self._array.codes).is_contiguous(*args, **kwargs)

    def data_ptr(self) -> int:
        """The address of its first integer."""
        return wrap(self._array.codes).data_ptr()

    def storage_offset(self) -> int:
        """How many integers into its storage it starts."""
        return offset_of(self._array.codes)

    def untyped_storage(self) -> UntypedStorage:
        """The memory of its integers."""
        return storage_of(self._array.codes)

    def storage(self) -> TypedStorage:
        """The memory of its integers, as elements of its dtype."""
        return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype)

    def is_shared(self) -> bool:
        """Whether its integers are shared with other processes."""
        return wrap(self._array.codes).is_shared()

    def type(self, *args: Any, **kwargs: Any) -> Any:
        """The name of its kind."""
        if args or kwargs:
            raise NotImplementedError("a quantized tensor cannot be cast; call dequantize() first")
        return f"torch.quantized.{self.dtype.scalar_name}Tensor"

    def item(self) -> Any:
        """Its only element as a number; RuntimeError when it has more."""
        if self._array.size != 1:
            raise RuntimeError(
                f"a Tensor with {self._array.size} elements cannot be converted to Scalar")
        return self._array.values().item()

    def tolist(self) -> NoReturn:
        """RuntimeError, as in PyTorch."""
        error = RuntimeError("load_scalar: invalid type")
        error.add_note("Call dequantize() or int_repr() first.")
        raise error

    def _numpy(self, *, force: bool = False) -> NoReturn:
        """TypeError: `dequantize()` or `int_repr()` comes first."""
        error = TypeError(f"Got unsupported ScalarType {self.dtype.scalar_name}")
        error.add_note("Call dequantize() or int_repr() first.")
        raise error

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """RuntimeError where it should require grad: integers have no gradients."""
        if requires_grad:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        return self


_methods: Any = QuantizedTensor
_methods.numpy = _methods.__array__ = QuantizedTensor._numpy
QuantizedTensor.__name__ = QuantizedTensor.__qualname__ = "Tensor"
QuantizedTensor.__module__ = Tensor.__module__


class QuantizedCreated:
    """Told when the first quantized tensor appears, and whenever one is made or read.

    `ops/quantized/dispatch.py` sets the first, a compiler's capture the second.
    """

    first: Any = None
    used: Any = None


def wrap_quantized(array: QuantizedArray) -> QuantizedTensor:
    """A quantized tensor on `array`: a leaf."""
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
    """A quantized tensor on integers."""
    return wrap_quantized(QuantizedArray(codes, quantizer))
