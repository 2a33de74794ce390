"""Queries on the user's source: silencing comments, loops, statements, assignments."""

from __future__ import annotations

import ast
import functools
import linecache
import math
import re
from collections.abc import Iterator
from itertools import islice
from types import CodeType, FrameType
from typing import Any

import numpy as np

from ..native.foundation.user_frames import is_internal
from .places import Spot

_SILENCED = re.compile(r"#\s*doctor:\s*ok\b([^#]*)")


def read_silenced_ids(file: str, line: int) -> set[str]:
    """Return the ids in a `# doctor: ok ID` comment on a line or on a comment line above it, or
    `*` if the comment names none."""
    ids: set[str] = set()
    previous = linecache.getline(file, line - 1).strip()
    for comment in (linecache.getline(file, line), previous if previous.startswith("#") else ""):
        match = _SILENCED.search(comment)
        if match:
            ids |= set(re.split(r"[\s,]+", match[1].strip())) if match[1].strip() else {"*"}
    return ids


@functools.lru_cache(maxsize=64)
def parse_file(file: str) -> ast.Module | None:
    """Return a file's syntax tree, or None if its source does not parse."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return None


def find_statements(file: str, line: int) -> Iterator[ast.stmt]:
    """Yield the statements that cover a line, outermost first."""
    tree = parse_file(file)
    if tree is None:
        return
    body: list[ast.stmt] = [
        node for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    yield from sorted(body, key=lambda node: (node.lineno, -(node.end_lineno or 0)))


@functools.lru_cache(maxsize=512)
def is_statement(spot: Spot | None) -> bool:
    """Return whether a call is an expression statement, whose result is discarded."""
    if spot is None:
        return False
    code, offset = spot
    line, end, column, last = next(islice(code.co_positions(), offset // 2, None))
    if line is None:
        return False
    return any(
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        and (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)
        == (line, end, column, last)
        for node in find_statements(code.co_filename, line)
    )


def find_loops(file: str, line: int) -> list[ast.For | ast.While]:
    """Return the loops around a line within its function, outermost first."""
    loops: list[ast.For | ast.While] = []
    for node in find_statements(file, line):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            loops.clear()
        elif isinstance(node, (ast.For, ast.While)) and line > node.lineno:
            loops.append(node)
    return loops


@functools.lru_cache(maxsize=64)
def list_plain_assignments(file: str) -> tuple[tuple[int, str, str], ...]:
    """Return assignments of one name or attribute of self to another: (line, target, value)."""
    tree = parse_file(file)
    result = []
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Assign) and _is_name(node.value):
            result += [(node.lineno, ast.unparse(target), ast.unparse(node.value))
                       for target in node.targets if _is_name(target)]
    return tuple(result)


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) or isinstance(node, ast.Attribute) \
        and isinstance(node.value, ast.Name) and node.value.id == "self"


def read_variable(name: str, frame: FrameType) -> Any:
    """Return the value of a name or an attribute of self in a frame, or None if unset."""
    if name.startswith("self."):
        return getattr(frame.f_locals.get("self"), "__dict__", {}).get(name[5:])
    return frame.f_locals.get(name, frame.f_globals.get(name))


def find_running_loops(frame: FrameType | None) -> set[tuple[str, int]]:
    """Return (file, line) of each loop that a frame and its callers are in."""
    loops = set()
    while frame is not None:
        if not is_internal(frame.f_code):
            file = frame.f_code.co_filename
            loops |= {(file, loop.lineno) for loop in find_loops(file, frame.f_lineno)}
        frame = frame.f_back
    return loops


def find_body(file: str, code: CodeType) -> ast.AST | None:
    """Return the syntax tree of a code object's function, or the module's for module code."""
    tree = parse_file(file)
    if tree is None or code.co_name == "<module>":
        return tree
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
            name = getattr(node, "name", "<lambda>")
            if name == code.co_name and first <= code.co_firstlineno <= node.lineno:
                return node
    return None


def find_assignment(target: Any, frame: FrameType | None) -> tuple[str, int] | None:
    """Return (file, line) of the statement that assigned an object to a variable of a frame or its
    callers. If a name is assigned several times, take the last one above the running line."""
    while frame is not None:
        if not is_internal(frame.f_code):
            for space in (frame.f_locals, frame.f_globals):
                names = [name for name, value in list(space.items()) if value is target]
                line = _find_last_assignment(*_find_scope(space, frame), names)
                if line:
                    return frame.f_code.co_filename, line
        frame = frame.f_back
    return None


def _contains_rows(x: Any, array: np.ndarray) -> bool:
    """Whether a tensor shares an array's memory, and has its columns and dtype."""
    rows = getattr(x, "_array", None)
    return (isinstance(rows, np.ndarray) and rows.shape[1:] == array.shape[1:]
            and rows.dtype == array.dtype and np.may_share_memory(rows, array)
            and np.shares_memory(rows[:1], rows))


def find_table(
    array: np.ndarray, frame: FrameType | None, latest: bool = False,
) -> tuple[str, int] | None:
    """Return (file, line) of the statement that built the table containing an array of rows: the
    first assignment (or last, if `latest`) of a variable in the running frames that shares the
    array's memory and has its columns and dtype."""
    while frame is not None:
        if not is_internal(frame.f_code):
            variables = [*frame.f_locals.values(), *frame.f_globals.values()]
            candidates = [find_assignment(x, frame) for x in variables if _contains_rows(x, array)]
            lines = [assigned for assigned in candidates if assigned is not None]
            if lines:
                return (max if latest else min)(lines, key=lambda assigned: assigned[1])
        frame = frame.f_back
    return None


def _find_scope(space: dict[str, Any], frame: FrameType) -> tuple[ast.AST | None, float]:
    """Return the body that assigns a frame's variables, and the line up to which it has run."""
    file, code = frame.f_code.co_filename, frame.f_code
    if space is not frame.f_globals:
        return find_body(file, code), frame.f_lineno
    return parse_file(file), frame.f_lineno if code.co_name == "<module>" else math.inf


def _find_last_assignment(body: ast.AST | None, running_line: float, names: list[str]) -> int:
    """Return the last line up to `running_line` that assigns one of the names in a body; if there
    is none, the last line that does, or 0."""
    lines = [
        statement.lineno for statement in _iterate_own_statements(body)
        for target in _list_targets(statement) for node in ast.walk(target)
        if isinstance(node, ast.Name) and node.id in names
    ]
    return max([line for line in lines if line <= running_line], default=max(lines, default=0))


def _iterate_own_statements(body: ast.AST | None) -> Iterator[ast.stmt]:
    """Yield the statements of a function or module, excluding those of nested functions."""
    for node in ast.iter_child_nodes(body) if body is not None else ():
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            yield from _iterate_own_statements(node)


def _list_targets(statement: ast.stmt) -> list[ast.expr]:
    if isinstance(statement, ast.Assign):
        return statement.targets
    return [statement.target] if isinstance(statement, (ast.AnnAssign, ast.AugAssign)) else []
