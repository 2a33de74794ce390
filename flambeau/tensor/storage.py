"""Storage: the one-dimensional memory of tensors, and the counter of writes to it.

A tensor is a strided NumPy window; the memory's owner is found by following the windows' bases.
Views and detached tensors share a `VersionCounter`, so backward can reject stale values.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from types import CodeType
from typing import Any, NoReturn
from weakref import WeakValueDictionary

import numpy as np

from .dtypes import FROM_NUMPY, QuantizedDtype, get_default_dtype, parse_dtype
from .dtypes import dtype as Dtype
from .exposed_memory import is_fixed, raise_not_resizable
from .layout import as_bytes, find_owner
from .meta import MetaArray, meta_array
from .shared_memory import FileMapping, find_file, is_shared, move_to_shared_memory
from .storages.casts import StorageCasts
from .storages.references import find_storage_number
from .windows.lazy_window import get_memory


class VersionCounter:
    """Counts in-place writes to memory, and stores the code position of the last one."""

    __slots__ = ("late_tangents", "links", "value", "writer")

    links: tuple[tuple[list[int], int, int], ...]
    late_tangents: dict[int, Any]  # by writes in forward mode; unset if there are none

    def __init__(self) -> None:
        self.value = 0
        self.writer: tuple[CodeType, int] | None = None

    def link(self, calls: list[int], writes_per_call: int) -> None:
        """Count `writes_per_call` writes for each future increment of `calls[0]`.

        A compiled program writes to many tensors per call; this way it only counts its calls.
        """
        if self.__class__ is VersionCounter:
            self.__class__, self.links = LinkedVersionCounter, ()
        self.links = (*self.links, (calls, calls[0], writes_per_call))

    def line(self) -> str:
        """Return the source line of the last write, computed on demand."""
        assert self.writer is not None
        code, at = self.writer
        lines = [n for start, end, n in code.co_lines() if start <= at < end and n is not None]
        return f"{code.co_filename}:{lines[0] if lines else code.co_firstlineno}"


# The slot behind LinkedVersionCounter's property.
_own_value: Any = vars(VersionCounter)["value"]
_get_own_value = _own_value.__get__


class LinkedVersionCounter(VersionCounter):
    """The counter of memory written by compiled programs; adds up their calls when read."""

    __slots__ = ()

    def _count_linked(self) -> int:
        return sum((calls[0] - start) * writes for calls, start, writes in self.links)

    @property
    def value(self) -> int:
        """The number of writes by operators and by programs."""
        count: int = _get_own_value(self)  # loop inlined: read for each saved tensor
        for calls, start, writes in self.links:
            count += (calls[0] - start) * writes
        return count

    @value.setter
    def value(self, count: int) -> None:
        _own_value.__set__(self, count - self._count_linked())


class _Anchor:
    """Makes an array count as the owner of its memory, even if it is part of a larger array."""

    def __init__(self, array: np.ndarray) -> None:
        self.source = array
        self.__array_interface__ = array.__array_interface__


def anchor(array: np.ndarray) -> np.ndarray:
    """Return the same window with a storage that starts at its first element."""
    if array.base is None or array.dtype.kind == "V":  # ml_dtypes have no array interface
        return array
    return np.asarray(_Anchor(array))


def get_version(tensor: Any) -> int:
    """Return a tensor's version, bypassing overrides in user-defined subclasses."""
    counter = tensor._counter
    return 0 if counter is None else int(counter.value)


# The storages in use by id of the memory's owner, so that a tensor's storage is one object.
_STORAGES: WeakValueDictionary[int, UntypedStorage] = WeakValueDictionary()


