"""A window whose elements are the conjugates or negatives of the values in memory.

It is not a NumPy array. Code that does not know it gets a resolved copy through NumPy's protocols
or attribute access, so values are right everywhere; views keep the conjugate and negative bits, and
writes apply them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ..tree import map_leaves_of

_VIEWS = frozenset((
    np.transpose, np.moveaxis, np.swapaxes, np.broadcast_to, np.expand_dims, np.squeeze,
    np.reshape, np.diagonal, np.flip, np.rollaxis, np.ravel,
))
_VIEW_METHODS = frozenset(("diagonal", "ravel", "reshape", "squeeze", "swapaxes", "transpose"))
_WRITERS = frozenset((np.copyto, np.put, np.place, np.putmask, np.put_along_axis,
                      np.fill_diagonal))


class LazyWindow(NDArrayOperatorsMixin):
    """A view of `memory` that is conjugated, negated, or both."""

    __slots__ = ("conjugated", "memory", "negated")
    memory: np.ndarray
    kind = "conjugated"  # the compiler's name for such tensors

    def __init__(self, memory: np.ndarray, conjugated: bool, negated: bool) -> None:
        self.memory, self.conjugated, self.negated = memory, conjugated, negated

    dtype = property(lambda self: self.memory.dtype)
    shape = property(lambda self: self.memory.shape)
    strides = property(lambda self: self.memory.strides)
    ndim = property(lambda self: self.memory.ndim)
    size = property(lambda self: self.memory.size)
    itemsize = property(lambda self: self.memory.itemsize)
    nbytes = property(lambda self: self.memory.nbytes)
    flags = property(lambda self: self.memory.flags)
    base = property(lambda self: self.memory)
    T = property(lambda self: self.like(self.memory.T))

    def like(self, memory: Any) -> Any:
        """Return a window on other memory with the same bits; numbers are resolved."""
        if isinstance(memory, np.ndarray):
            return set_bits(memory, self.conjugated, self.negated)
        return self.apply(memory)

    def apply(self, values: Any) -> Any:
        """Map elements to their stored form or back: each form is its own inverse."""
        if self.conjugated:
            values = np.conjugate(values)
        return np.negative(values) if self.negated else values

    def resolved(self) -> np.ndarray:
        """Return the elements in new memory."""
        return np.asarray(self.apply(self.memory))

    real = property(lambda self: set_bits(self.memory.real, False, self.negated))
    imag = property(lambda self: set_bits(
        self.memory.imag, False, self.negated != self.conjugated))

    # ------------------------------------------------------------------------ views and writes

    def __getitem__(self, key: Any) -> Any:
        return self.like(self.memory[_resolve(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.memory[_resolve(key)] = self.apply(_resolve(value))

    def __len__(self) -> int:
        return len(self.memory)

    # --------------------------------------------------------------------- as an ordinary array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.resolved(), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        targets = kwargs.pop("out", ())
        plain = [_resolve(x) for x in inputs]
        kwargs = {k: _resolve(v) for k, v in kwargs.items()}
        if not any(isinstance(t, LazyWindow) for t in targets):
            return getattr(ufunc, method)(*plain, **kwargs, **({"out": targets} if targets else {}))
        result = getattr(ufunc, method)(*plain, **kwargs)
        for target, y in zip(targets, result if isinstance(result, tuple) else (result,),
                             strict=True):
            if target is not None:
                target[...] = y
        return targets[0] if len(targets) == 1 else targets

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func in _VIEWS and args and args[0] is self:
            return self.like(func(self.memory, *args[1:], **kwargs))
        if func in _WRITERS and args[0] is self:
            target = self.resolved()
            func(target, *_resolve(args[1:]), **_resolve(kwargs))
            self[...] = target
            return None
        return func(*_resolve(args), **_resolve(kwargs))

    def __getattr__(self, name: str) -> Any:
        if name in ("ctypes", "__array_interface__", "__array_struct__"):
            raise AttributeError(f"a window with a conjugate or negative bit has no {name}")
        if name in _VIEW_METHODS:
            method = getattr(self.memory, name)
            return lambda *args, **kwargs: self.like(method(*args, **kwargs))
        return getattr(self.resolved(), name)


def set_bits(memory: np.ndarray, conjugated: bool, negated: bool) -> Any:
    """Return a window on memory with these bits, or the memory itself if no bit is set."""
    return LazyWindow(memory, conjugated, negated) if conjugated or negated else memory


def toggle_bits(window: Any, conjugate: bool, negate: bool) -> Any:
    """Return a window on the same memory with bits toggled."""
    if window.__class__ is LazyWindow:
        return set_bits(window.memory, window.conjugated != conjugate,
                        window.negated != negate)
    return set_bits(window, conjugate, negate)


def compare_bits(view: Any, base: Any) -> tuple[bool, bool] | None:
    """Return which bits (conjugate, negative) differ between a view and its base; None if none."""
    bits = [(w.conjugated, w.negated) if w.__class__ is LazyWindow else (False, False)
            for w in (view, base)]
    (a, b), (c, d) = bits
    return (a != c, b != d) if bits[0] != bits[1] else None


def is_conjugated(window: Any) -> bool:
    """Return whether a tensor's window conjugates the values in memory."""
    return window.__class__ is LazyWindow and window.conjugated


def is_negated(window: Any) -> bool:
    """Return whether a tensor's window negates the values in memory."""
    return window.__class__ is LazyWindow and window.negated


def get_memory(window: Any) -> np.ndarray:
    """Return the NumPy array of a window, ignoring its bits."""
    result: np.ndarray = window.memory if window.__class__ is LazyWindow else window
    return result


def _resolve(x: Any) -> Any:
    return map_leaves_of(LazyWindow, LazyWindow.resolved, x)
