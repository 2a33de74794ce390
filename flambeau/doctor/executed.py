"""Executed lines: report a mistake read in the source only once its line has run.

A line has run if a frame of its function is past it on the same path. Until a frame shows that,
the line's function is patched to detect calls.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any

from ..native.foundation.user_frames import find_user_frame, is_internal
from ..ops.interception.code_patching import Swap, swap_of
from .source import find_loops, find_statements

_BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")


class ExecutedLines:
    """Calls back once a line has run."""

    def __init__(self) -> None:
        self.waiting: dict[tuple[str, int], Callable[[], None]] = {}
        self.swaps: dict[tuple[str, int], Swap] = {}
        self.latest: dict[int, int] = {}  # last seen bytecode offset, by frame id

    def when_run(self, file: str, line: int, frame: FrameType | None,
                 tell: Callable[[], None]) -> None:
        """Call `tell` once: now if `frame` or one of its callers has passed the line, else when a
        frame does. Lines in a branch that no frame is ever caught past are missed."""
        if any(has_passed(file, line, f) for f in iterate_frames(file, frame)):
            tell()
            return
        self.waiting[file, line] = tell
        self.latest |= {id(f): f.f_lasti for f in iterate_frames(file, frame)}
        while frame is not None and is_internal(frame.f_code):
            frame = frame.f_back
        function = _find_function(file, line, frame)
        if function is not None and is_unconditional(file, line):
            self.swaps[file, line] = swap = swap_of(function, self._observe_call(file, line))
            swap.start()

    def look(self) -> None:
        """Check whether running frames have passed any awaited line."""
        frame, running = find_user_frame(2), {}
        for file, line in list(self.waiting):
            frames = list(iterate_frames(file, frame))
            if any(has_passed(file, line, f) or self._has_looped(file, line, f) for f in frames):
                self._tell(file, line)
            running.update({id(f): f.f_lasti for f in frames})
        self.latest = running

    def _has_looped(self, file: str, line: int, frame: FrameType) -> bool:
        """Return whether a frame jumped back in a loop around the line, so the body has run."""
        if frame.f_lasti >= self.latest.get(id(frame), 0) or not _has_line(frame.f_code, line):
            return False
        loops = find_loops(file, line)
        return any(_covers([loop], frame.f_lineno) for loop in loops) \
            and are_on_same_path(file, line, frame.f_lineno)

    def stop(self) -> None:
        """Stop waiting: restore patched functions and drop all callbacks."""
        for swap in self.swaps.values():
            swap.restore()
        self.swaps.clear()
        self.waiting.clear()

    def _observe_call(self, file: str, line: int) -> Callable[[Callable, tuple, dict], Any]:
        def call(original: Callable, args: tuple, kwargs: dict) -> Any:
            result = original(*args, **kwargs)
            self._tell(file, line)
            return result

        return call

    def _tell(self, file: str, line: int) -> None:
        tell, swap = self.waiting.pop((file, line), None), self.swaps.pop((file, line), None)
        if swap is not None:
            swap.restore()
        if tell is not None:
            tell()


def iterate_frames(file: str, frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frame and its callers that run code of a file."""
    while frame is not None:
        if frame.f_code.co_filename == file:
            yield frame
        frame = frame.f_back


def has_passed(file: str, line: int, frame: FrameType) -> bool:
    """Return whether a frame must have run a line: it is past the line, and inside each branch
    that contains it."""
    return line < frame.f_lineno and _has_line(frame.f_code, line) \
        and are_on_same_path(file, line, frame.f_lineno)


def are_on_same_path(file: str, line: int, reached: int) -> bool:
    """Return whether each branch that contains `line` also contains the line `reached`."""
    return all(any(_covers(block, line) and _covers(block, reached) for block in blocks)
               for blocks in _iterate_branches(file, line))


def is_unconditional(file: str, line: int) -> bool:
    """Return whether every completed call of its function runs the line."""
    return not any(True for _ in _iterate_branches(file, line))


def _iterate_branches(file: str, line: int) -> Iterator[list[list[Any]]]:
    """Yield the blocks of each branching statement around a line, within its function."""
    branches: list[list[list[Any]]] = []
    for statement in find_statements(file, line):
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            branches.clear()
        elif isinstance(statement, (ast.If, ast.Try, ast.Match)):
            blocks = [getattr(statement, name, []) for name in _BLOCKS]
            if any(_covers(block, line) for block in blocks):  # else it is the condition itself
                branches.append(blocks)
    yield from branches


def _covers(block: list[Any], line: int) -> bool:
    return bool(block) and block[0].lineno <= line <= (block[-1].end_lineno or 0)


def _has_line(code: CodeType, line: int) -> bool:
    return any(code_line == line for _, _, code_line in code.co_lines())


def _find_function(file: str, line: int, frame: FrameType | None) -> FunctionType | None:
    """Return the function or method that contains a line, searched in a frame's globals."""
    for value in list(frame.f_globals.values()) if frame is not None else ():
        members = list(vars(value).values()) if isinstance(value, type) else [value]
        for member in members:
            member = inspect.unwrap(getattr(member, "__func__", member))
            if isinstance(member, FunctionType) and member.__code__.co_filename == file \
                    and _has_line(member.__code__, line):
                return member
    return None