class UntypedStorage(StorageCasts):
    """Bytes of memory that tensors are windows of.

    >>> x = torch.tensor([1, 2], dtype=torch.int16)
    >>> x.untyped_storage().nbytes(), x[1:].untyped_storage().nbytes()
    (4, 4)
    """

    __slots__ = ("__dict__", "__weakref__", "_bytes", "_meta_owner")

    _meta_owner: np.ndarray  # what meta tensors that share a storage have in common; unset without

    def __init__(self, size: Any = 0, *, device: Any = None) -> None:
        if isinstance(size, np.ndarray):
            self._bytes = size
        elif isinstance(size, int):
            self._bytes = np.empty(size, np.uint8)
        else:
            self._bytes = np.array(_check_integers(size, "torch.UntypedStorage()"), np.uint8)
        if is_meta(device):
            self._bytes = meta_array(self._bytes.shape, self._bytes.dtype)
        elif self._bytes is not size:
            _STORAGES[id(self._bytes)] = self

    def _cast(self, kind: Dtype) -> TypedStorage:
        return _as_typed(self._array(), kind)

    def _array(self) -> np.ndarray:
        """Return the bytes; NotImplementedError for storages of meta tensors, which have none."""
        if self._bytes.__class__ is MetaArray:
            raise NotImplementedError("Not available for 'meta' device type")
        return self._bytes

    @classmethod
    def from_buffer(
        cls, buffer: Any, byte_order: str = "native", *, dtype: Dtype | None = None,
        count: int = -1, offset: int = 0,
    ) -> UntypedStorage:
        """Return a copy of a buffer's bytes, swapped if `byte_order` differs from the machine's."""
        kind = np.dtype(np.uint8) if dtype is None else dtype.numpy
        values = np.frombuffer(buffer, kind, count, offset)
        if byte_order not in ("native", sys.byteorder):
            values = values.byteswap()
        return cls(np.array(values).view(np.uint8))

    def new(self) -> UntypedStorage:
        """Return an empty storage."""
        return UntypedStorage(0)

    def resizable(self) -> bool:
        """Return whether resize_ may make it larger: not if others, like NumPy, see its memory."""
        return self._bytes.__class__ is MetaArray or not is_fixed(find_owner(self._bytes))

    def resize_(self, size: int) -> UntypedStorage:
        """Change the size in bytes; existing tensors keep their old memory. RuntimeError for memory
        that others see."""
        if self._bytes.__class__ is MetaArray:
            self._bytes = meta_array((size,), self._bytes.dtype)
            return self
        if not self.resizable():
            raise_not_resizable()
        result = np.empty(size, np.uint8)
        copied_bytes = min(size, self._bytes.size)
        result[:copied_bytes] = self._array()[:copied_bytes]
        self._bytes = result
        return self

    def byteswap(self, dtype: Dtype) -> None:
        """Reverse the bytes of each element, in place."""
        self._array().view(dtype.numpy).byteswap(inplace=True)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Return the class name. Raise RuntimeError if `dtype` is given."""
        if dtype is not None:
            raise RuntimeError("UntypedStorage.type(dtype) is not supported")
        return "torch.storage.UntypedStorage"

    def is_shared(self) -> bool:
        """Return whether it lies in shared memory."""
        return is_shared(self._bytes)

    @property
    def filename(self) -> str | None:
        """The name of the file that `from_file` mapped, to which writes go; None without one."""
        mapping = find_file(self._bytes)
        return None if mapping is None else mapping.filename

    def share_memory_(self) -> UntypedStorage:
        """Move it to shared memory."""
        self._share_fd_cpu_()
        self._bytes = move_to_shared_memory(self._bytes)
        return self

    @classmethod
    def _new_shared(cls, size: int, *, device: Any = "cpu") -> UntypedStorage:
        """Return a storage of `size` bytes in shared memory, where there is only the CPU."""
        return cls(move_to_shared_memory(np.zeros(size, np.uint8)))

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """Map the first `nbytes` of a file into memory.

        If `shared`, writes go to the file, which is created or extended if needed. Otherwise they
        stay in this process; RuntimeError if the file is too short.
        """
        import mmap

        with open(filename, "a+b" if shared else "rb") as file:
            size = file.seek(0, 2)
            if shared and size < nbytes:
                file.truncate(nbytes)
            elif size < nbytes:
                raise RuntimeError(f"unable to mmap {nbytes} bytes from file <{filename}>: it has "
                                   f"{size} bytes")
        if not nbytes:
            return cls(0)
        with open(filename, "r+b" if shared else "rb") as file:
            if not shared:
                copied = mmap.mmap(file.fileno(), nbytes, access=mmap.ACCESS_COPY)
                return cls(np.frombuffer(copied, np.uint8))
            mapping = FileMapping(file.fileno(), nbytes, access=mmap.ACCESS_WRITE)
            mapping.filename = os.fspath(filename)
            return cls(np.frombuffer(mapping, np.uint8))

    def untyped(self) -> UntypedStorage:
        """Return self."""
        return self

    def nbytes(self) -> int:
        """Return the size in bytes."""
        return self._bytes.size

    size = __len__ = nbytes

    def data_ptr(self) -> int:
        """Return the address of the first byte, 0 on the meta device."""
        return 0 if self._bytes.__class__ is MetaArray else self._bytes.ctypes.data

    def _weak_ref(self) -> int:
        """Return a number that only storages with the same memory have."""
        return find_storage_number(getattr(self, "_meta_owner", find_owner(self._bytes)))

    @property
    def _cdata(self) -> int:
        return self._weak_ref()

    @property
    def device(self) -> Any:
        from .devices import CPU, META

        return META if self._bytes.__class__ is MetaArray else CPU

    @property
    def is_cuda(self) -> bool:
        return False

    def element_size(self) -> int:
        """Return the bytes per element: 1."""
        return 1

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return UntypedStorage(self._array()[index])
        return int(self._array()[index])

    def __setitem__(self, index: int | slice, value: int) -> None:
        self._array()[index] = value

    def tolist(self) -> list[int]:
        """Return the bytes as Python numbers."""
        return self._array().tolist()

    def fill_(self, value: int) -> UntypedStorage:
        """Set every byte."""
        if self._bytes.__class__ is not MetaArray:
            self._array()[...] = value
        return self

    def copy_(self, source: UntypedStorage, non_blocking: bool = False) -> UntypedStorage:
        """Copy the bytes of another storage of this size."""
        if self._bytes.__class__ is not MetaArray:
            self._array()[...] = source.cpu()._array()
        return self

    def __copy__(self) -> UntypedStorage:
        return self.clone()

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def _fix_weakref(self) -> None:
        """Do nothing: references to a storage are ordinary ones."""

    def clone(self) -> UntypedStorage:
        """Return a copy."""
        is_meta = self._bytes.__class__ is MetaArray
        return UntypedStorage(self._bytes if is_meta else self._array().copy())

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return storage_from_bytes, (self._array().tobytes(),)

    def cpu(self) -> UntypedStorage:
        """Return self; NotImplementedError on the meta device."""
        if self._bytes.__class__ is MetaArray:
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UntypedStorage):
            return NotImplemented
        return self.data_ptr() == other.data_ptr() and self.nbytes() == other.nbytes()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        lines = "...\n" if self._bytes.__class__ is MetaArray \
            else "".join(f" {b}\n" for b in self._array()[:1000])
        size = self.nbytes()
        return f"{lines}[torch.storage.UntypedStorage(device={self.device}) of size {size}]"


def is_meta(device: Any) -> bool:
    """Return whether a device, or a device's name, is the meta device."""
    return device is not None and str(device).partition(":")[0] == "meta"


