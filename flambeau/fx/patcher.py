"""Patcher: replace functions and methods temporarily while a trace runs."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

from ..ops.core.operator import PUBLIC
from ..ops.interception.torch_function import STATE
from ..tensor.tensor import Tensor
from .node import map_aggregate
from .proxy import Proxy

__all__ = ["WRAPPED_FUNCTIONS", "WRAPPED_METHODS", "Patcher", "patch_seen_functions",
           "patch_tensor_methods", "patch_wrapped_functions"]

# Registered by `torch.fx.wrap`: (id of the globals, name) -> globals.
WRAPPED_FUNCTIONS: dict[tuple[int, str], dict[str, Any]] = {}
WRAPPED_METHODS: list[tuple[type, str]] = []
_MARK = "__fx_already_patched"


class Patcher:
    """Context that holds patches; undoes them in reverse order on exit."""

    def __init__(self) -> None:
        self.undo: list[Callable[[], None]] = []
        self.visited: set[int] = set()

    def patch(
        self, frame_dict: dict[str, Any], name: str, new_fn: Callable[..., Any],
        deduplicate: bool = True,
    ) -> None:
        """Replace a global; a patch that shadows a builtin is deleted on exit."""
        setattr(new_fn, _MARK, deduplicate)
        if name not in frame_dict and hasattr(builtins, name):
            self.undo.append(functools.partial(frame_dict.__delitem__, name))
        elif getattr(frame_dict[name], _MARK, False):
            return
        else:
            self.undo.append(functools.partial(frame_dict.__setitem__, name, frame_dict[name]))
        frame_dict[name] = new_fn

    def patch_method(
        self, cls: type, name: str, new_fn: Callable[..., Any], deduplicate: bool = True
    ) -> None:
        """Replace a method of a class."""
        setattr(new_fn, _MARK, deduplicate)
        is_defined = name in vars(cls)
        before = getattr(cls, name)
        if getattr(before, _MARK, False):
            return
        self.undo.append(functools.partial(setattr, cls, name, before) if is_defined
                         else functools.partial(delattr, cls, name))
        setattr(cls, name, new_fn)

    def visit_once(self, target: Any) -> bool:
        """Return whether this is the first call with `target`."""
        first = id(target) not in self.visited
        self.visited.add(id(target))
        return first

    def __enter__(self) -> Patcher:
        return self

    def __exit__(self, *exception: object) -> None:
        while self.undo:
            self.undo.pop()()
        self.visited.clear()


def _find_proxy(*values: Any) -> Proxy | None:
    result: list[Proxy] = []
    map_aggregate(values, lambda x: result.append(x) if isinstance(x, Proxy) else None)
    return result[-1] if result else None


def _record_calls(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function as a leaf: calls with a proxy argument are recorded as a node."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        result = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        result.node.meta["is_wrapped"] = True
        return result

    return wrapped


def _record_method(cls: type, name: str) -> Callable[..., Any]:
    method: Any = getattr(cls, name)

    @functools.wraps(method)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return method(*args, **kwargs)
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return wrapped


def patch_wrapped_functions(patcher: Patcher) -> None:
    """Make everything registered with `torch.fx.wrap` a leaf."""
    for (_, name), space in WRAPPED_FUNCTIONS.copy().items():
        function = space[name] if name in space else getattr(builtins, name)
        patcher.patch(space, name, _record_calls(function))
    for cls, name in WRAPPED_METHODS:
        patcher.patch_method(cls, name, _record_method(cls, name))


@functools.cache  # one wrapper per function, shared by all traces
def _convert_to_method(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def method(*args: Any, **kwargs: Any) -> Any:
        before, STATE.operator = STATE.operator, True
        try:
            return function(*args, **kwargs)
        finally:
            STATE.operator = before

    return method


def patch_tensor_methods(patcher: Patcher) -> None:
    """Let traces tell `tensor.add(proxy)` from `torch.add(tensor, proxy)`, the same function.

    The first is recorded as a method of Tensor.
    """
    shared = set(PUBLIC["torch"].values())
    methods = {name: function for name, function in vars(Tensor).items()
               if isinstance(function, FunctionType) and function in shared
               and not name.startswith("_")}
    for name, function in methods.items():
        setattr(Tensor, name, _convert_to_method(function))
    patcher.undo.append(functools.partial(_put_back, methods))


def _put_back(methods: dict[str, FunctionType]) -> None:
    for name, function in methods.items():
        setattr(Tensor, name, function)


def patch_seen_functions(patcher: Patcher, space: dict[str, Any], ids: set[int]) -> None:
    """Make leaves of the functions in a namespace (e.g. math.sqrt) whose id is in `ids`."""
    if patcher.visit_once(space):
        for name, value in list(space.items()):
            if not name.startswith("_") and callable(value) and id(value) in ids:
                patcher.patch(space, name, _record_calls(value))
