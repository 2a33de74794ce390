"""A function's source: its tree, and excerpts that mark a node as PyTorch's errors do."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

__all__ = ["Source", "is_library", "read_source", "read_source_of_code"]

_LINES_BEFORE, _LINES_AFTER = 2, 2


def is_library(defined: Any) -> bool:
    """Return whether a class or function is the library's own; some say that they are torch's."""
    return (defined.__module__ or "").partition(".")[0] in ("flambeau", "torch")


@dataclass(frozen=True)
class Source:
    """The text of one function; `tree` has the text's line numbers."""

    file: str
    first_line: int
    lines: tuple[str, ...]
    tree: ast.FunctionDef
    margin: str = ""  # of the function in its file; `lines` and `tree` lack it

    def excerpt(self, node: ast.AST, width: int | None = None, function: str = "") -> str:
        """Return the lines around a node, with it underlined, or its first `width` columns.

        The first line names the file, and the function if one is passed.
        """
        start, column, end, end_column = _find_range(node)
        if width is not None:
            end, end_column = start, column + width
        rows = []
        for number in range(max(1, start - _LINES_BEFORE),
                            min(len(self.lines), end + _LINES_AFTER) + 1):
            line = self.lines[number - 1].rstrip()
            rows.append(line)
            if start <= number <= end:
                left = column if number == start else len(line) - len(line.lstrip())
                right = end_column if number == end else len(line)
                arrow = " <--- HERE" if number == end else ""
                rows.append(" " * left + "~" * max(1, right - left) + arrow)
        inside = f", in {function}" if function else ""
        place = f'  File "{self.file}", line {self.first_line + start - 1}{inside}\n'
        return place + textwrap.indent("\n".join(rows), self.margin) + "\n"


def _find_range(node: ast.AST) -> tuple[int, int, int, int]:
    """Return the first and last line and column; a call ends at its last argument."""
    first: Any = node
    last = first
    if isinstance(node, ast.Call):
        parts: list[Any] = [node.func, *node.args, *(k.value for k in node.keywords)]
        last = max(parts, key=lambda part: (part.end_lineno, part.end_col_offset))
    return first.lineno, first.col_offset, last.end_lineno, last.end_col_offset


def read_source(function: Any) -> Source | None:
    """Return a function's source, or None if there is none to read."""
    code = None if function is None else getattr(inspect.unwrap(function), "__code__", None)
    return None if code is None else _read(code)


def read_source_of_code(code: Any) -> Source | None:
    """Return the source of a function's code object, or None if there is none to read."""
    return _read(code)


@lru_cache(maxsize=4096)
def _read(code: Any) -> Source | None:
    try:
        lines, first_line = inspect.getsourcelines(code)
        text = textwrap.dedent("".join(lines))
        try:
            tree = ast.parse(text, type_comments=True)
        except SyntaxError:  # a comment that only looks like a type
            tree = ast.parse(text)
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        return None
    first = text.splitlines()[0]
    margin = lines[0].rstrip("\n")[: len(lines[0].rstrip("\n")) - len(first)]
    return Source(code.co_filename, first_line, tuple(text.splitlines()), tree.body[0], margin)