def _create_refusal(action: str) -> Any:
    def refuse(self: UntypedStorage, *args: Any, **named: Any) -> NoReturn:
        raise RuntimeError(f"Attempted to {action} on an invalid python storage.")

    return refuse


class WrapperStorage(UntypedStorage):
    """The storage of a wrapper subclass: it has a size and a device, but no memory."""

    __slots__ = ("_device",)

    _device: Any
    data_ptr = _create_refusal("access the data pointer")
    resize_ = _create_refusal("call resize_()")
    copy_ = clone = _create_refusal("call copy_()")
    fill_ = _create_refusal("call fill_()")
    _write_file = _create_refusal("call _write_file()")

    @property
    def device(self) -> Any:
        """The device of what the wrapper wraps."""
        return self._device


def get_wrapper_storage(wrapper: Any) -> WrapperStorage:
    """Return the storage of a tensor of a wrapper subclass, which has a meta array."""
    plain = get_storage(wrapper._array)
    result = WrapperStorage(plain._bytes)
    result._meta_owner, result._device = plain._meta_owner, wrapper.device
    return result


def storage_from_bytes(data: bytes) -> UntypedStorage:
    """Return a storage with a copy of `data`, for unpickling."""
    return UntypedStorage(np.frombuffer(bytearray(data), np.uint8))


def _check_integers(values: Any, name: str) -> list[int]:
    if not isinstance(values, (list, tuple, range, bytes, bytearray)):
        raise RuntimeError(f"{name}: Expected a sequence type, but got {type(values).__name__}")
    for value in values:
        if not isinstance(value, int):
            raise RuntimeError(
                f"{name}: tried to construct a storage from a sequence "
                f"({type(values).__name__}), but one of the items was of type "
                f"{type(value).__name__} instead of int"
            )
    return list(values)


def find_stored_dtype(kind: Dtype) -> np.dtype:
    """Return the NumPy dtype of elements in memory; for a quantized dtype, of its integers."""
    return kind.codes if isinstance(kind, QuantizedDtype) else kind.numpy


