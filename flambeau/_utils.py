"""torch._utils: the functions that rebuild tensors, under the name by which files call them; and
exceptions that travel between processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .compiler import is_compiling
from .multiprocessing.exception_wrapper import ExceptionWrapper, KeyErrorMessage
from .serialization.rebuild import (
    _rebuild_device_tensor_from_cpu_tensor,
    _rebuild_device_tensor_from_numpy,
    _rebuild_from_type_v2,
    _rebuild_meta_tensor_no_storage,
    _rebuild_nested_tensor,
    _rebuild_parameter,
    _rebuild_parameter_with_state,
    _rebuild_qtensor,
    _rebuild_sparse_tensor,
    _rebuild_tensor,
    _rebuild_tensor_v2,
    _rebuild_tensor_v3,
    _rebuild_wrapper_subclass,
)
from .tensor.devices import device as _device
from .tensor.dtypes import dtype as _dtype
from .tensor.tensor import Tensor

__all__ = [
    "ExceptionWrapper", "KeyErrorMessage",
    "_rebuild_device_tensor_from_cpu_tensor", "_rebuild_device_tensor_from_numpy",
    "_rebuild_from_type_v2", "_rebuild_meta_tensor_no_storage", "_rebuild_nested_tensor",
    "_rebuild_parameter", "_rebuild_parameter_with_state", "_rebuild_qtensor",
    "_rebuild_sparse_tensor", "_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3",
    "_rebuild_wrapper_subclass", "cpu_count", "get_current_device_index", "is_compiling",
]


def _element_size(dtype: _dtype) -> int:
    """Bytes of an element of a dtype.

    >>> torch._utils._element_size(torch.int16)
    2
    """
    if not isinstance(dtype, _dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return dtype.itemsize


def cpu_count() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _get_available_device_type() -> str | None:
    """The type of the accelerator: there is none."""
    return None


def _get_device_attr(get_member: Callable[[Any], Any]) -> Any:
    """What `get_member` reads from the accelerator's module: nothing, as there is none."""
    return None


def _get_current_device_index() -> int | None:
    return _get_device_attr(lambda module: module.current_device())


def _get_all_device_indices() -> list[int] | None:
    return _get_device_attr(lambda module: list(range(module.device_count())))


def _get_devices_properties(device_ids: Iterable[int]) -> list[Any]:
    return [None for _ in device_ids]


def get_current_device_index() -> int:
    """The index of the current CUDA device: -1, as there is none.

    >>> torch._utils.get_current_device_index()
    -1
    """
    return -1


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int | None:
    """The index in a device, its name or itself; -1 for the CPU where that is allowed.

    >>> torch._utils._get_device_index("cpu", allow_cpu=True), torch._utils._get_device_index(3)
    (-1, 3)
    """
    if isinstance(device, str):
        device = _device(device)
    index = None
    if isinstance(device, _device):
        if not allow_cpu and device.type == "cpu":
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        index = -1 if device.type == "cpu" else device.index
    if isinstance(device, int):
        index = device
    if index is None and not optional:
        raise ValueError("Expected a torch.device with a specified index or an integer, but got:"
                         f"{device}")
    return _get_current_device_index() if index is None else index


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Yield lists of tensors of the same type that take up to `size_limit` bytes."""
    started: dict[str, tuple[list[Tensor], int]] = {}
    for tensor in tensors:
        kind = tensor.type()
        parts = (tensor._indices(), tensor._values()) if tensor.is_sparse else (tensor,)
        size = sum(part.numel() * part.element_size() for part in parts)
        chunk, total = started.get(kind, ([], 0))
        if total and total + size > size_limit:
            yield chunk
            chunk, total = [], 0
        started[kind] = ([*chunk, tensor], total + size)
    for chunk, _ in started.values():
        if chunk:
            yield chunk


def _reorder_tensors_as(
    tensors: Iterable[Tensor], ordered_tensors: Iterable[Tensor]
) -> tuple[Tensor, ...]:
    """Bring tensors, whose order within each type is right, into the order of others."""
    by_type: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        by_type.setdefault(tensor.type(), []).append(tensor)
    iterators = {kind: iter(part) for kind, part in by_type.items()}
    return tuple(next(iterators[tensor.type()]) for tensor in ordered_tensors)
