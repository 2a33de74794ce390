"""Subclasses of Tensor: as_subclass, _make_subclass, and `__torch_function__`.

A class that defines `__torch_function__` gets methods of its own, which call it; methods of Tensor
and of classes without one stay as they are and pay nothing. Functions (`torch.add(x, y)`, where x
is of such a class) do not call it: they take the tensor as it is and give a Tensor.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from ...tensor.tensor import Tensor
from .registry import publish


class _Routing(threading.local):
    disabled = 0  # regions of this thread in which no method calls `__torch_function__`


ROUTING = _Routing()


class DisableTorchFunctionSubclass:
    """A region in which methods of subclasses do not call `__torch_function__`."""

    def __enter__(self) -> None:
        ROUTING.disabled += 1

    def __exit__(self, *exception: object) -> None:
        ROUTING.disabled -= 1


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """The same: no function of a mode is called by a method either."""


def as_subclass(self: Tensor, cls: type) -> Tensor:
    """The tensor seen as an object of `cls`, on the same memory, with its history.

    >>> class Celsius(torch.Tensor):
    ...     pass
    >>> type(torch.zeros(2).as_subclass(Celsius)).__name__
    'Celsius'
    """
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(f"cls must be a type that inherits from torch.Tensor, got {cls!r}")
    made: Tensor = Tensor.view_as(self, self)
    made.__class__ = cls
    return made


def _make_subclass(
    cls: type, data: Tensor, require_grad: bool = False, *,
    dispatch_sizes_strides_policy: Any = None,
) -> Tensor:
    """An object of `cls` on the memory of `data`, a leaf."""
    made = data._alias(cls)
    Tensor.requires_grad_(made, require_grad)  # past the class's own `__torch_function__`
    return made


def _torch_function(
    cls: type, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """Calls the function; tensors that it gives become objects of the class."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
        return result if cls is Tensor else _converted(result, cls)


def _converted(result: Any, cls: type) -> Any:
    """The result with every tensor in it, also in tuples and lists, as an object of the class."""
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else as_subclass(result, cls)
    if isinstance(result, (tuple, list)):
        parts = [_converted(part, cls) for part in result]
        if hasattr(result, "_fields"):
            return type(result)(*parts)
        return type(result)(parts)
    return result


# ------------------------------------------------------------------- methods of a class with a hook

_OPERATORS = frozenset(
    f"__{way}{name}__"
    for way in ("", "r", "i")
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or",
                 "xor", "lshift", "rshift")
) | {"__getitem__", "__setitem__", "__neg__", "__abs__", "__invert__", "__eq__", "__ne__",
     "__lt__", "__le__", "__gt__", "__ge__", "__len__", "__deepcopy__"}  # fmt: skip


def _init_subclass(cls: type, /, **kwargs: Any) -> None:
    super(Tensor, cls).__init_subclass__(**kwargs)  # type: ignore[misc]
    hook = vars(cls).get("__torch_function__")
    if isinstance(hook, (classmethod, staticmethod)):
        _route(cls)


def _route(cls: type) -> None:
    """Gives the class the methods that call its `__torch_function__`, but for its own."""
    for name in dir(Tensor):
        if name in vars(cls) or (name.startswith("_") and name not in _OPERATORS):
            continue
        function = getattr(Tensor, name)
        if isinstance(function, FunctionType) and getattr(cls, name) is function:
            setattr(cls, name, _routed(function))


def _routed(function: FunctionType) -> Callable[..., Any]:
    @functools.wraps(function)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if ROUTING.disabled:
            return function(self, *args, **kwargs)
        kinds = _kinds((self, *args))
        for kind in kinds:
            result = kind.__torch_function__(function, kinds, (self, *args), kwargs)
            if result is not NotImplemented:
                return result
        raise TypeError(
            f"Multiple dispatch failed for 'torch.Tensor.{function.__name__}'; all "
            f"__torch_function__ handlers returned NotImplemented: {list(kinds)}"
        )

    return method


def _kinds(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The classes with a hook among the arguments, subclasses before what they derive from."""
    kinds: list[Any] = []
    for value in values:
        kind = type(value)
        hook = getattr(kind, "__torch_function__", None)
        if hook is None or kind in kinds or getattr(hook, "__func__", hook) is _torch_function:
            continue
        at = next((i for i, k in enumerate(kinds) if issubclass(kind, k)), len(kinds))
        kinds.insert(at, kind)
    return tuple(kinds)


publish(as_subclass, ("as_subclass",), ("Tensor",))
_methods: Any = Tensor
_methods._make_subclass = staticmethod(_make_subclass)
_methods.__torch_function__ = classmethod(_torch_function)
_methods.__init_subclass__ = classmethod(_init_subclass)
