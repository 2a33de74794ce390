"""Conversion of tensors to another dtype or device."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.backward import require_gradients
from ...native.foundation.user_frames import warn
from ...native.target.eager_costs import MAX_NUMPY_COSTLY_ELEMENTS
from ...tensor import devices
from ...tensor import dtypes as types
from ...tensor.devices import device as Device
from ...tensor.dtypes import dtype as Dtype
from ...tensor.layout import (
    allocate_copy, contiguous_format, copy_in_format, is_in_format, is_plain, memory_format,
    preserve_format,
)
from ...tensor.meta import MetaArray, meta_array
from ...tensor.narrow_dtypes import COMPLEX32, NARROW, ROUNDED, narrow, normalize_bools, widen
from ...tensor.tensor import Tensor, wrap
from ...tensor.windows.batch import Batch
from ..core.operator import Array
from ..core.output_layout import Layout
from ..core.registry import opaque
from ..native.pointwise import try_cast_kernel
from ..native.transpose import put_in_order
from .creation import public


@opaque(leading=True, extents_follow=True, linear_in="input", layout=Layout.FREE,
        name="_to_copy", node="ToCopyBackward0", expose=(), samples=None, holomorphic=False)
def _to_copy(input: Array, dtype: Dtype | None, memory_format: Any) -> Array:
    """Return a copy in another dtype or memory format."""
    kind: Any = dtype
    return cast(input, kind, memory_format)


@_to_copy.batch
def _(batch: Batch, input: Tensor, dtype: Dtype | None, memory_format: Any) -> Tensor:
    below = batch.lower(input)
    if memory_format in (None, preserve_format, contiguous_format):
        return _to_copy(below, dtype, memory_format)
    # The examples' channels come last: their first axes and the batch are one axis meanwhile.
    return _to_copy(below.flatten(0, 1), dtype, memory_format).unflatten(0, below.shape[:2])


def cast(array: np.ndarray, dtype: np.dtype, form: memory_format = preserve_format) -> np.ndarray:
    """Return a copy of `array` in another dtype, with its axes laid out by `form`."""
    if array.__class__ is MetaArray:
        return meta_array(array.shape, dtype)
    if array.size <= MAX_NUMPY_COSTLY_ELEMENTS and (array.dtype, dtype) in _DIRECT \
            and is_plain(array) \
            and form is preserve_format:
        return array.astype(dtype)
    if (array.dtype in NARROW or dtype in ROUNDED) and array.dtype != dtype:
        widened = widen(array)
        return copy_in_format(narrow(_take_real(widened, dtype), dtype), form) if dtype in ROUNDED \
            else cast(widened, dtype, form)
    if array.dtype.kind == "c" and dtype.kind != "c":
        warn(
            "Casting complex values to real discards the imaginary part",
            UserWarning,
        )
        array = array.real
    if array.dtype == dtype:
        return copy_in_format(array, form)
    if array.size > MAX_NUMPY_COSTLY_ELEMENTS:
        source = array if form is preserve_format else put_in_order(array)
        fits = form is preserve_format or source.flags.c_contiguous
        if fits and (y := try_cast_kernel(source, dtype)) is not None:
            return y if form in (preserve_format, contiguous_format) else copy_in_format(y, form)
    if form is preserve_format and not is_plain(array):
        result = allocate_copy(array, dtype)
        np.copyto(result, _truncate(array, dtype), casting="unsafe")
        return result
    result = _truncate(array, dtype).astype(dtype, order="C", copy=False)
    return result if form in (preserve_format, contiguous_format) else copy_in_format(result, form)


def _take_real(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the real parts if the dtype is real."""
    return array if dtype == COMPLEX32 or array.dtype.kind != "c" else array.real


# Casts that NumPy computes like PyTorch.
_DIRECT = frozenset(
    (a.numpy, b.numpy)
    for a in (types.float32, types.float64, types.int64, types.int32, types.uint8, types.bool_)
    for b in (types.float32, types.float64, types.int64, types.int32, types.bool_)
    if a is not b
)


