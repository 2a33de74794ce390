"""Interchange: tensors from Python data, NumPy's arrays and other libraries' memory, and back."""

from __future__ import annotations

from array import array as ArrayOfNumbers
from typing import Any

import numpy as np

from ...autograd.backward import require_gradients
from ...autograd.mode import MODE
from ...native.foundation.user_frames import add_notes, warn
from ...tensor import dtypes as types
from ...tensor.devices import device as as_device
from ...tensor.dtypes import FROM_NUMPY, from_numpy_dtype
from ...tensor.dtypes import dtype as Dtype
from ...tensor.exposed_memory import expose
from ...tensor.meta import MetaArray
from ...tensor.promotion import legacy_name
from ...tensor.storage import TypedStorage, UntypedStorage, storage_name, anchor
from ...tensor.tensor import Tensor, _TensorType, wrap
from ...tensor.windows.lazy_window import LazyWindow
from . import dlpack
from .creation import empty, get_numpy_dtype, place, public
from .python_data import infer_array

# ----------------------------------------------------------------------------- data to tensors


@public()
def tensor(
    data: Any, *, dtype: Dtype | None = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Return a new tensor with a copy of `data`: numbers, nested sequences, an array or a tensor.

    >>> torch.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    if isinstance(data, Tensor):
        warn_of_copy("torch.tensor")
    return place(convert_to_array(data, dtype, copy=True), device, requires_grad)


def warn_of_copy(name: str) -> None:
    """Warn that a constructor of data was given a tensor."""
    warn("To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() "
         "or sourceTensor.detach().clone().requires_grad_(True), rather than "
         f"{name}(sourceTensor).", UserWarning)


def convert_to_array(data: Any, dtype: Dtype | None, copy: bool) -> np.ndarray:
    """Return `data` as an array of the given dtype, or one inferred from its elements."""
    dtype = types.as_dtype(dtype)
    if isinstance(data, Tensor):
        array = data._array
    elif isinstance(data, (np.ndarray, np.generic)) or hasattr(
        data, "__array_interface__"
    ) or hasattr(data, "__array__"):
        array = _convert_to_native(np.asarray(data))
    elif isinstance(data, (TypedStorage, UntypedStorage)):
        inferred = types.int64 if isinstance(data, UntypedStorage) else types.get_default_dtype()
        return _view_storage(data, dtype or inferred)  # shared, even by `tensor`
    else:
        if data.__class__ is list and data and isinstance(data[0], np.ndarray):
            warn(
                "Creating a tensor from a list of numpy.ndarrays is extremely slow. Please "
                "consider converting the list to a single numpy.ndarray with numpy.array() before "
                "converting to a tensor.",
                UserWarning,
            )
        return infer_array(data, dtype)
    kind = array.dtype if dtype is None else get_numpy_dtype(dtype)
    return array.astype(kind, copy=copy) if array.dtype != kind or copy else array


def _view_storage(storage: TypedStorage | UntypedStorage, kind: Dtype) -> np.ndarray:
    """A storage's memory as elements of `kind`, which a typed one must have."""
    if isinstance(storage, TypedStorage) and storage.dtype is not kind:
        expected, has = storage_name(kind), storage_name(storage.dtype)
        raise RuntimeError(
            f"Expected a Storage of type {expected} or an UntypedStorage, but got {has}"
        )
    memory = storage.untyped()._array()
    return memory[: memory.size // kind.itemsize * kind.itemsize].view(kind.numpy)


def _convert_to_native(array: np.ndarray) -> np.ndarray:
    kind = from_numpy_dtype(array.dtype).numpy
    return array if array.dtype == kind else array.astype(kind)


@public()
def as_tensor(data: Any, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """Convert `data` to a tensor, sharing memory if it is a tensor or array of the same dtype.

    A different dtype or device means a copy. `from_numpy` shares memory or fails, `tensor` always
    copies.

    >>> x = torch.zeros(2)
    >>> torch.as_tensor(x) is x, torch.as_tensor([1, 2.5])
    (True, tensor([1.0000, 2.5000]))
    """
    dtype = types.as_dtype(dtype)
    if isinstance(data, Tensor):
        return data if dtype is None and device is None else data.to(
            device=device or data.device, dtype=dtype or data.dtype)
    if isinstance(data, np.ndarray) and (dtype is None or from_numpy_dtype(data.dtype) is dtype):
        return place(from_numpy(data)._array, device)
    if isinstance(data, (TypedStorage, UntypedStorage, np.ndarray)):
        return place(convert_to_array(data, dtype, copy=False), device)
    return tensor(data, dtype=dtype, device=device)


@public()
def asarray(
    obj: Any, *, dtype: Dtype | None = None, device: Any = None, copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """Convert `obj` to a tensor; copy=True always copies, False never does, None only if needed.

    `requires_grad`: None keeps a tensor in the graph, False detaches it, True requires gradients.

    >>> x = torch.zeros(2)
    >>> torch.asarray(x, copy=True).data_ptr() == x.data_ptr()
    False
    """
    if isinstance(obj, (memoryview, bytes, bytearray, ArrayOfNumbers)):
        result = wrap(np.frombuffer(obj, get_numpy_dtype(dtype)))
        result = result.clone() if copy else result
    elif type(obj).__name__ == "PyCapsule":
        result = as_tensor(from_dlpack(obj), dtype, device)
        result = result.clone() if copy else result
    else:
        result = as_tensor(obj, dtype, device)
    if copy and isinstance(obj, (Tensor, np.ndarray)):
        result = result.clone()
    if copy is False:
        _check_alias(obj, result)
    if requires_grad is None:
        if isinstance(obj, Tensor) and obj.requires_grad:
            warn("torch.asarray: unspecified requires_grad now defaults to obj.requires_grad "
                 "instead of False. Pass requires_grad=False explicitly to get the old behavior "
                 "and silence this warning.")
        return result
    if not requires_grad and not result.is_leaf:
        return result.detach()
    return require_gradients(result, requires_grad)


def _check_alias(obj: Any, result: Tensor) -> None:
    """Raise where asarray(..., copy=False) had to copy."""
    if isinstance(obj, np.generic):
        raise RuntimeError("can't alias NumPy scalars. Either remove copy=False or transform it in "
                           "a ndarray. ")
    if isinstance(obj, (Tensor, np.ndarray)):
        dtype_of_obj = obj.dtype if isinstance(obj, Tensor) else FROM_NUMPY[obj.dtype]
        if dtype_of_obj is not result.dtype:
            source = legacy_name(dtype_of_obj)
            raise ValueError(f"can't alias tensor with dtype '{source}' into dtype "
                             f"'{legacy_name(result.dtype)}'.")
    elif isinstance(obj, (list, tuple, range)):
        raise ValueError("can't alias arbitrary sequence into a tensor.")


@public()
def from_file(
    filename: Any, shared: bool | None = None, size: int = 0, *, dtype: Dtype | None = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False,
) -> Tensor:
    """Memory-map the first `size` elements of a file as a one-dimensional tensor.

    With `shared`, writes go to the file, which is created if missing.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     torch.from_file(file.name, shared=True, size=2).fill_(3.0)
    ...     torch.from_file(file.name, size=1)
    tensor([3., 3.])
    tensor([3.])
    """
    kind = get_numpy_dtype(dtype)
    result = UntypedStorage.from_file(filename, bool(shared), size * kind.itemsize)
    return wrap(result._bytes.view(kind))


@public()
def from_numpy(ndarray: np.ndarray) -> Tensor:
    """Return a tensor that shares memory with a NumPy array.

    Raises TypeError for other types, and for dtypes without a tensor counterpart.

    >>> import numpy as np
    >>> array = np.zeros(2)
    >>> x = torch.from_numpy(array)
    >>> array[0] = 5
    >>> x
    tensor([5., 0.], dtype=torch.float64)
    """
    if not isinstance(ndarray, np.ndarray):
        kind = type(ndarray)
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        raise add_notes(
            TypeError(f"expected np.ndarray (got {module}{kind.__name__})"),
            f"torch.tensor() takes a {kind.__name__}." if kind in (list, tuple) else None,
        )
    from_numpy_dtype(ndarray.dtype)
    if not ndarray.dtype.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion "
            "between byte orders is currently not supported."
        )
    if min(ndarray.strides, default=0) < 0:
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative "
            "strides are not currently supported. (You can probably work around this by making a "
            "copy of your array  with array.copy().) "
        )
    if ndarray.itemsize and any(s % ndarray.itemsize for s in ndarray.strides):
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy "
            "array to reallocate the memory."
        )
    if not ndarray.flags.writeable:
        warn(
            "The given NumPy array is not writable, and PyTorch does not support non-writable "
            "tensors. This means writing to this tensor will result in undefined behavior. You "
            "may want to copy the array to protect its data or make it writable before converting "
            "it to a tensor.",
            UserWarning,
        )
    if ndarray.base is None:  # the memory is its own: it is the storage
        expose(ndarray)
        return wrap(ndarray.view(np.ndarray))
    return wrap(anchor(ndarray.view(np.ndarray)))


@public()
def frombuffer(
    buffer: Any, *, dtype: Dtype, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """Return a one-dimensional tensor that shares memory with a buffer.

    >>> torch.frombuffer(bytearray([1, 0, 2, 0]), dtype=torch.int16)
    tensor([1, 2], dtype=torch.int16)
    """
    length = memoryview(buffer).nbytes
    if length == 0:
        raise ValueError("both buffer length (0) and count must not be 0")
    if offset >= length or offset < 0:
        raise ValueError(f"offset must be non-negative and no greater than buffer length ({length})"
                         f" - 1, but got {offset}")
    dtype = types.as_dtype(dtype)
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
    """Return a tensor that shares memory with an object that supports DLPack.

    NumPy arrays are such objects.

    >>> import numpy as np
    >>> torch.from_dlpack(np.arange(3))
    tensor([0, 1, 2])
    """
    if isinstance(ext_tensor, Tensor):
        return ext_tensor.detach()
    return wrap(anchor(dlpack.import_array(ext_tensor)))


@public(spaces=("utils.dlpack",))
def to_dlpack(tensor: Tensor) -> Any:
    """Export the tensor's memory as a DLPack capsule."""
    return tensor.__dlpack__()


def construct(cls: type, *args: Any, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """`torch.Tensor(2, 3)`, `torch.Tensor([1, 2])`, and the typed classes' constructors."""
    if device is not None:
        _check_legacy_device(device, args, "tensor constructor", "torch.Tensor")
    if _is_data(args):
        shares = isinstance(args[0], (TypedStorage, UntypedStorage))
        kind = dtype or types.get_default_dtype()
        result = place(convert_to_array(args[0], kind, copy=False), device) if shares else \
            create_from_data(kind, device, args[0])
    elif len(args) == 1 and isinstance(args[0], Tensor):
        result = args[0]._alias()
    else:
        result = empty(*(args or (0,)), dtype=dtype, device=device)
    return result if cls is Tensor else result._alias(cls)


def create_from_data(dtype: Dtype, device: Any, data: Any) -> Tensor:
    """Return a tensor with a copy of `data`, for the legacy constructors."""
    return place(convert_to_array(data, dtype, copy=True), device)


def _check_legacy_device(place: Any, args: tuple, constructor: str, name: str) -> None:
    """RuntimeError for a device that the legacy constructors do not take."""
    kind = as_device(place).type
    if kind != "cpu":
        raise RuntimeError(
            f"legacy constructor expects device type: cpu but device type: {kind} was passed"
        )
    if len(args) == 1 and isinstance(args[0], Tensor):
        instead = "torch.as_tensor(...) instead." if constructor == "tensor new" else \
            "torch.tensor(...) or torch.as_tensor(...) instead."
        raise RuntimeError(f"Legacy {constructor} of the form {name}(tensor, device=device) is not "
                           f"supported.  Use {instead}")


def _is_data(args: tuple) -> bool:
    """Whether the one argument of a legacy constructor is a sequence of numbers, and no size."""
    from ...tensor.size import Size

    if len(args) != 1 or isinstance(args[0], (Size, Tensor)):
        return False
    (data,) = args
    if isinstance(data, (list, tuple, np.ndarray)):
        return True
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    if hasattr(data, "__index__"):
        return False
    if not hasattr(data, "__getitem__") or isinstance(data, dict):
        raise TypeError(f"new(): data must be a sequence (got {type(data).__name__})")
    return True


_TensorType.construct = staticmethod(construct)


def _new(self: Tensor, *args: Any, size: Any = None, device: Any = None) -> Tensor:
    """Return a new tensor of this dtype, with the arguments of `torch.Tensor(...)`.

    >>> torch.tensor([1]).new([1, 2])
    tensor([1, 2])
    """
    if device is not None:
        _check_legacy_device(device, args, "tensor new", "tensor.new")
    if size is not None:
        return empty(size, dtype=self.dtype, device=device)
    if len(args) == 1 and isinstance(args[0], Tensor) and args[0]._array.ndim:
        if args[0].dtype is not self.dtype:
            raise TypeError(f"expected {self.type()} (got {args[0].type()})")
        return args[0].view(args[0].shape)
    if _is_data(args):
        shares = isinstance(args[0], (TypedStorage, UntypedStorage))
        return place(convert_to_array(args[0], self.dtype, copy=not shares), device or self.device)
    return empty(*(args or (0,)), dtype=self.dtype, device=device)


def new_tensor(
    self: Tensor, data: Any, *, dtype: Dtype | None = None, device: Any = None,
    requires_grad: bool = False, layout: Any = None, pin_memory: bool = False,
) -> Tensor:
    """Return a tensor with a copy of `data`, in this tensor's dtype by default.

    >>> torch.tensor([1.], dtype=torch.float64).new_tensor([1, 2])
    tensor([1., 2.], dtype=torch.float64)
    """
    if isinstance(data, Tensor):
        warn_of_copy("tensor.new_tensor")
    return place(convert_to_array(data, dtype or self.dtype, True), device or self.device,
                 requires_grad)


_methods: Any = Tensor
_methods.new, _methods.new_tensor = _new, new_tensor

# ----------------------------------------------------------------------------- tensors to data


@public(spaces=("Tensor",))
def numpy(self: Tensor, *, force: bool = False) -> np.ndarray:
    """Return a NumPy array that shares memory; RuntimeError if the tensor requires grad.

    Call `detach()` first, use `no_grad()`, or pass force=True, which also resolves lazy conjugates
    and negatives by copying them.

    >>> x = torch.zeros(2)
    >>> x.numpy()[0] = 5
    >>> x
    tensor([5., 0.])
    """
    if self._tracked and self.requires_grad and not force and MODE.grad:
        raise RuntimeError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        )
    array: Any = self._array
    if array.__class__ is MetaArray:
        if not self.is_meta:
            raise RuntimeError(".numpy() is not supported for tensor subclasses.")
        raise TypeError("can't convert meta device type tensor to numpy. Use "
                        "Tensor.cpu() to copy the tensor to host memory first.")
    if array.__class__ is LazyWindow:
        if force:
            return array.resolved()
        bit = "conj" if self.is_conj() else "neg"
        raise RuntimeError(
            f"Can't call numpy() on Tensor that has {'conjugate' if bit == 'conj' else 'negative'} "
            f"bit set. Use tensor.resolve_{bit}().numpy() instead.")
    if array.dtype.kind == "V" or FROM_NUMPY[array.dtype].name == "bfloat16":
        raise TypeError(f"Got unsupported ScalarType {legacy_name(self.dtype)}")
    expose(array)
    return array.view()


def _array_protocol(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    array = numpy(self)
    if dtype is not None and array.dtype != dtype:
        return array.astype(dtype)
    return array.copy() if copy else array


def _wrap_result(self: Tensor, array: Any, context: Any = None, scalar: bool = False) -> Tensor:
    """Return the tensor that a NumPy function of tensors gives; booleans are uint8, as in
    PyTorch."""
    array = np.asarray(array)
    return from_numpy(array.astype(np.uint8) if array.dtype == np.bool_ else array)


def _dlpack(self: Tensor, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
            copy: bool | None = None) -> Any:
    if self.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if stream is not None and type(stream) is not int:
        raise TypeError("stream must be ``int`` or ``none``")
    if stream not in (None, -1):
        raise AssertionError("stream should be None on cpu.")
    expose(self._array)
    return dlpack.export_array(self._array)


_methods.__array__ = _array_protocol
_methods.__dlpack__ = _dlpack
_methods.__dlpack_device__ = lambda self: (1, 0)
_methods.__array_wrap__ = _wrap_result


@public(spaces=("torch",))
def is_tensor(obj: Any) -> bool:
    """Return whether `obj` is a tensor.

    >>> torch.is_tensor(torch.zeros(2)), torch.is_tensor([0, 0])
    (True, False)
    """
    return isinstance(obj, Tensor)
