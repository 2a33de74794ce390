"""Subclasses of Tensor: as_subclass, _make_subclass, and the default `__torch_function__`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...tensor.tensor import Tensor
from .registry import publish


def as_subclass(self: Tensor, cls: type) -> Tensor:
    """The tensor seen as an object of `cls`, on the same memory, with its history.

    >>> class Celsius(torch.Tensor):
    ...     pass
    >>> type(torch.zeros(2).as_subclass(Celsius)).__name__
    'Celsius'
    """
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(f"cls must be a type that inherits from torch.Tensor, got {cls!r}")
    made: Tensor = self.view_as(self)
    made.__class__ = cls
    return made


def _make_subclass(
    cls: type, data: Tensor, require_grad: bool = False, *,
    dispatch_sizes_strides_policy: Any = None,
) -> Tensor:
    """An object of `cls` on the memory of `data`, a leaf."""
    made = data._alias(cls)
    made.requires_grad_(require_grad)
    return made


def _torch_function(
    cls: type, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """Calls the function; tensors that it gives become objects of the class."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    found = func(*args, **(kwargs or {}))
    if cls is Tensor or not isinstance(found, Tensor) or isinstance(found, cls):
        return found
    return as_subclass(found, cls)


publish(as_subclass, ("as_subclass",), ("Tensor",))
_methods: Any = Tensor
_methods._make_subclass = staticmethod(_make_subclass)
_methods.__torch_function__ = classmethod(_torch_function)
