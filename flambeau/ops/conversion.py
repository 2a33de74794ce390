"""Conversion: Python data, NumPy arrays, other tensors in and out; dtypes, devices and copies."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..autograd.mode import MODE
from ..tensor import devices
from ..tensor import dtypes as types
from ..tensor.devices import device as Device
from ..tensor.dtypes import FROM_NUMPY, from_numpy_dtype
from ..tensor.dtypes import dtype as Dtype
from ..tensor.layout import (
    contiguous_format, copy_in_format, is_contiguous, memory_format, preserve_format,
)  # fmt: skip
from ..tensor.meta import MetaArray, meta_array
from ..tensor.storage import anchored
from ..tensor.tensor import Tensor, _TensorType, wrap
from .copies_native import in_order
from .creation import empty, numpy_dtype, place, public
from .inplace import bump
from .pointwise_native import MIDDLE, large_cast
from .python_data import array_of
from .registry import Array, opaque
from .row_copies import fill, large_copy
from .samples import real_line

# ----------------------------------------------------------------------------- data to tensors


@public()
def tensor(
    data: Any, *, dtype: Dtype | None = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False, names: Any = None,
) -> Tensor:  # fmt: skip
    """A new tensor with a copy of `data`: numbers, nested sequences, an array or a tensor.

    >>> torch.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    if isinstance(data, Tensor):
        warnings.warn(
            "To copy construct from a tensor, it is recommended to use "
            "sourceTensor.detach().clone() or sourceTensor.detach().clone().requires_grad_(True), "
            "rather than torch.tensor(sourceTensor).",
            UserWarning,
            stacklevel=2,
        )
    return place(array_from(data, dtype, copy=True), device, requires_grad)


def array_from(data: Any, dtype: Dtype | None, copy: bool) -> np.ndarray:
    """`data` as an array of the dtype asked for, or the one its elements suggest."""
    if isinstance(data, Tensor):
        array = data._array
    elif isinstance(data, (np.ndarray, np.generic)) or hasattr(
        data, "__array_interface__"
    ) or hasattr(data, "__array__"):
        array = _native(np.asarray(data))
    else:
        return array_of(data, dtype)
    kind = array.dtype if dtype is None else numpy_dtype(dtype)
    return array.astype(kind, copy=copy) if array.dtype != kind or copy else array


def _native(array: np.ndarray) -> np.ndarray:
    kind = from_numpy_dtype(array.dtype).numpy
    return array if array.dtype == kind else array.astype(kind)


