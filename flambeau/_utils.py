"""torch._utils: the functions that rebuild tensors, under the name by which files call them; and
exceptions that travel between processes."""

from __future__ import annotations

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
from .tensor.dtypes import dtype as _dtype

__all__ = [
    "ExceptionWrapper", "KeyErrorMessage",
    "_rebuild_device_tensor_from_cpu_tensor", "_rebuild_device_tensor_from_numpy",
    "_rebuild_from_type_v2", "_rebuild_meta_tensor_no_storage", "_rebuild_nested_tensor",
    "_rebuild_parameter", "_rebuild_parameter_with_state", "_rebuild_qtensor",
    "_rebuild_sparse_tensor", "_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3",
    "_rebuild_wrapper_subclass", "is_compiling",
]


def _element_size(dtype: _dtype) -> int:
    """Bytes of an element of a dtype.

    >>> torch._utils._element_size(torch.int16)
    2
    """
    if not isinstance(dtype, _dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return dtype.itemsize
