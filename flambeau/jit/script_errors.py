"""Convert errors at the boundary of scripted code, as PyTorch's interpreter reports them.

Exceptions from the program become torch.jit.Error, those from operators RuntimeError.
"""

from __future__ import annotations

import re
from types import TracebackType

from .torchscript.runtime import ScriptError

__all__ = ["convert_error"]

_LOOKUPS = (IndexError, KeyError)
_NAME = r"(?:.*\.)?(\w+\(\)) "
_MISMATCHES = (
    (_NAME + r"missing \d+ required .*?arguments?: '(\w+)'.*",
     r"\1 is missing value for argument '\2'."),
    (_NAME + r"takes (\d+) positional arguments? but (\d+) were given",
     r"\1 expected at most \2 argument(s) but received \3 argument(s)."),
    (_NAME + r"got an unexpected keyword argument '(\w+)'",
     r"Unknown keyword argument '\2' for operator '\1'."),
)


def convert_error(error: Exception) -> Exception:
    """Return the error that PyTorch's interpreter would raise; it may be `error` itself."""
    if isinstance(error, (ScriptError, NotImplementedError)):
        return error
    is_operators = _is_raised_by_operator(error.__traceback__)
    if is_operators and isinstance(error, TypeError) and (text := _describe_mismatch(str(error))):
        return RuntimeError(text)
    if is_operators and not isinstance(error, (AssertionError, *_LOOKUPS)):
        return error
    kind = RuntimeError if is_operators and isinstance(error, _LOOKUPS) else ScriptError
    name = "AssertionError" if isinstance(error, AssertionError) else type(error).__name__
    prefix = "RuntimeError: " if isinstance(error, AssertionError) else ""
    message = f"{error}" if kind is RuntimeError else f"{name}: {error}"
    return kind("The following operation failed in the TorchScript interpreter.\n"
                f"{prefix}{message}\n")


def _describe_mismatch(message: str) -> str:
    """Return PyTorch's text for a wrong argument count, or "" for other messages."""
    for pattern, text in _MISMATCHES:
        if matched := re.fullmatch(pattern, message):
            return matched.expand(text)
    return ""


def _is_raised_by_operator(traceback: TracebackType | None) -> bool:
    """Return whether the library raised the error, rather than the program."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return False
    frame = traceback.tb_frame
    return (frame.f_code.co_filename.startswith("<flambeau operator")
            or frame.f_globals.get("__name__", "").partition(".")[0] == "flambeau")
