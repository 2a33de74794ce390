"""Precedent: a recorded call that did what two calls of an earlier process agreed on.

One recording does not show what changes from call to call; two do. That two of them agreed is kept
on disk, under all that they were compared by and the files whose code ran: the next process records
one call. Its program is checked against that call like any other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np

from ..native import cache
from ..optim import Optimizer
from ..tensor.devices import device
from ..tensor.dtypes import dtype
from ..tensor.generator import Generator
from ..tensor.layout import layout, memory_format
from .counted import Counted
from .table import compiler_sources
from .trace import CONSTANT, Event, Storage, Trace, Value

_VERSION = "1"
_SINGLE = (type(None), type(Ellipsis), bool, int, float, complex, str, bytes)
_SHOWN = (np.dtype, dtype, device, layout, memory_format)  # which repr says all about


class _Unnamed(Exception):
    """Something that has no name which holds in another process."""


def precedent(trace: Trace, function: Callable, options: dict[str, Any]) -> str | None:
    """The key under which it is kept that calls like this one agreed; None for those without one.

    To be asked for before the trace is stripped.
    """
    sources = compiler_sources()
    if sources is None or trace.problems or trace.backward is not None:
        return None
    try:
        starts = {one.number: one.start for one in trace.storages}
        files = {event.line.rpartition(":")[0] for event in trace.events if event.line}
        files.add(_file_of(function))
        lines = [
            f"{trace.modes} {options['random']} {options['backend']}",
            _text(tuple(trace.plain), starts),
            *(f"{name} {_contents(name)}" for name in sorted(files)),
            *(_storage(one) for one in trace.storages),
            *(_event(event, starts) for event in trace.events),
            *(f"effect {one.name} {_text(one.key, starts)}" for one in trace.effects),
            *(f"call {one.line} {one.updates}" for one in trace.host_calls),
        ]
    except (_Unnamed, OSError):
        return None
    return cache.key("precedent", _VERSION, sources, "\n".join(lines))


def is_kept(key: str | None) -> bool:
    """Whether two calls agreed in an earlier process."""
    return key is not None and cache.get(key) is not None


def is_hoped_for(function: Callable) -> bool:
    """Whether some call of such a function has a precedent: it takes little time to ask."""
    return is_kept(_hope(function))


def keep(key: str | None, function: Callable) -> None:
    """Two calls of the function agreed, and their program was right."""
    hope = _hope(function)
    if key is not None and hope is not None:
        cache.put(key, b"agreed")
        cache.put(hope, b"some")


def _hope(function: Callable) -> str | None:
    sources = compiler_sources()
    try:
        name = _file_of(function)
        return None if sources is None else cache.key("hope", sources, name, _contents(name))
    except (_Unnamed, OSError):
        return None


def _file_of(function: Any) -> str:
    function = getattr(function, "__func__", getattr(function, "func", function))
    code = getattr(function, "__code__", None)
    if code is None:
        code = getattr(type(function).__call__, "__code__", None)
    if code is None:
        raise _Unnamed(function)
    return str(code.co_filename)


def _contents(name: str) -> str:
    with open(name, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def _storage(one: Storage) -> str:
    """What comparing looks at: memory of the call's own may be reused or not."""
    if not one.external:
        return "own"
    return f"{one.name} {one.whole.shape} {one.whole.strides} {one.whole.dtype}"


def _event(one: Event, starts: dict[int, int]) -> str:
    name = _function(one.function) if one.operator is None else one.operator.name
    parts = (one.args, one.kwargs, one.results, one.written)
    made = one.array if one.kind == CONSTANT else None
    return f"{one.kind} {name} {' '.join(_text(x, starts) for x in (*parts, made))}"


def _function(x: Any) -> str:
    if x is None:
        return ""
    if isinstance(x, Counted):
        return repr(x)
    name = getattr(x, "__qualname__", None)
    if name is None or "<lambda>" in name:
        raise _Unnamed(x)
    return f"{x.__module__}.{name}"


def _text(x: Any, starts: dict[int, int]) -> str:
    """A value as text, the same for what comparing takes for the same."""
    kind = x.__class__
    if kind is Value:
        at = x.offset - starts.get(x.storage, 0)
        return f"#{x.storage}+{at}{x.shape}{x.strides}{x.dtype}"
    if kind in _SINGLE:
        return repr(x)
    if isinstance(x, (tuple, list)):
        return f"{kind.__name__}({','.join([_text(one, starts) for one in x])})"
    if kind is dict:
        return f"dict({','.join(f'{_text(k, starts)}:{_text(v, starts)}' for k, v in x.items())})"
    if kind is slice:
        return f"slice{_text((x.start, x.stop, x.step), starts)}"
    if isinstance(x, Enum):
        return f"{kind.__name__}.{x.name}"
    if isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "biufcV":
        data = np.ascontiguousarray(x).tobytes()
        return f"{kind.__name__}{x.dtype}{x.shape}{hashlib.sha256(data).hexdigest()}"
    if isinstance(x, (Optimizer, Generator)):
        return kind.__qualname__
    if isinstance(x, _SHOWN):
        return repr(x)
    return _function(x)
