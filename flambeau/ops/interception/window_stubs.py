"""Stubs that dispatch calls with sparse or quantized tensors, for functions that do not fail on
them. Installed when the first such tensor is created.

`ops/sparse` and `ops/quantized` register handlers here. A compiler's capture removes the stubs and
calls `handler_for` instead.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

from ...tensor.dtypes import dtype
from ...tensor.size import Size
from ...tensor.tensor import Tensor
from .stub_set import StubSet


class Kind(NamedTuple):
    """A kind of tensor: its name in errors and a test whether a call has one as argument."""

    name: str
    looks: Callable[[tuple, dict[str, Any]], bool]


Handlers = list[tuple[Kind, Callable]]

# Argument types that are never, and never contain, such a tensor.
_DENSE = frozenset((Tensor, Size, bool, int, float, complex, str, type(None), dtype))

_kinds: list[Kind] = []
HANDLERS: dict[FunctionType, Handlers] = {}  # for all functions, used by a capture
_worn: dict[FunctionType, Handlers] = {}  # for stubbed functions
STUBS = StubSet(lambda: {function: (_look, function) for function in _worn})


def register(function: FunctionType, kind: Kind, handler: Callable, wear: bool) -> None:
    """Dispatch a function's calls with tensors of a kind to `handler`: in captures, and if `wear`
    in all calls after `wear_registered`."""
    if kind not in _kinds:
        _kinds.append(kind)
    for handlers in (HANDLERS, _worn) if wear else (HANDLERS,):
        handlers.setdefault(function, []).append((kind, handler))


def wear_registered() -> None:
    """Install the stubs of all registered functions, permanently."""
    STUBS.permanent = True
    STUBS.renew()


def takes(args: tuple, kwargs: dict[str, Any]) -> bool:
    """Return whether an argument is a tensor of a registered kind, or a list with one."""
    if not _kinds or not kwargs and _DENSE.issuperset(map(type, args)):
        return False
    return any(kind.looks(args, kwargs) for kind in _kinds)


def _look(
    function: FunctionType, original: Callable, args: tuple, kwargs: dict[str, Any]
) -> Any:
    """Dispatch a call to the handler of the first kind among its arguments.

    Checks the argument types first, which settles most calls in a third of the time.
    """
    if not kwargs and _DENSE.issuperset(map(type, args)):
        return original(*args)
    for kind, handler in _worn[function]:
        if kind.looks(args, kwargs):
            return handler(*args, **kwargs)
    return original(*args, **kwargs)


def handler_for(
    function: Any, args: tuple, kwargs: dict[str, Any]
) -> tuple[str, Callable[[tuple, dict[str, Any]], Any]] | None:
    """Return (name of the kind, handler taking (args, kwargs)) for a call, or None."""
    for kind, handler in HANDLERS.get(function, ()):
        if kind.looks(args, kwargs):
            return kind.name, lambda args, kwargs, chosen=handler: chosen(*args, **kwargs)
    return None
