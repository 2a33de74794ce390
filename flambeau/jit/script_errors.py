"""Convert errors at the boundary of scripted code, as PyTorch's interpreter reports them.

Exceptions that the program raises become torch.jit.Error, those of operations RuntimeError. The
text shows the source line of each scripted function on the way, with the operation underlined.
"""

from __future__ import annotations

import ast
import itertools
import opcode
import re
from types import CodeType, TracebackType
from typing import Any

from .checking.source import Source, read_source_of_code
from .python_code import PYTHON_CODE
from .torchscript.runtime import ScriptError

__all__ = ["convert_error"]

_RAISE = opcode.opmap["RAISE_VARARGS"]
_FAILED = "The following operation failed in the TorchScript interpreter.\n"


def convert_error(error: Exception) -> Exception:
    """Return the error that PyTorch's interpreter would raise; it may be `error` itself."""
    if isinstance(error, (ScriptError, NotImplementedError)) and _is_raised_by_operator(
            error.__traceback__):
        return error
    frames = _describe_frames(error)
    text = "".join([_FAILED, "Traceback of TorchScript (most recent call last):\n", *frames]) \
        if frames else _FAILED
    if _comes_from_python(error.__traceback__):
        result: Exception = RuntimeError(f"{text}{type(error).__name__}: {error}\n")
    elif _is_raised_by_program(error):
        result = ScriptError(f"{text}{_describe_raised(error)}\n")
    else:
        result = RuntimeError(f"{text}RuntimeError: {_describe_failure(error)}\n")
    for note in getattr(error, "__notes__", ()):
        result.add_note(note)
    return result


def _describe_raised(error: Exception) -> str:
    """Return the last line for an error that the program raised."""
    if isinstance(error, AssertionError):
        return f"RuntimeError: AssertionError: {error}"
    kind = type(error)
    text = error.args[0] if isinstance(error, KeyError) and error.args else error  # no quotes
    return f"{kind.__module__}.{kind.__name__}: {text}"


_CONTAINER_FAILURES = (
    (r".*list index out of range|list assignment index out of range", "list index out of range"),
    (r"pop from empty list", "pop from empty list"),
    (r"(.+) is not in list", r"'\1' is not in list"),
    (r"not enough arguments for format string", "Too few arguments for format string"),
    (r"not all arguments converted during string formatting",
     "Too many arguments for format string"),
    (r"%(\w) format: a real number is required, not .*",
     r"%\1 requires a number for formatting, but got String"),
    (r"must be real number, not str", "%e requires a number for formatting, but got String"),
    (r"%c requires .*", "%c requires an int or char for formatting, but got String"),
    (r"unsupported format character '(\w)'.*",
     r"The specifier %\1 is not supported in TorchScript format strings"),
    (r"incomplete format", "Incomplete format specifier"),
)


def _describe_failure(error: Exception) -> str:
    """Return what PyTorch says about an operation that failed."""
    if isinstance(error, ZeroDivisionError):
        return "division by 0"
    if isinstance(error, KeyError):
        return f"KeyError: {error}"
    for pattern, text in _CONTAINER_FAILURES:
        if matched := re.fullmatch(pattern, str(error)):
            return matched.expand(text)
    return f"{error}"


def _describe_frames(error: Exception) -> list[str]:
    """Return the source excerpts of the scripted functions that the error passed through."""
    rows = []
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        source = None if _is_library(traceback) else read_source_of_code(code)
        node = None if source is None else _find_failing_node(source, code, traceback.tb_lasti)
        if source is not None and node is not None:
            rows.append(source.excerpt(node, function=code.co_name))
        traceback = traceback.tb_next
    return rows


def _find_failing_node(source: Source, code: CodeType, offset: int) -> ast.AST | None:
    """Return the smallest part of a function that an instruction belongs to."""
    start, end, column, end_column = next(
        itertools.islice(code.co_positions(), offset // 2, None), (None,) * 4)
    if start is None or end is None or column is None or end_column is None:
        return None
    shift, margin = source.first_line - 1, len(source.margin)
    place = (start - shift, column - margin, end - shift, end_column - margin)
    best: Any = None
    for node in ast.walk(source.tree):
        if isinstance(node, (ast.expr, ast.stmt)) and _is_covering(node, place):
            best = node  # the walk goes from the outside in
    if isinstance(best, ast.Call):
        return best.func
    statement = next((s for s in ast.walk(source.tree)
                      if isinstance(s, ast.Assert) and _is_covering(s, place)), None)
    return statement or best


def _is_covering(node: Any, place: tuple[int, int, int, int]) -> bool:
    return bool((node.lineno, node.col_offset) <= place[:2]
                and place[2:] <= (node.end_lineno, node.end_col_offset))


def _find_last(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback


def _is_raised_by_program(error: Exception) -> bool:
    """Return whether an assert or raise statement raised the error, rather than an operation."""
    last = _find_last(error.__traceback__)
    if last is None or isinstance(error, AssertionError):
        return last is not None
    if _is_library(last):  # nn.functional is scripted, in PyTorch, and raises ValueError
        return isinstance(error, ValueError)
    return last.tb_frame.f_code.co_code[last.tb_lasti] == _RAISE


def _comes_from_python(traceback: TracebackType | None) -> bool:
    """Return whether the error comes from a function that stays Python (`torch.jit.ignore`)."""
    while traceback is not None:
        if traceback.tb_frame.f_code in PYTHON_CODE:
            return True
        traceback = traceback.tb_next
    return False


def _is_raised_by_operator(traceback: TracebackType | None) -> bool:
    """Return whether the library raised the error, rather than the program."""
    last = _find_last(traceback)
    return last is not None and _is_library(last)


def _is_library(traceback: TracebackType) -> bool:
    frame = traceback.tb_frame
    return (frame.f_code.co_filename.startswith("<flambeau operator")
            or frame.f_globals.get("__name__", "").partition(".")[0] == "flambeau")
