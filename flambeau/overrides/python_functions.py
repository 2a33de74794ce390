"""Functions written in Python that hand themselves over to `__torch_function__`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from ..native.foundation.user_frames import warn
from ..ops.interception import torch_function
from ..ops.interception.torch_function import STATE
from ..tensor import Tensor


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a tensor, or its type has `__torch_function__`.

    >>> torch.overrides.is_tensor_like(torch.ones(1)), torch.overrides.is_tensor_like([1.])
    (True, False)
    """
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a mode is on, or any value's class overrides.

    >>> torch.overrides.has_torch_function((torch.ones(1), 2))
    False
    """
    state = STATE
    if not hasattr(relevant_args, "__iter__"):
        raise TypeError("expected a sequence")
    if state.nothing:
        return False
    if state.skipped is not None:
        state.skipped = None
        return False
    if state.modes:
        return True
    kinds = [type(value) for value in relevant_args]
    result = False
    for kind in kinds:
        # Strided nested tensors are Tensors in PyTorch, here a class that dispatches.
        result = (torch_function.meet(kind) and not hasattr(kind, "_flambeau_is_tensor")) or result
    return result and not state.no_subclasses


def has_torch_function_unary(value: Any) -> bool:
    """`has_torch_function((value,))`."""
    return has_torch_function((value,))


def has_torch_function_variadic(*values: Any) -> bool:
    """`has_torch_function(values)`."""
    return has_torch_function(values)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """What the mode, or the first class that does not pass, gives; TypeError if all pass."""
    match = [] if STATE.no_subclasses else torch_function.find_overloaded_arguments(relevant_args)
    kinds = tuple(map(type, match))
    mode = None
    if STATE.modes and not STATE.nothing:
        mode = STATE.modes[-1]
        result = torch_function.ask_mode(public_api, kinds, args, kwargs)
        if result is not NotImplemented:
            return result
    for value in match:
        hook = value.__torch_function__
        if getattr(hook, "__self__", None) is value:
            warn(torch_function.PLAIN_METHOD, DeprecationWarning)
        result = hook(public_api, kinds, args, kwargs)
        if result is not NotImplemented:
            return result
    name = f"{public_api.__module__}.{public_api.__name__}"
    message = f"no implementation found for '{name}' on types that implement " \
              f"__torch_function__: {list(kinds)}"
    raise TypeError(message if mode is None else f"{message} nor in mode {mode}")


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[..., Any]:
    """A decorator: the function is handed over when one of `dispatcher`'s values overrides."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate
