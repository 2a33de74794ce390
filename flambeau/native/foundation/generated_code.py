"""Generated code whose source tracebacks, pdb and inspect can show, as for a file."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any


def define(source: str, file: str, names: dict[str, Any]) -> None:
    """Run generated source in the namespace `names`, as a file named `<flambeau ...>`.

    The name marks the code as flambeau's; new source under the same name replaces the old.
    """
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), names)


class SourceBuilder:
    """Builds a function's source: its lines, and the values that they name."""

    def __init__(self, names: dict[str, Any] | None = None) -> None:
        self.names: dict[str, Any] = {} if names is None else names
        self.lines: list[str] = []

    def name(self, value: Any, prefix: str = "v") -> str:
        """Return a new name by which the source can refer to a value."""
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def add(self, *lines: str, depth: int = 1) -> None:
        """Append statements, indented `depth` levels."""
        self.lines += ["    " * depth + line for line in lines]

    def define(self, head: str, file: str) -> tuple[str, Callable[..., Any]]:
        """Compile `def head:` with the lines so far; return the source and the function. The names
        do not contain it: a cycle would keep what they name alive until garbage is collected."""
        source = "\n".join([f"def {head}:", *self.lines, ""])
        define(source, file, self.names)
        return source, self.names.pop(head.partition("(")[0])
