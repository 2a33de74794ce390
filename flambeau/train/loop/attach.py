"""Attach callbacks: generator functions, and objects with methods named after events."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any

from ..events.generators import is_generator_callback
from ..events.handlers import Handle, Handlers
from ..events.other_libraries import METHODS
from ..events.scope import run as run_scope
from ..events.suggestions import suggest
from ..state.persisted_state import Persistence


def as_list(callbacks: Any) -> list[Any]:
    """Return callbacks as a list. Raises TypeError for a single callback."""
    if callbacks is None or callable(callbacks) or not isinstance(callbacks, Iterable):
        raise TypeError("callbacks must be a list of callbacks, got "
                        f"{_name_callback(callbacks)}: [...]")
    if isinstance(callbacks, types.GeneratorType):
        raise TypeError("callbacks must be a list of callbacks, got a generator")
    return list(callbacks)


def _name_callback(callback: Any) -> str:
    return getattr(callback, "__qualname__", type(callback).__qualname__)


def use(handlers: Handlers, persistence: Persistence, callback: Any) -> Handle:
    """Attach a callback of any kind; restore its state if it persists one.

    Raises ValueError for a method `on_...` that names no event, and for a second callback that
    persists under the same name; TypeError for an object that is no callback.
    """
    if isinstance(callback, type):
        raise TypeError(f"{callback.__name__} is a class: use {callback.__name__}(...)")
    if isinstance(callback, types.GeneratorType):
        title = callback.__qualname__
        raise TypeError(
            f"give the generator function {title} itself, not what {title}(...) returns"
        )
    handle = handlers.add_handle(callback)
    try:
        name = persistence.declare(callback, handle)
        if name is not None:
            handle.undo.append(lambda: persistence.release(name, handle))
        if is_generator_callback(callback):
            scope = getattr(callback, "scope", run_scope)
            handlers.attach(scope, callback, handle=handle)
        else:
            _attach_methods(handlers, callback, handle)
        monitored = getattr(callback, "monitor", None)
        if isinstance(monitored, str):
            handlers.run.monitor(monitored)
            handle.undo.append(lambda: handlers.run.monitored.remove(monitored))
    except BaseException:
        handle.detach()
        raise
    return handle


def _attach_methods(handlers: Handlers, callback: Any, handle: Handle) -> None:
    methods = [name for name in dir(callback) if name.startswith("on_")]
    methods = [name for name in methods if callable(getattr(callback, name, None))]
    if not methods:
        if (proper_use := _explain_where_it_belongs(callback)) is not None:
            raise TypeError(f"{handle.title} is {proper_use}")
        if callable(callback):
            raise TypeError(
                f"{handle.title} is a function without an event: attach it with "
                "run.on(epoch.end)(function), or make it a generator callback"
            )
        raise TypeError(f"{handle.title} is not a callback: it has no method such as on_epoch_end")
    for name in methods:
        if name not in METHODS:
            raise ValueError(f"{handle.title}.{name} names no event{suggest(name, METHODS)}")
        event, counter = METHODS[name]
        method = getattr(callback, name)
        if _does_nothing(method):
            continue
        band = getattr(method, "band", getattr(callback, "band", None))
        handlers.attach(event, method, band, number=counter, handle=handle)


def _explain_where_it_belongs(target: Any) -> str | None:
    """Explain an object that is no callback but belongs elsewhere in a trainer."""
    if all(hasattr(target, name) for name in ("update", "compute", "reset")):
        return "a metric: Trainer(..., metrics=[...]) takes it"
    if hasattr(target, "get_last_lr"):
        return "a scheduler: Schedule(...) steps it, flambeau.train.Schedule"
    return None


def _does_nothing(method: Any) -> bool:
    """Whether the body is `pass`. Base classes define such a method for every event, and listening
    to forward or backward has a cost."""
    code = getattr(method, "__code__", None)
    if not isinstance(code, types.CodeType) or code.co_names or code.co_freevars:
        return False
    return len(code.co_code) == len(_EMPTY_CODE.co_code)


_EMPTY_CODE = (lambda: None).__code__
