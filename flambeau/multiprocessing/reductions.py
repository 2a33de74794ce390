"""How tensors travel between processes: as descriptors of shared memory, never as numbers."""

from __future__ import annotations

from multiprocessing import reduction
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import ForkingPickler
from typing import Any, Self

import numpy as np

from ..nn.parameter import Buffer, Parameter
from ..tensor import Tensor
from ..tensor.layout import find_owner
from ..tensor.shared_memory import SharedMemory, address_of, shared_memory, window
from ..tensor.storages.references import is_expired
from ..tensor.tensor import wrap

__all__ = ["StorageWeakRef", "init_reductions"]

NON_LEAF = (
    "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd "
    "does not support crossing process boundaries.  If you just want to transfer the data, "
    "call detach() on the tensor before serializing (e.g., putting it on the queue)."
)


class StorageWeakRef:
    """A reference to a storage that does not keep its memory alive.

    References to storages of the same memory are equal and have the same hash: a set of them finds
    the tensors that share memory. After `resize_` or `share_memory_` have moved a tensor, its
    storage is another one.

    Arguments:
        storage: an untyped or typed storage.

    >>> from flambeau.multiprocessing.reductions import StorageWeakRef
    >>> x = torch.zeros(4)
    >>> reference = StorageWeakRef(x.untyped_storage())
    >>> reference == StorageWeakRef(x[2:].untyped_storage())
    True
    >>> del x
    >>> reference.expired()
    True
    """

    __slots__ = ("cdata",)

    cdata: int  # the storage's number, its `_cdata`

    def __init__(self, storage: Any) -> None:
        self.cdata = storage._weak_ref()

    @classmethod
    def from_weakref(cls, cdata: int) -> Self:
        """Return the reference with another one's `cdata`."""
        result = cls.__new__(cls)
        result.cdata = cdata
        return result

    def expired(self) -> bool:
        """Return whether the memory is gone."""
        return is_expired(self.cdata)

    def __hash__(self) -> int:
        return self.cdata

    def __eq__(self, other: Any) -> bool:
        return self is other or self.cdata == other.cdata


def init_reductions() -> None:
    """Register tensors, parameters and buffers to be sent as shared memory."""
    for cls in (Tensor, Parameter, Buffer):
        ForkingPickler.register(cls, reduce_tensor)


def reduce_tensor(tensor: Tensor) -> tuple[Any, ...]:
    """What another process rebuilds the tensor from; RuntimeError for one that has a history.

    The tensor moves to shared memory. A part of a larger memory that is not shared is copied
    instead, since the other tensors on that memory could not move with it.
    """
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(NON_LEAF)
    if not hasattr(reduction, "DupFd"):
        raise NotImplementedError("Shared tensors are not implemented in flambeau on this system")
    array: Any = tensor._array
    if type(array) is not np.ndarray:  # meta: nothing to share
        reduced: Any = tensor.__reduce_ex__(2)
        return reduced
    if shared_memory(array) is None and find_owner(array).nbytes != array.nbytes:
        tensor = tensor.detach().clone().requires_grad_(tensor.requires_grad)
        _keep_until_started(tensor)
    array = tensor.share_memory_()._array
    memory = shared_memory(array)
    assert memory is not None
    descriptor, file_offset, size_bytes = memory.export()
    offset = array.ctypes.data - address_of(memory) if array.size else 0
    return rebuild_tensor, (
        type(tensor), reduction.DupFd(descriptor), (file_offset, size_bytes), array.dtype,
        array.shape, array.strides, offset, tensor.requires_grad,
    )


def _keep_until_started(tensor: Tensor) -> None:
    """A process that is being started gets the descriptor of the memory later than the pickle."""
    process: Any = get_spawning_popen()
    if process is not None:
        process.__dict__.setdefault("_flambeau_tensors", []).append(tensor)


def rebuild_tensor(
    cls: type[Tensor], descriptor: Any, extent: tuple[int, int], dtype: np.dtype,
    shape: tuple[int, ...], strides: tuple[int, ...], offset: int, requires_grad: bool,
) -> Tensor:
    """The tensor on this process's mapping of the memory; `extent`: offset and size of it."""
    file_offset, size_bytes = extent
    memory = SharedMemory.of(descriptor.detach(), size_bytes, file_offset)
    return rewrap(cls, window(memory, dtype, shape, strides, offset), requires_grad)


def rewrap(cls: type[Tensor], array: np.ndarray, requires_grad: bool) -> Tensor:
    """A tensor, parameter or buffer on an array that came from another process."""
    tensor = wrap(array)
    if cls is Tensor:
        return tensor.requires_grad_() if requires_grad else tensor
    return Parameter(tensor, requires_grad) if cls is Parameter else Buffer(tensor)
