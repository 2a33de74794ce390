"""Generated code: its source is known to tracebacks, pdb and inspect, as that of a file is."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any


def define(source: str, file: str, names: dict[str, Any]) -> None:
    """Run generated source in the namespace `names`, as a file that is called `<flambeau ...>`.

    The name marks it as flambeau's; a second source of that name takes the first one's place.
    """
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), names)


class SourceBuilder:
    """A function that is written out: its lines, and the values that these name."""

    def __init__(self, names: dict[str, Any] | None = None) -> None:
        self.names: dict[str, Any] = {} if names is None else names
        self.lines: list[str] = []

    def name(self, value: Any, prefix: str = "v") -> str:
        """A name by which the source refers to a value."""
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def add(self, *lines: str, depth: int = 1) -> None:
        """Append statements, as many levels deep."""
        self.lines += ["    " * depth + line for line in lines]

    def define(self, head: str, file: str) -> tuple[str, Callable[..., Any]]:
        """Write and compile `def head:` with the lines so far; the source, and the function."""
        source = "\n".join([f"def {head}:", *self.lines, ""])
        define(source, file, self.names)
        return source, self.names[head.partition("(")[0]]