@public()
def as_tensor(data: Any, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """`data` as a tensor, sharing memory with tensors and arrays that already have the dtype.

    A new dtype or device means a copy. `from_numpy` shares memory or fails, `tensor` always copies.

    >>> x = torch.zeros(2)
    >>> torch.as_tensor(x) is x, torch.as_tensor([1, 2.5])
    (True, tensor([1.0000, 2.5000]))
    """
    if isinstance(data, Tensor):
        return data if dtype is None and device is None else data.to(
            device=device or data.device, dtype=dtype or data.dtype)  # fmt: skip
    if isinstance(data, np.ndarray) and (dtype is None or from_numpy_dtype(data.dtype) is dtype):
        return place(from_numpy(data)._array, device)
    return place(array_from(data, dtype, copy=False), device)


@public()
def asarray(
    obj: Any, *, dtype: Dtype | None = None, device: Any = None, copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`obj` as a tensor; `copy` True always copies, False never does, None only when it must.

    >>> x = torch.zeros(2)
    >>> torch.asarray(x, copy=True).data_ptr() == x.data_ptr()
    False
    """
    made = as_tensor(obj, dtype, device)
    if copy and isinstance(obj, (Tensor, np.ndarray)):
        made = made.clone()
    if copy is False and isinstance(obj, Tensor) and made is not obj:
        raise ValueError("cannot alias tensor with different dtype or device")
    if isinstance(obj, Tensor) and not requires_grad:
        return made.detach() if made.requires_grad else made
    return made.requires_grad_(requires_grad) if requires_grad else made


@public()
def from_numpy(ndarray: np.ndarray) -> Tensor:
    """A tensor on the memory of a NumPy array.

    TypeError for anything else, and for dtypes that tensors do not have.

    >>> import numpy as np
    >>> array = np.zeros(2)
    >>> x = torch.from_numpy(array)
    >>> array[0] = 5
    >>> x
    tensor([5., 0.], dtype=torch.float64)
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    from_numpy_dtype(ndarray.dtype)
    if not ndarray.dtype.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion "
            "between byte orders is currently not supported."
        )
    if any(s < 0 for s in ndarray.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative "
            "strides are not currently supported. (You can probably work around this by making a "
            "copy of your array  with array.copy().)"
        )
    if not ndarray.flags.writeable:
        warnings.warn(
            "The given NumPy array is not writable, and PyTorch does not support non-writable "
            "tensors. This means writing to this tensor will result in undefined behavior. You "
            "may want to copy the array to protect its data or make it writable before converting "
            "it to a tensor.",
            UserWarning,
            stacklevel=2,
        )
    return wrap(anchored(ndarray.view(np.ndarray)))


@public()
def frombuffer(
    buffer: Any, *, dtype: Dtype, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A one-dimensional tensor on the memory of a buffer.

    >>> torch.frombuffer(bytearray([1, 0, 2, 0]), dtype=torch.int16)
    tensor([1, 2], dtype=torch.int16)
    """
    length = memoryview(buffer).nbytes
    if length == 0:
        raise ValueError("both buffer length (0) and count must not be 0")
    if offset >= length or offset < 0:
        raise ValueError(f"offset must be non-negative and no greater than buffer length ({length})"
                         f" - 1, but got {offset}")  # fmt: skip
    item = dtype.itemsize
    if count < 0 and (length - offset) % item:
        raise ValueError(
            f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a "
            f"multiple of element size ({item})"
        )
    array = np.frombuffer(buffer, np.uint8, -1 if count < 0 else count * item, offset)
    return place(array.view(dtype.numpy), None, requires_grad)


@public(spaces=("torch", "utils.dlpack"))
def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor on the memory of any object that speaks DLPack.

    The memory is shared: of NumPy's arrays, for one.

    >>> import numpy as np
    >>> torch.from_dlpack(np.arange(3))
    tensor([0, 1, 2])
    """
    if isinstance(ext_tensor, Tensor):
        return ext_tensor.detach()
    return wrap(anchored(np.from_dlpack(ext_tensor)))


@public(spaces=("utils.dlpack",))
def to_dlpack(tensor: Tensor) -> Any:
    """The tensor's memory as a DLPack capsule."""
    return tensor.__dlpack__()


def _construct(cls: type, *args: Any, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """`torch.Tensor(2, 3)`, `torch.Tensor([1, 2])`, and the typed classes' constructors."""
    if len(args) == 1 and isinstance(args[0], (list, tuple, np.ndarray)) and not _is_size(args[0]):
        made = place(array_from(args[0], dtype or types.get_default_dtype(), True), device)
    elif len(args) == 1 and isinstance(args[0], Tensor):
        made = args[0]._alias()
    else:
        made = empty(*(args or (0,)), dtype=dtype, device=device)
    return made if cls is Tensor else made._alias(cls)


def _is_size(x: Any) -> bool:
    from ..tensor.size import Size

    return isinstance(x, Size)


_TensorType.construct = staticmethod(_construct)


def _new(self: Tensor, *args: Any, device: Any = None) -> Tensor:
    """A new tensor of this one's dtype, as `torch.Tensor(...)` would make it.

    >>> torch.tensor([1]).new([1, 2])
    tensor([1, 2])
    """
    if len(args) == 1 and isinstance(args[0], (list, tuple, np.ndarray)) and not _is_size(args[0]):
        return self.new_tensor(args[0])
    return empty(*(args or (0,)), dtype=self.dtype, device=device)


def _new_tensor(
    self: Tensor, data: Any, *, dtype: Dtype | None = None, device: Any = None,
    requires_grad: bool = False, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor with a copy of `data`, in this one's dtype.

    >>> torch.tensor([1.], dtype=torch.float64).new_tensor([1, 2])
    tensor([1., 2.], dtype=torch.float64)
    """
    return place(array_from(data, dtype or self.dtype, True), device or self.device, requires_grad)


Tensor.new, Tensor.new_tensor = _new, _new_tensor

# ------------------------------------------------------------------------------------ dtypes


@opaque(name="_to_copy", node="ToCopyBackward0", expose=(), samples=None, holomorphic=False)
def _to_copy(input: Array, dtype, memory_format) -> Array:
    """A copy in another dtype or memory format."""
    with np.errstate(all="ignore"):
        return cast(input, dtype, memory_format)


def cast(array: np.ndarray, dtype: np.dtype, form: memory_format = preserve_format) -> np.ndarray:
    """`array` in another dtype, its axes laid out as the format says; always a copy."""
    if array.__class__ is MetaArray:
        return meta_array(array.shape, dtype)
    if array.dtype.kind == "c" and dtype.kind != "c":
        warnings.warn(
            "Casting complex values to real discards the imaginary part",
            UserWarning,
            stacklevel=5,
        )
        array = array.real
    if array.dtype.kind in "fV" and dtype.kind in "iu":
        array = _truncated(array, dtype)
    if array.dtype == dtype:
        return copy_in_format(array, form)
    if form is preserve_format and not array.flags.c_contiguous:
        return copy_in_format(array, form).astype(dtype, order="K")
    y = large_cast(array, dtype) if array.size > MIDDLE and array.flags.c_contiguous else None
    if y is not None:
        return y if form in (preserve_format, contiguous_format) else copy_in_format(y, form)
    return array.astype(dtype, order="C") if form in (preserve_format, contiguous_format) \
        else copy_in_format(array.astype(dtype), form)  # fmt: skip


def _truncated(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Floats on their way to integers, through int64 so that narrow ones wrap around."""
    wide = array.astype(np.float64) if array.dtype.kind == "V" else array
    return wide.astype(np.int64) if dtype != np.uint64 else wide


@_to_copy.vjp
def _(g, input_dtype):
    if g.dtype.is_complex and not input_dtype.is_complex:
        g = g.real
    return g.to(input_dtype)


def _to(
    self: Tensor, *args: Any, device: Any = None, dtype: Dtype | None = None,
    non_blocking: bool = False, copy: bool = False, memory_format: Any = None, other: Any = None,
) -> Tensor:  # fmt: skip
    """This tensor in another dtype or on another device; itself when nothing changes.

    `to(dtype)`, `to(device)`, `to(device, dtype)`, or `to(other)` for those of another tensor.
    copy=True copies in any case.

    >>> x = torch.tensor([1.5])
    >>> x.to(torch.int64), x.to(torch.float32) is x
    (tensor([1]), True)
    """
    for i, a in enumerate(args):
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
    moved = device is not None and devices.usable(device) is not self.device
    if moved:
        self = _moved(self, devices.usable(device))
    same = kind == self._array.dtype and not copy
    if same and (memory_format is None or memory_format is preserve_format
                 or is_contiguous(self._array, memory_format)):  # fmt: skip
        return self
    return _to_copy(self, kind, memory_format or preserve_format)


def _moved(x: Tensor, where: Device) -> Tensor:
    if where is devices.META:
        made = wrap(meta_array(x._array.shape, x._array.dtype))
        return made.requires_grad_() if x.requires_grad and x.is_leaf else made
    raise NotImplementedError("Cannot copy out of meta tensor; no data!")


Tensor.to = _to


def _method_of(name: str, dtype: Dtype) -> None:
    def method(self: Tensor, memory_format: Any = preserve_format) -> Tensor:
        if self._array.dtype == dtype.numpy:
            return self
        return _to_copy(self, dtype.numpy, memory_format)

    method.__name__, method.__doc__ = name, f"""This tensor as {dtype}; itself when it is already.

    >>> torch.tensor([0, 1]).{name}().dtype
    {dtype}
    """
    setattr(Tensor, name, method)


for _name, _dtype in types.ALIASES.items():
    _method_of(_name, _dtype)
for _name, _dtype in (("bool", types.bool_), ("byte", types.uint8), ("char", types.int8),
                      ("bfloat16", types.bfloat16)):  # fmt: skip
    _method_of(_name, _dtype)


@public(spaces=("Tensor",))
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """This tensor in the dtype of `other`.

    >>> torch.tensor([1.5]).type_as(torch.tensor([1]))
    tensor([1])
    """
    return self.to(other.dtype)


_LEGACY = {
    "torch.FloatTensor": types.float32, "torch.DoubleTensor": types.float64,
    "torch.HalfTensor": types.float16, "torch.BFloat16Tensor": types.bfloat16,
    "torch.ByteTensor": types.uint8, "torch.CharTensor": types.int8,
    "torch.ShortTensor": types.int16, "torch.IntTensor": types.int32,
    "torch.LongTensor": types.int64, "torch.BoolTensor": types.bool_,
    "torch.ComplexFloatTensor": types.complex64, "torch.ComplexDoubleTensor": types.complex128,
}  # fmt: skip
_LEGACY_NAMES = {d: name for name, d in _LEGACY.items()}


@public("type", spaces=("Tensor",))
def legacy_type(self: Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """Its legacy type name, or this tensor converted to a dtype, type name or typed class.

    >>> torch.zeros(1).type(), torch.zeros(1).type(torch.int64)
    ('torch.FloatTensor', tensor([0]))
    """
    if dtype is None:
        return _LEGACY_NAMES.get(self.dtype, str(self.dtype))
    if isinstance(dtype, str):
        if dtype not in _LEGACY:
            raise ValueError(f"invalid type: '{dtype}'")
        dtype = _LEGACY[dtype]
    return self.to(getattr(dtype, "legacy_dtype", dtype))


@public(spaces=("Tensor",))
def cpu(self: Tensor, memory_format: Any = preserve_format) -> Tensor:
    """This tensor on the CPU.

    >>> x = torch.zeros(2)
    >>> x.cpu() is x
    True
    """
    return self.to(device="cpu")


@public(spaces=("Tensor",))
def cuda(self: Tensor, device: Any = None, non_blocking: bool = False,
         memory_format: Any = preserve_format) -> Tensor:  # fmt: skip
    """Raises: there is no GPU in flambeau.

    >>> torch.zeros(2).cuda()
    Traceback (most recent call last):
        ...
    AssertionError: Torch not compiled with CUDA enabled: flambeau runs on the CPU; ...
    """
    return self.to(device="cuda" if device is None else device)


@public(spaces=("Tensor",))
def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """Raises: page-locked memory needs an accelerator.

    >>> torch.zeros(2).pin_memory()
    Traceback (most recent call last):
        ...
    RuntimeError: Cannot access accelerator device when none is available.
    """
    raise RuntimeError("Cannot access accelerator device when none is available.")


# ------------------------------------------------------------------------------------ copies


@opaque(ref=lambda x: x + 0, samples=real_line)
def clone(input: Array, *, memory_format=preserve_format) -> Array:
    """A copy, through which gradients flow.

    `detach().clone()` copies without the history.

    >>> x = torch.zeros(2)
    >>> y = x.clone().fill_(1)
    >>> x, y
    (tensor([0., 0.]), tensor([1., 1.]))
    """
    if input.__class__ is MetaArray:
        return input.copy()
    if memory_format is contiguous_format and (y := in_order(input)) is not None:
        return y
    in_order_anyway = memory_format is preserve_format and input.flags.c_contiguous
    if (in_order_anyway or memory_format is contiguous_format) \
            and (y := large_copy(input)) is not None:  # fmt: skip
        return y
    return input.copy() if in_order_anyway else copy_in_format(input, memory_format)


@clone.vjp
def _(g):
    return g


@public(spaces=("Tensor",))
def contiguous(self: Tensor, memory_format: Any = contiguous_format) -> Tensor:
    """Itself when its elements lie in order, else a copy in which they do.

    >>> x = torch.zeros(2, 3)
    >>> x.contiguous() is x, x.T.is_contiguous(), x.T.contiguous().is_contiguous()
    (True, False, True)
    """
    if self.is_contiguous(memory_format=memory_format):
        return self
    return clone(self, memory_format=memory_format)


@public(spaces=("Tensor",))
def copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Copies `src`, broadcast and cast, into this tensor.

    >>> torch.zeros(2).copy_(torch.tensor(5))
    tensor([5., 5.])
    """
    if not isinstance(src, Tensor):
        raise TypeError(
            f"copy_(): argument 'other' (position 1) must be Tensor, not "
            f"{src.__class__.__name__}"
        )
    if self._array.__class__ is MetaArray:
        return self
    if MODE.grad and (self._tracked or src._tracked) and (self.requires_grad or src.requires_grad):
        from .index import overwrite

        return overwrite(self, src, "copy_")
    _copy_array(self, src)
    bump(self)
    return self


def _copy_array(target: Tensor, src: Tensor) -> None:
    source, array = src._array, target._array
    try:
        if source.dtype != array.dtype:
            with np.errstate(all="ignore"):
                source = cast(source, array.dtype)
        elif np.may_share_memory(source, array):
            source = source.copy()
        fill(array, source)
    except ValueError:
        raise RuntimeError(
            f"The size of tensor a ({list(array.shape)}) must match the size of tensor b "
            f"({list(src.shape)}): copy_ cannot broadcast the source to the target"
        ) from None


# ----------------------------------------------------------------------------- tensors to data


@public(spaces=("Tensor",))
def numpy(self: Tensor, *, force: bool = False) -> np.ndarray:
    """A NumPy array on the same memory; RuntimeError for a tensor that requires grad.

    `detach()` first, or force=True, which also copies what NumPy cannot see.

    >>> x = torch.zeros(2)
    >>> x.numpy()[0] = 5
    >>> x
    tensor([5., 0.])
    """
    if self._tracked and self.requires_grad and not force:
        raise RuntimeError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        )
    if self._array.__class__ is MetaArray:
        raise TypeError("can't convert meta device type tensor to numpy.")
    if self._array.dtype.kind == "V" or FROM_NUMPY[self._array.dtype].name == "bfloat16":
        raise TypeError(f"Got unsupported ScalarType {_scalar_type(self.dtype)}")
    return self._array.view()


def _scalar_type(d: Dtype) -> str:
    return {"bfloat16": "BFloat16", "float8_e4m3fn": "Float8_e4m3fn"}.get(d.name, d.name)


def _array_protocol(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    array = numpy(self)
    if dtype is not None and array.dtype != dtype:
        return array.astype(dtype)
    return array.copy() if copy else array


def _dlpack(self: Tensor, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
            copy: bool | None = None) -> Any:  # fmt: skip
    if self.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    return self._array.__dlpack__()


Tensor.__array__ = _array_protocol
Tensor.__dlpack__ = _dlpack
Tensor.__dlpack_device__ = lambda self: (1, 0)
Tensor.__array_wrap__ = lambda self, array, context=None, scalar=False: wrap(
    np.asarray(array)
)  # NumPy functions of tensors give tensors


@public(spaces=("torch",))
def is_tensor(obj: Any) -> bool:
    """Whether `obj` is a tensor.

    >>> torch.is_tensor(torch.zeros(2)), torch.is_tensor([0, 0])
    (True, False)
    """
    return isinstance(obj, Tensor)
