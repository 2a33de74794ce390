"""Generated source: compile it, show it in tracebacks and debuggers, and rebuild its imports."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

from .namespace import custom_builtins
from .qualified_names import import_of_torch, is_from_torch

__all__ = ["exec_with_source", "forward_of", "import_block"]


class _Sources:
    """A loader through which linecache finds the source of generated functions."""

    def __init__(self) -> None:
        self.eval_cache: dict[str, str] = {}
        self.next_id = 0

    def cache(self, src: str, globals_: dict[str, Any], fields: dict[str, Any] | None) -> str:
        """Store a source and return its file name."""
        key = f"<eval_with_key>.{self.next_id}"
        self.next_id += 1
        if fields:
            key += f" from {fields['co_filename']}:{fields['co_firstlineno']} in " \
                   f"{fields['co_name']}"
        self.eval_cache[key] = src
        linecache.lazycache(
            key, {**globals_, "__file__": key, "__name__": key, "__loader__": self}
        )
        return key

    def get_source(self, module_name: str) -> str | None:
        """Return the source stored under this file name."""
        return self.eval_cache.get(module_name)


_loader = _Sources()


def exec_with_source(
    src: str, globals_: dict[str, Any], co_fields: dict[str, Any] | None = None
) -> None:
    """Execute source code so that tracebacks can show it."""
    key = _loader.cache(src, globals_, co_fields)
    exec(compile(src, key, "exec", dont_inherit=True), globals_)


def forward_of(
    src: str, globals_: dict[str, Any], co_fields: dict[str, Any] | None = None,
    name: str = "forward",
) -> Callable[..., Any]:
    """Execute the source and return the function `name` that it defines."""
    space = globals_.copy()
    exec_with_source(src, space, co_fields)
    return space.pop(name)


def _import_statement(name: str, obj: Any) -> str:
    builtin = custom_builtins().get(name)
    if builtin is not None:
        return builtin.import_str
    if is_from_torch(obj):
        return import_of_torch()
    home, attribute = obj.__module__, getattr(obj, "__qualname__", None) or obj.__name__
    outer, _, inner = attribute.partition(".")
    if not inner:
        return f"from {home} import {attribute} as {name}"
    return f"from {home} import {outer}; {name} = {attribute}"


def import_block(globals_: dict[str, Any]) -> str:
    """Return the import statements for a source's globals, sorted."""
    return "\n".join(sorted({_import_statement(name, obj) for name, obj in globals_.items()}))
