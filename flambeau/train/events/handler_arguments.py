"""How a handler is called: with nothing, with the run, with its logs, or with (n, logs)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

_NUMBERS = frozenset(
    ("n", "number", "epoch", "epoch_number", "batch", "batch_number", "step", "step_number")
)
_RUN = frozenset(("run", "trainer", "engine", "loop"))
_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def form_of(function: Callable[..., Any]) -> str:
    """One of "", "run", "logs", "n", "n logs", "run logs".

    A single parameter is the run, unless its name is `logs` or that of a number (`n`, `epoch`,
    `batch_number`, ...). Of two, the first is the number, unless it is called `run`. Parameters
    with defaults get no argument, except `logs=None`. Raises TypeError for more than two.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin without a signature
        return "run"
    names = [
        p.name for p in parameters
        if p.kind in _BY_POSITION and (p.default is p.empty or p.name == "logs")
    ]
    required = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if len(names) > 2 or required:
        raise TypeError(
            f"a handler takes (), (run) or (n, logs), but {getattr(function, '__name__', function)}"
            f" takes {inspect.signature(function)}"
        )
    if not names:
        takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        return "run" if takes_any else ""
    if len(names) == 2:
        return "run logs" if names[0] in _RUN else "n logs"
    return "logs" if names[0] == "logs" else "n" if names[0] in _NUMBERS else "run"


def bind(
    function: Callable[..., Any], run: Any, counter: str | None = None
) -> Callable[[int], Any]:
    """Adapt `function` to take the event's number alone. `counter` names the state attribute to
    pass instead of the event's own number."""
    form = form_of(function)
    if form == "":
        return lambda n: function()
    if form == "run":
        return lambda n: function(run)
    if form == "logs":
        return lambda n: function(run.logs)
    if form == "run logs":
        return lambda n: function(run, run.logs)
    if counter is not None:
        state = run.state
        if form == "n":
            return lambda n: function(getattr(state, counter))
        return lambda n: function(getattr(state, counter), run.logs)
    if form == "n":
        return function
    return lambda n: function(n, run.logs)


def step_of(function: Callable[..., Any], run: Any) -> Callable[[Any], Any]:
    """Adapt a step that takes (batch) or (run, batch) to take the batch alone."""
    if not callable(function):
        raise TypeError(f"a step is a function (run, batch) or (batch), got {function!r}")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return function
    required = [p for p in parameters if p.kind in _BY_POSITION and p.default is p.empty]
    if len(required) == 1:
        return function
    if len(required) == 2:
        return functools.partial(function, run)
    raise TypeError(
        f"a step takes (run, batch) or (batch), but {getattr(function, '__name__', function)} "
        f"takes {inspect.signature(function)}"
    )
