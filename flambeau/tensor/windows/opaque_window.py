"""Windows that are no dense arrays, such as those of sparse tensors: every dense use fails.

The failure dispatches the call to the operators of that kind of tensor (`ops/sparse`,
`ops/quantized`), so that calls with dense tensors need no check.
"""

from __future__ import annotations

import math
import sys
from types import FrameType
from typing import Any, NoReturn


class NoDenseArray(AttributeError, NotImplementedError):
    """Raised by an operator that has no implementation for this kind of tensor."""


def _name_running_operator() -> str:
    """Return the name of the flambeau function that the user called."""
    frame: FrameType | None = sys._getframe(2)
    name = ""
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        name, frame = frame.f_code.co_name, frame.f_back
    return name.removesuffix("_method")  # as `view_method` is called


_PACKAGE = __name__.partition(".")[0]


def describe_missing_implementation(name: str, backend: str, library: str = "aten") -> str:
    """Return PyTorch's error message for an operator that a backend does not implement."""
    return (
        f"Could not run '{library}::{name}' with arguments from the '{backend}' backend. This "
        "could be because the operator doesn't exist for this backend, or was omitted during the "
        "selective/custom build process (if using custom build)."
    )


class OpaqueWindow:
    """Base class of windows that have a shape but store the elements in another form."""

    __slots__ = ()
    kind: str  # the compiler's name for such tensors
    shape: tuple[int, ...]
    __array_ufunc__: Any = None  # NumPy's ufuncs raise TypeError

    @property
    def backend(self) -> str:
        """PyTorch's name for this kind of tensor in messages."""
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements of the equivalent dense array."""
        return math.prod(self.shape)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NoDenseArray(describe_missing_implementation(_name_running_operator(), self.backend))

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(f"a {self.backend} array is not a dense array")

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> NoReturn:
        raise TypeError(f"{func.__name__} is not defined on a {self.backend} array")
