"""Python's numbers of tensors: `float(x)`, `int(x)`, `complex(x)` and `x` as an index."""

from __future__ import annotations

from typing import Any

from ..native.foundation.user_frames import warn_once
from .tensor import Tensor, attach


def _read_element(x: Tensor) -> Any:
    """Return the only element as a Python number; ValueError if there are more or none."""
    if x._array.size != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    return x.item()


def _read_real_element(x: Tensor, type_name: str) -> Any:
    """Return the only element without its imaginary part, which must be zero; else RuntimeError."""
    value = _read_element(x)
    if not isinstance(value, complex):
        return value
    if value.imag:
        raise RuntimeError(f"value cannot be converted to type {type_name} without overflow")
    return value.real


def _warn_of_lost_gradient(x: Tensor) -> None:
    """Warn, once in a process, that the number read from `x` has no gradient."""
    if x._tracked and x.requires_grad:
        warn_once(
            "Converting a tensor with requires_grad=True to a scalar may lead to unexpected "
            "behavior.\nConsider using tensor.detach() first."
        )


def __float__(self: Tensor) -> float:
    """Return the only element as a float."""
    _warn_of_lost_gradient(self)
    return float(_read_real_element(self, "double"))


def __int__(self: Tensor) -> int:
    """Return the only element as an int."""
    return int(_read_real_element(self, "int64_t"))


def __complex__(self: Tensor) -> complex:
    """Return the only element as a complex number."""
    _warn_of_lost_gradient(self)
    return complex(_read_element(self))


def __index__(self: Tensor) -> int:
    """Return the only element of an integer tensor; TypeError for other tensors."""
    if self._array.dtype.kind not in "iub" or self._array.size != 1:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(self.item())


attach(__float__=__float__, __int__=__int__, __complex__=__complex__, __index__=__index__)
