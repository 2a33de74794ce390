"""Stubs that dispatch calls with sparse or quantized tensors, for functions that do not fail on
them. Installed when the first such tensor is created.

`ops/sparse` and `ops/quantized` register handlers here. A compiler's capture removes the stubs and
calls `find_handler` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, NamedTuple

from ...native.foundation.method_patches import library_attributes
from ...tensor.dtypes import dtype
from ...tensor.size import Size
from ...tensor.tensor import Tensor
from ..core.operator import PUBLIC
from .stub_set import StubSet


class TensorKind(NamedTuple):
    """A kind of tensor: its name in errors, and a test whether a call has one as argument."""

    name: str
    matches: Callable[[tuple, dict[str, Any]], bool]


Handlers = list[tuple[TensorKind, Callable]]

# Argument types that are never, and never contain, such a tensor.
_DENSE = frozenset((Tensor, Size, bool, int, float, complex, str, type(None), dtype))

_kinds: list[TensorKind] = []
HANDLERS: dict[FunctionType, Handlers] = {}  # for all functions, used by a capture
_stubbed: dict[FunctionType, Handlers] = {}  # for functions with a stub
STUBS = StubSet(lambda: {function: (_dispatch, function) for function in _stubbed})


def select_functions(functions: Mapping[str, Callable], names: str) -> dict[str, Callable]:
    """Return some functions by name, for `implement_each`."""
    return {name: functions[name] for name in names.split()}


def implement_each(
    implements: Callable[[str], Callable], originals: Mapping[str, Callable]
) -> Callable[[Callable], Callable]:
    """Register one function under several names by the decorator `implements`.

    It gets the function of plain tensors that it implements, then the call's arguments.
    """
    def decorate(rule: Callable) -> Callable:
        for name, original in originals.items():
            implements(name)(_bind(rule, name, original))
        return rule

    return decorate


def _bind(rule: Callable, name: str, original: Callable) -> Callable:
    def function(*args: Any, **kwargs: Any) -> Any:
        return rule(original, *args, **kwargs)

    function.__name__ = name
    return function


def install(
    kind: TensorKind, handlers: Mapping[str, Callable],
    needs_stub: Callable[[FunctionType, str], bool],
) -> None:
    """Dispatch calls of public functions with tensors of a kind to the handlers of their names:
    in captures, and if a function `needs_stub` in all calls."""
    _kinds.append(kind)
    functions: set[FunctionType] = set()
    for name, handler in handlers.items():
        for space in (PUBLIC["torch"], PUBLIC["nn.functional"], library_attributes(Tensor)):
            function = space.get(name)
            if not isinstance(function, FunctionType) or function in functions:
                continue
            functions.add(function)
            HANDLERS.setdefault(function, []).append((kind, handler))
            if needs_stub(function, name):
                _stubbed.setdefault(function, []).append((kind, handler))
    STUBS.permanent = True
    STUBS.renew()


def takes_registered_kind(args: tuple, kwargs: dict[str, Any]) -> bool:
    """Return whether an argument is a tensor of a registered kind, or a list with one."""
    if not _kinds or not kwargs and _DENSE.issuperset(map(type, args)):
        return False
    return any(kind.matches(args, kwargs) for kind in _kinds)


def _dispatch(
    function: FunctionType, original: Callable, args: tuple, kwargs: dict[str, Any]
) -> Any:
    """Dispatch a call to the handler of the first kind among its arguments.

    Checks the argument types first, which settles most calls in a third of the time.
    """
    if not kwargs and _DENSE.issuperset(map(type, args)):
        return original(*args)
    for kind, handler in _stubbed[function]:
        if kind.matches(args, kwargs):
            return handler(*args, **kwargs)
    return original(*args, **kwargs)


def find_handler(
    function: Any, args: tuple, kwargs: dict[str, Any]
) -> tuple[str, Callable[[tuple, dict[str, Any]], Any]] | None:
    """Return (name of the kind, handler taking (args, kwargs)) for a call, or None."""
    for kind, handler in HANDLERS.get(function, ()):
        if kind.matches(args, kwargs):
            return kind.name, lambda args, kwargs, chosen=handler: chosen(*args, **kwargs)
    return None