def _truncate(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Convert floats to the wide integers that PyTorch's casts to integers use, so that overflow
    gives the same values, and views of integers as bools to bools; return others unchanged."""
    if array.dtype.kind == "b" and dtype.kind == "V":
        return normalize_bools(array)  # ml_dtypes would read the byte
    if array.dtype.kind not in "fV" or dtype.kind not in "iu" or dtype == np.uint64:
        return array
    widened = array.astype(np.float64) if array.dtype.kind == "V" else array
    return widened.astype(np.int32 if dtype in _BY_INT32 else np.int64)


_BY_INT32 = frozenset(map(np.dtype, ("int8", "int16", "uint16", "int32")))


@_to_copy.vjp
def _(g: Tensor, input_dtype: Any) -> Tensor:
    if g.dtype.is_complex and not input_dtype.is_complex:
        g = g.real
    return g.to(input_dtype)


def _to(
    self: Tensor, *args: Any, device: Any = None, dtype: Dtype | None = None,
    non_blocking: bool = False, copy: bool = False, memory_format: Any = None, other: Any = None,
) -> Tensor:
    """Return this tensor in another dtype or on another device; itself if nothing changes.

    Call as `to(dtype)`, `to(device)`, `to(device, dtype)`, or `to(other)` to match a tensor.
    copy=True always copies.

    >>> x = torch.tensor([1.5])
    >>> x.to(torch.int64), x.to(torch.float32) is x
    (tensor([1]), True)
    """
    if len(args) == 1 and args[0].__class__ is Dtype and not copy \
            and device is memory_format is other is dtype is None:
        kind = args[0].numpy
        return self if kind is self._array.dtype else _to_copy(self, kind, preserve_format)
    dtype = types.as_dtype(dtype)
    for i, a in enumerate(map(types.as_dtype, args)):
        if isinstance(a, Dtype):
            dtype = a
        elif isinstance(a, (Device, str)) or (isinstance(a, int) and not isinstance(a, bool)):
            device = a
        elif isinstance(a, Tensor):
            device, dtype = a.device, a.dtype
        elif isinstance(a, bool):
            non_blocking, copy = (a, copy) if i < 2 else (non_blocking, a)
        elif a is not None:
            raise TypeError(
                f"to() received an invalid combination of arguments - got ({type(a).__name__})"
            )
    if other is not None:
        device, dtype = other.device, other.dtype
    kind = self._array.dtype if dtype is None else dtype.numpy
    if device is not None and (target := devices.require_usable(device)) != self.device:
        self = _move(self, target)
    same = kind == self._array.dtype and not copy
    if same and (memory_format is None or memory_format is preserve_format
                 or is_in_format(self._array, memory_format)):
        return self
    return _to_copy(self, kind, memory_format or preserve_format)


def _move(x: Tensor, target: Device) -> Tensor:
    if target is devices.META:
        result = wrap(meta_array(x._array.shape, x._array.dtype))
        return require_gradients(result) if x.requires_grad and x.is_leaf else result
    raise NotImplementedError("Cannot copy out of meta tensor; no data!")


_methods: Any = Tensor
_methods.to = _to


def _attach_method(name: str, dtype: Dtype) -> None:
    kind = dtype.numpy

    def method(self: Tensor, memory_format: Any = preserve_format) -> Tensor:
        if self._array.dtype == kind and (memory_format is preserve_format
                                          or is_in_format(self._array, memory_format)):
            return self
        return _to_copy(self, kind, memory_format)

    method.__name__, method.__doc__ = name, f"""This tensor as {dtype}; itself when it is already.

    >>> torch.tensor([0, 1]).{name}().dtype
    {dtype}
    """
    setattr(Tensor, name, method)


for _name, _dtype in types.ALIASES.items():
    _attach_method(_name, _dtype)
for _name, _dtype in (("bool", types.bool_), ("byte", types.uint8), ("char", types.int8),
                      ("bfloat16", types.bfloat16)):
    _attach_method(_name, _dtype)


@public(spaces=("Tensor",))
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """Return this tensor converted to the dtype and device of `other`.

    >>> torch.tensor([1.5]).type_as(torch.tensor([1]))
    tensor([1])
    """
    if other.__class__ is self.__class__ and other._array.__class__ is self._array.__class__:
        return self.to(other.dtype)
    place = other.device
    return self.to(other.dtype) if place == self.device else self.to(place, other.dtype)


_LEGACY = {
    "torch.FloatTensor": types.float32, "torch.DoubleTensor": types.float64,
    "torch.HalfTensor": types.float16, "torch.BFloat16Tensor": types.bfloat16,
    "torch.ByteTensor": types.uint8, "torch.CharTensor": types.int8,
    "torch.ShortTensor": types.int16, "torch.IntTensor": types.int32,
    "torch.LongTensor": types.int64, "torch.BoolTensor": types.bool_,
    "torch.ComplexHalfTensor": types.complex32, "torch.ComplexFloatTensor": types.complex64,
    "torch.ComplexDoubleTensor": types.complex128,
}
_LEGACY_NAMES = {d: name for name, d in _LEGACY.items()}


@public("type", spaces=("Tensor",))
def legacy_type(self: Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """Return the legacy type name, or convert to a dtype, type name or typed tensor class.

    >>> torch.zeros(1).type(), torch.zeros(1).type(torch.int64)
    ('torch.FloatTensor', tensor([0]))
    """
    if dtype is None:
        return _LEGACY_NAMES.get(self.dtype, str(self.dtype))
    if isinstance(dtype, str):
        if dtype not in _LEGACY:
            raise ValueError(f"invalid type: '{dtype}'")
        dtype = _LEGACY[dtype]
    if dtype is Tensor:
        dtype = types.get_default_dtype()
    return self.to(getattr(dtype, "legacy_dtype", dtype))


@public(spaces=("Tensor",))
def cpu(self: Tensor, memory_format: Any = preserve_format) -> Tensor:
    """Return this tensor on the CPU, without a copy if it is already there.

    >>> x = torch.zeros(2)
    >>> x.cpu() is x
    True
    """
    return self.to(device="cpu")


@public(spaces=("Tensor",))
def cuda(self: Tensor, device: Any = None, non_blocking: bool = False,
         memory_format: Any = preserve_format) -> Tensor:
    """Raise AssertionError: flambeau has no GPU support.

    >>> torch.zeros(2).cuda()
    Traceback (most recent call last):
        ...
    AssertionError: Torch not compiled with CUDA enabled
    flambeau runs on the CPU; device 'cuda' is not available. Check torch.cuda.is_available() first.
    """
    if device is not None and devices.device("cuda" if device == -1 else device).type != "cuda":
        raise RuntimeError("Invalid device, must be cuda device")
    return self.to(device="cuda" if device is None else device)


@public(spaces=("Tensor",))
def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """Raise RuntimeError: page-locked memory needs an accelerator.

    >>> torch.zeros(2).pin_memory()
    Traceback (most recent call last):
        ...
    RuntimeError: Cannot access accelerator device when none is available.
    """
    raise RuntimeError("Cannot access accelerator device when none is available.")
