"""torch.ops.profiler: labels of a profile that begin and end in two calls."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.profiler import record_function
from ...tensor.tensor import Tensor, wrap
from .custom_operators import define

_OPEN: dict[int, record_function] = {}  # by the address of the handle's memory


def _enter(name: str, args: str | None = None) -> Tensor:
    """Begin a label; the tensor returned is its handle."""
    handle = wrap(np.zeros((), np.uint8))
    _OPEN[handle.data_ptr()] = record_function(name, args).__enter__()
    return handle


def _exit(handle: Tensor) -> None:
    """End the label of a handle. Raise RuntimeError for a tensor that is none."""
    label: Any = _OPEN.pop(handle.data_ptr(), None)
    if label is None:
        raise RuntimeError("_record_function_exit: this tensor is no handle of an open label")
    label.__exit__()


for _schema, _kernel in (("_record_function_enter(str name, str? args=None) -> Tensor", _enter),
                         ("_record_function_exit(Tensor handle) -> ()", _exit)):
    define("profiler", _schema).kernels["CPU"] = _kernel