class TypedStorage(StorageCasts):
    """A storage as elements of one dtype: the older interface, kept for checkpoints.

    >>> storage = torch.FloatStorage([1., 2., 3.])
    >>> len(storage), storage[1], storage.dtype
    (3, 2.0, torch.float32)
    """

    dtype: Dtype
    is_cuda = False

    def __init__(
        self, *args: Any, wrap_storage: UntypedStorage | None = None,
        dtype: Dtype | None = None, device: Any = None,
    ) -> None:
        self.dtype = get_default_dtype() if dtype is None else dtype
        if wrap_storage is not None:
            if args:
                raise RuntimeError(
                    "TypedStorage() received an invalid combination of arguments - positional "
                    "arguments and 'wrap_storage' do not go together"
                )
            if not hasattr(wrap_storage, "nbytes"):  # duck-typed: covers storages of meta tensors
                raise TypeError(
                    "Argument 'wrap_storage' must be UntypedStorage, but got "
                    f"{type(wrap_storage)}"
                )
            self._untyped_storage = wrap_storage
            return
        content, kind = (args[0] if args else 0), find_stored_dtype(self.dtype)
        array = np.empty(content, kind) if isinstance(content, int) else np.array(content, kind)
        self._untyped_storage = UntypedStorage(array.view(np.uint8), device=device)

    def untyped(self) -> UntypedStorage:
        """Return the untyped storage."""
        return self._untyped_storage

    def _array(self) -> np.ndarray:
        return self._untyped_storage._array().view(find_stored_dtype(self.dtype))

    def data_ptr(self) -> int:
        """Return the address of the first byte."""
        return self._untyped_storage.data_ptr()

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    @property
    def device(self) -> Any:
        """The device that holds the memory."""
        return self._untyped_storage.device

    def _weak_ref(self) -> int:
        return self._untyped_storage._weak_ref()

    @property
    def _cdata(self) -> int:
        return self._untyped_storage._cdata

    def nbytes(self) -> int:
        """Return the size in bytes."""
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        """Return the bytes per element.

        >>> torch.zeros(2, dtype=torch.float64).element_size()
        8
        """
        return self.dtype.itemsize

    def size(self) -> int:
        """Return the number of elements."""
        return self.nbytes() // self.dtype.itemsize

    __len__ = size

    def tolist(self) -> list[Any]:
        """Return the elements as Python numbers."""
        return self._array().tolist()

    def __getitem__(self, index: int) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return self._array()[index].item()

    def __setitem__(self, index: int | slice, value: Any) -> None:
        self._array()[index] = value

    def fill_(self, value: Any) -> TypedStorage:
        """Set every element."""
        if not is_meta(self.device):
            self._array()[...] = value
        return self

    def copy_(self, source: TypedStorage, non_blocking: bool | None = None) -> TypedStorage:
        """Copy the elements of another storage of this size, cast to this dtype."""
        if not is_meta(self.device):
            self._array()[...] = source.cpu()._array()
        return self

    @property
    def filename(self) -> str | None:
        """The name of the file that `from_file` mapped, to which writes go; None without one."""
        return self._untyped_storage.filename

    def clone(self) -> TypedStorage:
        """Return a copy."""
        return TypedStorage(wrap_storage=self._untyped_storage.clone(), dtype=self.dtype)

    def cpu(self) -> TypedStorage:
        """Return self; NotImplementedError on the meta device."""
        self._untyped_storage.cpu()
        return self

    def resizable(self) -> bool:
        """Return whether resize_ may make it larger: not if others, like NumPy, see its memory."""
        return self._untyped_storage.resizable()

    def resize_(self, size: int) -> None:
        """Change the number of elements; existing tensors keep their old memory."""
        self._untyped_storage.resize_(size * self.dtype.itemsize)

    def is_shared(self) -> bool:
        """Return whether it lies in shared memory."""
        return self._untyped_storage.is_shared()

    def share_memory_(self) -> TypedStorage:
        """Move it to shared memory."""
        self._untyped_storage.share_memory_()
        return self

    def pickle_storage_type(self) -> str:
        """Return the class name used in checkpoints.

        >>> torch.zeros(1).storage().pickle_storage_type()
        'FloatStorage'
        """
        short = str(self.dtype).removeprefix("torch.")
        return f"{_OLD_NAMES.get(short, short)}Storage"

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Return the class name; with `dtype`, a dtype or class name, the elements cast to it."""
        if dtype is None:
            return f"torch.{self.pickle_storage_type()}"
        return self._cast(dtype if isinstance(dtype, Dtype) else _find_named_dtype(dtype))

    def _cast(self, kind: Dtype) -> TypedStorage:
        return _as_typed(self._array(), kind)

    @classmethod
    def from_buffer(cls, *args: Any, **kwargs: Any) -> TypedStorage:
        """Return a copy of a buffer's elements, like UntypedStorage.from_buffer."""
        kind = kwargs.setdefault("dtype", get_default_dtype())
        result = UntypedStorage.from_buffer(*args, **kwargs)
        return TypedStorage(wrap_storage=result, dtype=kind)

    @classmethod
    def from_file(
        cls, filename: Any, shared: bool = False, size: int = 0, *, dtype: Dtype | None = None
    ) -> TypedStorage:
        """Map the first `size` elements of a file, like UntypedStorage.from_file."""
        kind = dtype or get_default_dtype()
        result = UntypedStorage.from_file(filename, shared, size * kind.itemsize)
        return TypedStorage(wrap_storage=result, dtype=kind)

    def __repr__(self) -> str:
        lines = "...\n" if is_meta(self.device) else "".join(f" {v}\n" for v in self.tolist())
        return (f"{lines}[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) "
                f"of size {self.size()}]")


