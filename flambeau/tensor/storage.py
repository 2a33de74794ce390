"""Storage: the one-dimensional memory under tensors, and the counter of writes to it.

A tensor is a strided NumPy window; the memory's owner is found by following the windows' bases.
Views and detached tensors share a `VersionCounter`, so that backward can refuse stale values.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

from .dtypes import FROM_NUMPY, dtype, uint8

if TYPE_CHECKING:
    from .tensor import Tensor


class VersionCounter:
    """How often a memory was written in place, and which place in which code wrote last."""

    __slots__ = ("links", "value", "writer")

    links: tuple[tuple[list[int], int, int], ...]

    def __init__(self) -> None:
        self.value = 0
        self.writer: tuple[CodeType, int] | None = None

    def link(self, calls: list[int], writes_per_call: int) -> None:
        """Counts `writes_per_call` from now on each time that `calls[0]` grows by one.

        A compiled program writes to many tensors per call; it counts its calls once for all.
        """
        if self.__class__ is VersionCounter:
            self.__class__, self.links = LinkedVersionCounter, ()
        self.links = (*self.links, (calls, calls[0], writes_per_call))

    def line(self) -> str:
        """The source line that wrote last: its number is looked up when somebody asks."""
        assert self.writer is not None
        code, at = self.writer
        lines = [n for start, end, n in code.co_lines() if start <= at < end and n is not None]
        return f"{code.co_filename}:{lines[0] if lines else code.co_firstlineno}"


_own_value: Any = vars(VersionCounter)["value"]  # the slot below LinkedVersionCounter's property


class LinkedVersionCounter(VersionCounter):
    """The counter of memory that compiled programs write: it adds up their calls when read."""

    __slots__ = ()

    def _linked(self) -> int:
        return sum((calls[0] - start) * writes for calls, start, writes in self.links)

    @property
    def value(self) -> int:
        """How often the memory was written, by operators and by programs."""
        return int(_own_value.__get__(self)) + self._linked()

    @value.setter
    def value(self, count: int) -> None:
        _own_value.__set__(self, count - self._linked())


class _Anchor:
    """Makes an array the owner of its memory for us, whatever larger array it was cut from."""

    def __init__(self, array: np.ndarray) -> None:
        self.source = array
        self.__array_interface__ = array.__array_interface__


def anchored(array: np.ndarray) -> np.ndarray:
    """The same window, with a storage that starts at its first element."""
    if array.base is None or array.dtype.kind == "V":  # ml_dtypes have no array interface
        return array
    return np.asarray(_Anchor(array))


def owner_of(array: np.ndarray) -> np.ndarray:
    """The array that owns the memory of `array`, as far as NumPy knows it."""
    while True:
        base: Any = array.base
        if base.__class__ is not np.ndarray and hasattr(base, "base"):
            base = base.base  # what np.lib.stride_tricks puts between
        if not isinstance(base, np.ndarray):
            return array
        array = base


def _as_bytes(array: np.ndarray) -> np.ndarray:
    """All the memory that `array` spans, as a window of bytes."""
    if array.flags.c_contiguous:
        return array.reshape(-1).view(np.uint8)
    if array.flags.f_contiguous:
        return array.T.reshape(-1).view(np.uint8)
    span = sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True))
    first = array[tuple(slice(0, 1) for _ in array.shape)].reshape(1).view(np.uint8)
    return np.lib.stride_tricks.as_strided(first, (span + array.itemsize,), (1,))


class UntypedStorage:
    """Bytes of memory that tensors are windows on.

    >>> x = torch.tensor([1, 2], dtype=torch.int16)
    >>> x.untyped_storage().nbytes(), x[1:].untyped_storage().nbytes()
    (4, 4)
    """

    __slots__ = ("_bytes",)

    def __init__(self, size: int | np.ndarray = 0) -> None:
        self._bytes = size if isinstance(size, np.ndarray) else np.empty(size, np.uint8)

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The first bytes of a file as memory, read when looked at.

        Writes go to the file where it is `shared`, and it is made or made longer if need be; else
        they stay in this process, and the file must be long enough.
        """
        import mmap

        with open(filename, "a+b" if shared else "rb") as file:
            there = file.seek(0, 2)
            if shared and there < nbytes:
                file.truncate(nbytes)
            elif there < nbytes:
                raise RuntimeError(f"unable to mmap {nbytes} bytes from file <{filename}>: it has "
                                   f"{there} bytes")  # fmt: skip
        if not nbytes:
            return cls(0)
        with open(filename, "r+b" if shared else "rb") as file:
            access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
            return cls(np.frombuffer(mmap.mmap(file.fileno(), nbytes, access=access), np.uint8))

    def untyped(self) -> UntypedStorage:
        """Itself."""
        return self

    def nbytes(self) -> int:
        """Its size in bytes."""
        return self._bytes.size

    size = __len__ = nbytes

    def data_ptr(self) -> int:
        """The address of its first byte."""
        return self._bytes.ctypes.data

    @property
    def _cdata(self) -> int:
        return self.data_ptr()

    @property
    def device(self) -> Any:
        from .devices import CPU

        return CPU

    @property
    def is_cuda(self) -> bool:
        return False

    def element_size(self) -> int:
        """Bytes of an element: 1."""
        return 1

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return UntypedStorage(self._bytes[index])
        return int(self._bytes[index])

    def __setitem__(self, index: int | slice, value: int) -> None:
        self._bytes[index] = value

    def tolist(self) -> list[int]:
        """Its bytes as Python numbers."""
        return self._bytes.tolist()

    def fill_(self, value: int) -> UntypedStorage:
        """Sets every byte."""
        self._bytes[...] = value
        return self

    def copy_(self, source: UntypedStorage, non_blocking: bool = False) -> UntypedStorage:
        """Copies the bytes of another storage of this size."""
        self._bytes[...] = source._bytes
        return self

    def clone(self) -> UntypedStorage:
        """A copy."""
        return UntypedStorage(self._bytes.copy())

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return storage_from_bytes, (self._bytes.tobytes(),)

    def cpu(self) -> UntypedStorage:
        """Itself: it lies in main memory."""
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UntypedStorage):
            return NotImplemented
        return self.data_ptr() == other.data_ptr() and self.nbytes() == other.nbytes()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        lines = "".join(f" {b}\n" for b in self._bytes[:1000])
        return f"{lines}[torch.storage.UntypedStorage(device=cpu) of size {self.nbytes()}]"


