"""How tensors travel between processes: as descriptors of shared memory, never as numbers."""

from __future__ import annotations

from multiprocessing import reduction
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from ..nn.parameter import Buffer, Parameter
from ..tensor import Tensor
from ..tensor.shared_memory import SharedMemory, shared_memory, window
from ..tensor.tensor import wrap

__all__ = ["init_reductions"]


def init_reductions() -> None:
    """Has multiprocessing send tensors, parameters and buffers as shared memory."""
    for kind in (Tensor, Parameter, Buffer):
        ForkingPickler.register(kind, reduce_tensor)


def reduce_tensor(tensor: Tensor) -> tuple[Any, ...]:
    """What another process makes the tensor of; RuntimeError for one that has a history."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd "
            "does not support crossing process boundaries.  If you just want to transfer the data, "
            "call detach() on the tensor before serializing (e.g., putting it on the queue)."
        )
    if not hasattr(reduction, "DupFd"):
        raise NotImplementedError("Shared tensors are not implemented in flambeau on this system")
    array = tensor.share_memory_()._array
    memory = shared_memory(array)
    assert memory is not None
    start = np.frombuffer(memory, np.uint8).ctypes.data
    place = array.ctypes.data - start if array.size else 0
    return rebuild_tensor, (
        type(tensor), reduction.DupFd(memory.descriptor), len(memory), array.dtype, array.shape,
        array.strides, place, tensor.requires_grad,
    )  # fmt: skip


def rebuild_tensor(
    kind: type[Tensor], descriptor: Any, size: int, dtype: np.dtype, shape: tuple[int, ...],
    strides: tuple[int, ...], offset: int, requires_grad: bool,
) -> Tensor:  # fmt: skip
    """The tensor on this process's mapping of the memory."""
    memory = SharedMemory.of(descriptor.detach(), size)
    made = wrap(window(memory, dtype, shape, strides, offset))
    if kind is Parameter:
        return Parameter(made, requires_grad)
    return Buffer(made) if kind is Buffer else made.requires_grad_(requires_grad)
