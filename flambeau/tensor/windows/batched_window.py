"""The window of a tensor that represents one example of a batch inside vmap.

It has an example's shape and dtype; the elements are in a tensor below, whose first axis is the
batch axis. Operators without batching support fail on it, as on every opaque window.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from .opaque_window import OpaqueWindow


class ExampleRead(RuntimeError):
    """Raised when code reads the elements of a single example, which vmap does not allow."""


def _refuse(*args: Any) -> NoReturn:
    raise ExampleRead("vmap: a function computes with one example's elements")


class _Flags:
    """The NumPy `flags` of an example's memory."""

    __slots__ = ("c_contiguous", "writeable")

    def __init__(self, c_contiguous: bool, writeable: bool) -> None:
        self.c_contiguous, self.writeable = c_contiguous, writeable


class BatchedWindow(OpaqueWindow):
    """One example of `batch` in the tensor `below`; `is_shared` if all examples are the same."""

    # `axis`: where the caller of vmap had the batch axis, for printing and a Function's own rule.
    __slots__ = ("axis", "batch", "below", "dtype", "is_shared", "shape")
    kind = "batched"
    backend = "Batched"
    base = None

    def __init__(self, batch: Any, below: Any, is_shared: bool) -> None:
        array = below._array
        self.batch, self.below, self.is_shared, self.axis = batch, below, is_shared, 0
        self.dtype: np.dtype = array.dtype
        self.shape: tuple[int, ...] = array.shape if is_shared else array.shape[1:]

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides of an example in bytes."""
        strides: tuple[int, ...] = self.below._array.strides
        return strides if self.is_shared else strides[1:]

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Total bytes of an example's elements."""
        return self.size * self.dtype.itemsize

    @property
    def flags(self) -> _Flags:
        """Whether an example is row-major without gaps, and whether it is writable."""
        step, in_order = self.dtype.itemsize, True
        for n, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            in_order = in_order and (n == 1 or stride == step)
            step *= n
        return _Flags(in_order or not self.size, self.below._array.flags.writeable)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ExampleRead(f"vmap: a function reads `{name}` of one example's elements")

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ExampleRead("vmap: a function makes a NumPy array of one example")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> NoReturn:
        raise ExampleRead(f"vmap: NumPy's {ufunc.__name__} is called on one example")

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> NoReturn:
        raise ExampleRead(f"vmap: NumPy's {func.__name__} is called on one example")

    __getitem__ = __setitem__ = __iter__ = __len__ = __bool__ = __float__ = __int__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __invert__ = __abs__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __matmul__ = _refuse
    __truediv__ = __rtruediv__ = __floordiv__ = __mod__ = __pow__ = __and__ = __or__ = _refuse


def is_example(window: Any) -> bool:
    """Return whether a tensor's window is that of an example of a batch."""
    return window.__class__ is BatchedWindow
