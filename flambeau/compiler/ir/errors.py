"""Unfit: a step that cannot be a program, and what the user is told of it. CheckFailed: a run that
cannot be one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Unfit(Exception):
    """A step that cannot be a program: what is in the way, and the line."""

    def __init__(self, what: str, line: str = "") -> None:
        super().__init__(what)
        self.what, self.line = what, line


class CheckFailed(Exception):
    """A run that stopped before it wrote anything, because a value is not what it must be. Eagerly
    the call says what is wrong."""


def describe_failure(error: BaseException, stage: str = "") -> str:
    """What an error means for the step: the stage that it carries, or else the one given, its type,
    its words."""
    stage = getattr(error, "stage", None) or stage
    kind, words = type(error).__name__, str(error)
    if isinstance(error, MemoryError):  # NumPy's has a name of its own; Python's says nothing
        kind, words = "MemoryError", words or "there is none left for a small object"
    return "compiling failed" + (f" in {stage}" if stage else "") + f": {kind}: {words}"


@contextmanager
def within_memory(stage: str) -> Iterator[None]:
    """Where memory runs out inside, the step is unfit."""
    try:
        yield
    except MemoryError as error:
        raise Unfit(describe_failure(error, stage)) from error
