"""Notes on errors about a wrong keyword or name: which one was probably meant.

The call is found in the source of the frame that made it, so functions need no checks.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import re
from collections.abc import Iterable
from types import FrameType, TracebackType
from typing import Any

_KEYWORD = re.compile(r"\(\) got an unexpected keyword argument '(?P<name>\w+)'")


def find_nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to `name`, or None."""
    import difflib  # slow to import, and only needed after an error

    folded = {candidate.lower(): candidate for candidate in known if candidate != name}
    result = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    return folded[result[0]] if result else None


def _find_abbreviation(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is the initials of a longer one, as lr of learning_rate."""
    initials = "".join(word[0] for word in name.lower().split("_") if word)
    return initials if len(initials) > 1 and initials in known else None


def advise(error: BaseException, trace: TracebackType | None, attributes: bool = True) -> None:
    """Add a note to an error about an unknown keyword or attribute: the name probably meant.

    Without `attributes`, only for attributes of modules; Python itself suggests the others.
    """
    if getattr(error, "__notes__", None):
        return
    if isinstance(error, AttributeError):
        if inspect.ismodule(error.obj) or (attributes and error.obj is not None):
            suggestion = find_nearest_name(error.name or "", dir(error.obj))
            if suggestion is not None:
                error.add_note(f"Did you mean {suggestion!r}?")
        return
    result = _KEYWORD.search(str(error)) if isinstance(error, TypeError) else None
    if result is None or trace is None:
        return
    name = result["name"]
    for frame, line in reversed(_list_frames(trace)):
        for function in _find_called(frame, line, name):
            keywords = _list_keywords(function)
            suggestion = find_nearest_name(name, keywords) or _find_abbreviation(name, keywords)
            if suggestion is not None:
                error.add_note(f"Did you mean {suggestion!r}?")
                return


def _list_frames(trace: TracebackType) -> list[tuple[FrameType, int]]:
    frames = []
    link: TracebackType | None = trace
    while link is not None:
        frames.append((link.tb_frame, link.tb_lineno))
        link = link.tb_next
    return frames


def _find_called(frame: FrameType, line: int, keyword: str) -> list[Any]:
    """Return the functions that a line calls with a keyword."""
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
        return []
    functions = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or 0) \
                and any(k.arg == keyword for k in node.keywords):
            function = look_up(node.func, frame)
            if function is not None:
                functions.append(function)
    return functions


def look_up(node: ast.expr, frame: FrameType) -> Any:
    """Return the value of a dotted name. Runs no user code: properties are skipped."""
    if isinstance(node, ast.Name):
        for names in (frame.f_locals, frame.f_globals, frame.f_builtins):
            if node.id in names:
                return names[node.id]
        return None
    if isinstance(node, ast.Attribute):
        owner = look_up(node.value, frame)
        if owner is None:
            return None
        if inspect.ismodule(owner):
            return getattr(owner, node.attr, None)
        result = inspect.getattr_static(owner, node.attr, None)
        return getattr(result, "__func__", result)
    return None


def _list_keywords(function: Any) -> list[str]:
    """Return the parameters of a function, or of all constructors of a class."""
    functions = [function]
    if isinstance(function, type):
        members = [vars(kind) for kind in function.__mro__]
        functions = [names["__init__"] for names in members if "__init__" in names]
    names = []
    for each in functions:
        try:
            parameters = inspect.signature(each).parameters.values()
        except (TypeError, ValueError):
            continue
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        names += [p.name for p in parameters if p.kind in kinds and p.name != "self"]
    return names
