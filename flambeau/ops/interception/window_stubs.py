"""Functions that would not notice an argument whose window is no dense array: a sparse or a
quantized tensor. They wear stubs from the first such tensor on.

`ops/sparse` and `ops/quantized` fill this in; a compiler's capture takes the stubs off and asks
`handler_for` instead.
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
    """A kind of tensors: what a refusal calls them, and whether a call has one as an argument."""

    name: str
    looks: Callable[[tuple, dict[str, Any]], bool]


Handlers = list[tuple[Kind, Callable]]

# Types of arguments that are of no kind, and hold nothing that is.
_DENSE = frozenset((Tensor, Size, bool, int, float, complex, str, type(None), dtype))

HANDLERS: dict[FunctionType, Handlers] = {}  # of all functions, for a capture
_worn: dict[FunctionType, Handlers] = {}  # of functions that are stubbed
STUBS = StubSet(lambda: {function: (_look, function) for function in _worn}, is_by_kind=False)


def register(function: FunctionType, kind: Kind, handler: Callable, wear: bool) -> None:
    """Hand a function's calls with tensors of a kind to `handler`: those of a capture, and with
    `wear` all, from `wear_registered` on."""
    for handlers in (HANDLERS, _worn) if wear else (HANDLERS,):
        handlers.setdefault(function, []).append((kind, handler))


def wear_registered() -> None:
    """Put on the stubs of functions that were registered since the last time too."""
    STUBS.permanent = True
    STUBS.renew()


def _look(
    function: FunctionType, original: Callable, args: tuple, kwargs: dict[str, Any]
) -> Any:
    """A call: the affair of the first kind that it has among its arguments.

    Looking at types alone, which settles most calls, takes a third of the time of `looks`.
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
    """The kind that a call has among its arguments, and what it goes to, of (args, kwargs)."""
    for kind, handler in HANDLERS.get(function, ()):
        if kind.looks(args, kwargs):
            return kind.name, lambda args, kwargs, chosen=handler: chosen(*args, **kwargs)
    return None
