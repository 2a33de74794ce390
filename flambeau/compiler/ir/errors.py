"""Unfit: a step that cannot become a program, and why. CheckFailed: a run that must stop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Unfit(Exception):
    """A step that cannot become a program: the obstacle, and the source line."""

    def __init__(self, reason: str, line: str = "") -> None:
        super().__init__(reason)
        self.what, self.line = reason, line


class CheckFailed(Exception):
    """A run that stopped before writing anything, because a value failed a check.

    The eager call that replaces it reports the error.
    """


def describe_failure(error: BaseException, stage: str = "") -> str:
    """Return the message for an error during compilation: its stage (`stage` if the error carries
    none), type and text."""
    stage = getattr(error, "stage", None) or stage
    kind, words = type(error).__name__, str(error)
    if isinstance(error, MemoryError):  # NumPy raises a subclass; Python's has no message
        kind, words = "MemoryError", words or "there is none left for a small object"
    return "compiling failed" + (f" in {stage}" if stage else "") + f": {kind}: {words}"


@contextmanager
def catch_memory_errors(stage: str) -> Iterator[None]:
    """Turn a MemoryError inside into Unfit."""
    try:
        yield
    except MemoryError as error:
        raise Unfit(describe_failure(error, stage)) from error
