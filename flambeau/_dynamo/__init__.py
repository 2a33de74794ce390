"""torch._dynamo: the part of PyTorch's compiler interface that applies to flambeau.

Settings are accepted without effect: flambeau.compile has no such choices to make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from ..compiler import allow_in_graph, disable, is_compiling, reset
from . import config
from .explanation import explain

__all__ = [
    "allow_in_graph", "assume_constant_result", "config", "disable", "explain", "graph_break",
    "is_compiling", "is_dynamo_supported", "is_inductor_supported", "list_backends",
    "mark_dynamic", "mark_static", "mark_static_address", "maybe_mark_dynamic", "reset",
]


def mark_dynamic(t: Any, index: Any, **options: Any) -> None:
    """No-op: flambeau.compile(dynamic=True) keeps programs for several shapes."""


maybe_mark_dynamic = mark_dynamic


def mark_static(t: Any, index: Any = None) -> None:
    """No-op: programs are specialized to their shapes."""


def mark_static_address(t: Any, guard: bool = True) -> None:
    """No-op: programs look up tensor addresses on each call."""


def assume_constant_result(fn: Callable) -> Callable:
    """Return `fn`: its result is guarded like everything else that a step reads."""
    return fn


def graph_break(msg: str = "") -> None:
    """No-op: a step is one program, or stays eager."""


def is_dynamo_supported() -> bool:
    """True: flambeau.compile runs on every Python that flambeau runs on."""
    return True


is_inductor_supported = is_dynamo_supported


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """Return backend names for `torch.compile(backend=...)`; flambeau has one compiler.

    >>> from flambeau import _dynamo
    >>> _dynamo.list_backends()
    ['inductor']
    """
    return ["inductor"]


def __getattr__(name: str) -> Any:
    if name in ("eval_frame", "exc", "utils"):
        return import_module(f"{__name__}.{name}")
    if name == "OptimizedModule":
        return import_module(f"{__name__}.eval_frame").OptimizedModule
    raise AttributeError(f"module 'torch._dynamo' has no attribute '{name}'")
