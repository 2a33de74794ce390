"""torch.overrides: tensor-like objects, and modes that functions of torch go through.

Operators of flambeau do not call the `__torch_function__` of their arguments.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any, Self

from .tensor.ambient import note_change
from .tensor import Tensor

__all__ = ["BaseTorchFunctionMode", "TorchFunctionMode", "handle_torch_function",
           "has_torch_function", "is_tensor_like", "is_tensor_method_or_property",
           "resolve_name"]  # fmt: skip


def _overrides(value: Any) -> bool:
    function = getattr(type(value), "__torch_function__", None)
    return function is not None and getattr(function, "__func__", function) is not _DEFAULT


_DEFAULT = vars(Tensor)["__torch_function__"].__func__


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a tensor, or its type has `__torch_function__`."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether any has a `__torch_function__` of its own."""
    return any(_overrides(a) for a in relevant_args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """What the first `__torch_function__` that does not pass gives; TypeError if all pass."""
    overriding = [a for a in relevant_args if _overrides(a)]
    kinds = tuple({type(a): None for a in overriding})
    for value in overriding:
        found = type(value).__torch_function__(public_api, kinds, args, kwargs)
        if found is not NotImplemented:
            return found
    name = f"{public_api.__module__}.{public_api.__name__}"
    raise TypeError(f"no implementation found for '{name}' on types that implement "
                    f"__torch_function__: {[k.__name__ for k in kinds]}")  # fmt: skip


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function is one of Tensor's, or the getter of one of its properties."""
    name = getattr(func, "__name__", "")
    return name == "__get__" or getattr(Tensor, name, None) is func


def resolve_name(f: Any) -> str | None:
    """A function's public name."""
    module, name = getattr(f, "__module__", None), getattr(f, "__qualname__", None)
    return None if name is None else name if module is None else f"{module}.{name}"


class TorchFunctionMode:
    """A context in which calls of torch's functions go to `__torch_function__` of the mode.

    The mode that was entered last gets them; while it handles one, it is off. Attributes of
    tensors (`x.shape`) do not go through it. While any is on, public functions wear other code.

    >>> class Log(torch.overrides.TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return func(*args, **(kwargs or {}))
    >>> with Log():
    ...     x = torch.ones(2)
    ones
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """What a call of `func` gives."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        if not _MODES.swaps:
            _MODES.swaps = _swap_all()
        _MODES.stack.append(self)
        note_change(observers=1)
        return self

    def __exit__(self, *exception: object) -> None:
        _MODES.stack.remove(self)
        note_change(observers=-1)
        if not _MODES.stack:
            for swap in reversed(_MODES.swaps):
                swap.restore()
            _MODES.swaps = []


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that calls each function as it is."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """The call itself."""
        return func(*args, **(kwargs or {}))


class _Modes:
    """The modes that are on, and the functions swapped for them."""

    def __init__(self) -> None:
        self.stack: list[TorchFunctionMode] = []
        self.swaps: list[Any] = []
        self.inside = False  # a function of torch runs: what it calls is its own affair


_MODES = _Modes()
_OPERATORS = frozenset(
    f"__{way}{name}__"
    for way in ("", "r", "i")
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or",
                 "xor", "lshift", "rshift")
) | {"__getitem__", "__setitem__", "__neg__", "__abs__", "__invert__", "__eq__", "__ne__",
     "__lt__", "__le__", "__gt__", "__ge__"}  # fmt: skip


def _swap_all() -> list[Any]:
    from .compiler.capture.patch_targets import swap_of
    from .nn import init
    from .ops.core.registry import PUBLIC

    found: dict[int, FunctionType] = {}
    for names in (*PUBLIC.values(), vars(Tensor), vars(init)):
        for name, function in names.items():
            public = not name.startswith("_") or name in _OPERATORS
            if public and isinstance(function, FunctionType):
                found[id(function)] = function
    if sys.modules.get("torch") is sys.modules[__package__]:
        for name in init.__all__:  # modes know initialisers by their module
            getattr(init, name).__module__ = "torch.nn.init"
    swaps = [swap_of(one, functools.partial(_handled, one)) for one in found.values()]
    for swap in swaps:
        swap.start()
    return swaps


def _handled(function: Any, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of a swapped function: the last mode's affair, unless torch itself made it."""
    modes = _MODES
    if modes.inside:
        return original(*args, **kwargs)
    if not modes.stack:
        modes.inside = True
        try:
            return original(*args, **kwargs)
        finally:
            modes.inside = False
    mode = modes.stack.pop()
    try:
        return mode.__torch_function__(function, (), args, kwargs)
    finally:
        modes.stack.append(mode)
