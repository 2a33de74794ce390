"""torch.compiler: programs run as they are written, operator by operator; nothing is compiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "disable", "is_compiling",
    "is_dynamo_compiling", "is_exporting", "list_backends", "reset",
]  # fmt: skip

_warned = False


def compile(
    model: Callable[..., Any] | None = None, *, fullgraph: bool = False,
    dynamic: bool | None = None, backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None, options: dict[str, Any] | None = None, disable: bool = False,
) -> Any:  # fmt: skip
    """The function or module as it is, with a warning, once: it runs, but not faster."""
    global _warned
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified "
                           "at the same time.")  # fmt: skip
    if model is None:
        return lambda function: compile(
            function, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
            options=options, disable=disable,
        )  # fmt: skip
    if not callable(model):
        raise RuntimeError(f"torch.compile expects a callable, got {type(model).__name__}")
    if not _warned and not disable:
        _warned = True
        warnings.warn(
            "torch.compile: flambeau does not compile; the model runs as it is",
            UserWarning,
            stacklevel=2,
        )
    return model


def is_compiling() -> bool:
    """False."""
    return False


def is_dynamo_compiling() -> bool:
    """False."""
    return False


def is_exporting() -> bool:
    """False."""
    return False


def disable(
    fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None
) -> Any:
    """The function as it is: nothing is compiled."""
    return fn if fn is not None else lambda function: function


def allow_in_graph(fn: Any) -> Any:
    """The function as it is."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """The function as it is."""
    return fn


def reset() -> None:
    """Accepted: there is nothing to forget."""


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """None."""
    return []
