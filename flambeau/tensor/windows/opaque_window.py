"""A window that is no dense array: every use of it as one fails.

An operator that meets one fails, and the failure hands the call over to the operators of that kind
of tensor (`ops/sparse`, `ops/quantized`): dense tensors pay no check.
"""

from __future__ import annotations

import math
import sys
from types import FrameType
from typing import Any, NoReturn


class NoDenseArray(AttributeError, NotImplementedError):
    """An operator without an implementation for this kind of tensor met one."""


def _operator_at_work() -> str:
    """The name of the outermost function of flambeau's that is being called."""
    frame: FrameType | None = sys._getframe(2)
    name = ""
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        name, frame = frame.f_code.co_name, frame.f_back
    return name


_PACKAGE = __name__.partition(".")[0]


def missing_implementation(name: str, backend: str) -> str:
    """PyTorch's sentence on an operator that a kind of tensor does not have."""
    return (
        f"Could not run 'aten::{name}' with arguments from the '{backend}' backend. This could be "
        "because the operator doesn't exist for this backend, or was omitted during the "
        "selective/custom build process (if using custom build)."
    )


class OpaqueWindow:
    """A shape, and whatever stands for the elements."""

    __slots__ = ()
    kind: str  # what the compiler calls such tensors
    shape: tuple[int, ...]
    __array_ufunc__: Any = None  # NumPy's ufuncs raise TypeError

    @property
    def backend(self) -> str:
        """What PyTorch calls this kind of tensor in messages."""
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements the dense array would have."""
        return math.prod(self.shape)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NoDenseArray(missing_implementation(_operator_at_work(), self.backend))

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(f"a {self.backend} array is not a dense array")

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> NoReturn:
        raise TypeError(f"{func.__name__} is not defined on a {self.backend} array")
