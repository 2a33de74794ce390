"""Modes: contexts that intercept calls of torch's functions."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, Self

from ..autograd.mode import MODE
from ..ops.interception import torch_dispatch, torch_function
from ..ops.interception.subclass import EnableTorchFunction
from ..ops.interception.torch_function import STATE


class TorchFunctionMode:
    """A context in which calls of torch's functions go to the mode's `__torch_function__`.

    The innermost mode gets them, and is off while it handles one. Reading a tensor's attribute is a
    call of its accessor, such as `torch.Tensor.shape.__get__`.

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
        """Return the result of a call of `func`."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        _name_initialisers()
        _push_mode(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _pop_mode()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """Return an instance of the class. Deprecated alias of the constructor."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that calls each function unchanged."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Call the function."""
        return func(*args, **(kwargs or {}))


def _name_initialisers() -> None:
    """If flambeau is imported as `torch`, set the initializers' module names to match: modes
    identify them by module."""
    if sys.modules.get("torch") is sys.modules["flambeau"]:
        for names in torch_function.NAMESPACES:
            for function in names.values():
                function.__module__ = "torch.nn.init"


def _push_mode(mode: Any) -> None:
    torch_function.enter(mode)


def _pop_mode() -> Any:
    mode = STATE.modes[-1]
    torch_function.leave(mode)
    return mode


@contextlib.contextmanager
def _pop_mode_temporarily() -> Iterator[Any]:
    mode = _pop_mode()
    try:
        yield mode
    finally:
        _push_mode(mode)


def _get_current_function_mode() -> Any:
    return STATE.modes[-1] if STATE.modes else None


def _get_current_function_mode_stack() -> list[Any]:
    return list(STATE.modes)


@contextlib.contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """Context, inside a handler, in which calls go to modes and classes, and are recorded, again.
    """
    region = EnableTorchFunction()
    before, MODE.grad = MODE.grad, torch_dispatch.STATE.grad_outside
    try:
        yield
    finally:
        MODE.grad = before
        region.__exit__()


def redispatch_function(
    func: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None
) -> Any:
    """Call `func` without dispatching to its arguments' classes; calls inside it do dispatch."""
    is_public = func in torch_function.ROUTES.targets  # whose `__wrapped__` is below the stub
    STATE.skipped = func if is_public else getattr(func, "__wrapped__", func)
    try:
        return func(*args, **(kwargs or {}))
    finally:
        STATE.skipped = None