# The classes torch.FloatStorage etc., by dtype.
STORAGE_TYPES: dict[Dtype, type] = {}

# Names of dtypes in the old storage classes.
_OLD_NAMES = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16",
    "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long",
    "bool": "Bool", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}


def storage_name(kind: Dtype) -> str:
    """Return a dtype's part of its storage class's name: Float for FloatStorage."""
    return _OLD_NAMES.get(str(kind).removeprefix("torch."), str(kind).removeprefix("torch."))


def _find_named_dtype(name: str) -> Dtype:
    """Return the dtype of a storage class's name: float64 for 'torch.DoubleStorage'."""
    short = name.removeprefix("torch.").removesuffix("Storage")
    return parse_dtype(next((new for new, old in _OLD_NAMES.items() if old == short), short))


def get_storage(array: np.ndarray) -> UntypedStorage:
    """Return the storage that contains the window `array`: the same object while it is in use."""
    array = get_memory(array)
    if array.__class__ is MetaArray:
        size_bytes = array.size * array.itemsize
        result = UntypedStorage(meta_array((size_bytes,), np.dtype(np.uint8)))
        result._meta_owner = find_owner(array)
        return result
    owner = find_owner(array)
    storage = _STORAGES.get(id(owner))
    if storage is None or find_owner(storage._bytes) is not owner:
        storage = _STORAGES[id(owner)] = UntypedStorage(as_bytes(owner))
    return storage


def get_offset(array: np.ndarray) -> int:
    """Return the window's offset in its storage, in elements."""
    if isinstance(array, MetaArray) and array.layout is not None:
        return array.layout[1]
    array = get_memory(array)
    if array.base is None or array.size == 0:
        return 0
    start = find_owner(array).ctypes.data
    return (array.ctypes.data - start) // array.itemsize


def window(
    storage: UntypedStorage | np.ndarray, numpy_dtype: np.dtype, offset: int,
    shape: Sequence[int], strides: Sequence[int],
) -> np.ndarray:
    """Return a strided window, in elements; RuntimeError if it exceeds the storage."""
    memory = storage if isinstance(storage, np.ndarray) else storage._bytes
    item = numpy_dtype.itemsize
    need = 0
    if 0 not in shape:
        need = offset + 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    if need * item > memory.size:
        raise RuntimeError(
            f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset}, "
            f"and itemsize {item} requiring a storage size of {need * item} are out of bounds "
            f"for storage of size {memory.size}"
        )
    steps = tuple(s * item for s in strides)
    if need == 0:  # for empty arrays, NumPy keeps strides only on memory passed in
        return np.ndarray(tuple(shape), numpy_dtype, np.empty(1, numpy_dtype), 0, steps)
    return np.ndarray(tuple(shape), numpy_dtype, memory, offset * item, steps)


def _as_typed(elements: np.ndarray, kind: Dtype) -> TypedStorage:
    """Return a typed storage with a copy of the elements cast to `kind`."""
    values = np.array(elements.astype(kind.numpy, copy=True))
    return TypedStorage(wrap_storage=UntypedStorage(values.view(np.uint8)), dtype=kind)


def get_dtype(array: np.ndarray) -> Dtype:
    """Return the dtype of a tensor's array."""
    return FROM_NUMPY[array.dtype]