def storage_from_bytes(data: bytes) -> UntypedStorage:
    """A storage with a copy of `data`: what pickling gives back."""
    return UntypedStorage(np.frombuffer(bytearray(data), np.uint8))


class TypedStorage:
    """A storage seen as elements of one dtype: the older interface, kept for checkpoints.

    >>> storage = torch.FloatStorage([1., 2., 3.])
    >>> len(storage), storage[1], storage.dtype
    (3, 2.0, torch.float32)
    """

    def __init__(self, wrap_storage: UntypedStorage, dtype: dtype = uint8) -> None:
        self._untyped_storage, self.dtype = wrap_storage, dtype

    def untyped(self) -> UntypedStorage:
        """The memory itself."""
        return self._untyped_storage

    def _elements(self) -> np.ndarray:
        return self._untyped_storage._bytes.view(self.dtype.numpy)

    def data_ptr(self) -> int:
        """The address of its first byte."""
        return self._untyped_storage.data_ptr()

    def nbytes(self) -> int:
        """Its size in bytes."""
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        """Bytes of an element.

        >>> torch.zeros(2, dtype=torch.float64).element_size()
        8
        """
        return self.dtype.itemsize

    def size(self) -> int:
        """How many elements it has."""
        return self.nbytes() // self.dtype.itemsize

    __len__ = size

    def tolist(self) -> list[Any]:
        """Its elements as Python numbers."""
        return self._elements().tolist()

    def __getitem__(self, index: int) -> Any:
        return self._elements()[index].item()

    def __setitem__(self, index: int | slice, value: Any) -> None:
        self._elements()[index] = value


def storage_of(array: np.ndarray) -> UntypedStorage:
    """The storage that the window `array` lies on."""
    return UntypedStorage(_as_bytes(owner_of(array)))


def offset_of(array: np.ndarray) -> int:
    """How many elements into its storage the window starts."""
    if array.base is None or array.size == 0:
        return 0
    start = owner_of(array).ctypes.data
    return (array.ctypes.data - start) // array.itemsize


def window(
    storage: UntypedStorage | np.ndarray, numpy_dtype: np.dtype, offset: int,
    shape: Sequence[int], strides: Sequence[int],
) -> np.ndarray:  # fmt: skip
    """A strided window, in elements; RuntimeError when it leaves the storage."""
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
    if need == 0:
        return np.empty(shape, numpy_dtype)
    return np.ndarray(
        tuple(shape), numpy_dtype, memory, offset * item, tuple(s * item for s in strides)
    )


def tensor_on(
    storage: UntypedStorage, dtype: dtype, offset: int, shape: Sequence[int],
    stride: Sequence[int],
) -> Tensor:  # fmt: skip
    """A tensor on an existing storage."""
    from .tensor import wrap

    return wrap(window(storage, dtype.numpy, offset, shape, stride))


def dtype_of(array: np.ndarray) -> dtype:
    """The dtype of an array that a tensor holds."""
    return FROM_NUMPY[array.dtype]
