"""Lines that have run: what a check reads in the source is a mistake only where it is executed.

A line has run where a frame of its function stands beyond it on the same path. Until a frame shows
that, the function that the line is in is swapped, to learn that it is called at all.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any

from ..native.foundation.user_frames import is_internal, user_frame
from ..ops.interception.code_patching import Swap, swap_of
from .source import loops_around, statements_at

_BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")


class ExecutedLines:
    """Tells of lines once they have run."""

    def __init__(self) -> None:
        self.waiting: dict[tuple[str, int], Callable[[], None]] = {}
        self.swaps: dict[tuple[str, int], Swap] = {}
        self.latest: dict[int, int] = {}  # where frames were last

    def when_run(self, file: str, line: int, frame: FrameType | None,
                 tell: Callable[[], None]) -> None:
        """Call `tell` once: now if `frame` or a caller of it has passed the line, or when a frame
        does. A line that runs unseen, in a branch of a function that is never caught in it, is not
        told."""
        if any(has_passed(file, line, f) for f in frames_of(file, frame)):
            tell()
            return
        self.waiting[file, line] = tell
        self.latest |= {id(f): f.f_lasti for f in frames_of(file, frame)}
        while frame is not None and is_internal(frame.f_code):
            frame = frame.f_back
        function = _function_with(file, line, frame)
        if function is not None and is_unconditional(file, line):
            self.swaps[file, line] = swap = swap_of(function, self._called(file, line))
            swap.start()

    def look(self) -> None:
        """Look whether frames that are running have passed a line that is waited for."""
        frame, running = user_frame(2), {}
        for file, line in list(self.waiting):
            frames = list(frames_of(file, frame))
            if any(has_passed(file, line, f) or self._came_round(file, line, f) for f in frames):
                self._tell(file, line)
            running.update({id(f): f.f_lasti for f in frames})
        self.latest = running

    def _came_round(self, file: str, line: int, frame: FrameType) -> bool:
        """Whether a frame has gone back in a loop that the line is in: its body has run."""
        if frame.f_lasti >= self.latest.get(id(frame), 0) or not _is_of(line, frame.f_code):
            return False
        loops = loops_around(file, line)
        return any(_covers([loop], frame.f_lineno) for loop in loops) \
            and on_one_path(file, line, frame.f_lineno)

    def stop(self) -> None:
        """Wait no more."""
        for swap in self.swaps.values():
            swap.restore()
        self.swaps.clear()
        self.waiting.clear()

    def _called(self, file: str, line: int) -> Callable[[Callable, tuple, dict], Any]:
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


def frames_of(file: str, frame: FrameType | None) -> Iterator[FrameType]:
    """The frames of a file's code among a frame and its callers."""
    while frame is not None:
        if frame.f_code.co_filename == file:
            yield frame
        frame = frame.f_back


def has_passed(file: str, line: int, frame: FrameType) -> bool:
    """Whether a frame must have come by a line: it is behind, and in each branch that the line is
    in."""
    return line < frame.f_lineno and _is_of(line, frame.f_code) \
        and on_one_path(file, line, frame.f_lineno)


def on_one_path(file: str, line: int, now: int) -> bool:
    """Whether each branch that a line is in holds another line, of the same function, as well."""
    return all(any(_covers(block, line) and _covers(block, now) for block in blocks)
               for blocks in _branches(file, line))


def is_unconditional(file: str, line: int) -> bool:
    """Whether each call of its function that returns has run a line."""
    return not any(True for _ in _branches(file, line))


def _branches(file: str, line: int) -> Iterator[list[list[Any]]]:
    """The blocks of each statement around a line, in its function, that may leave it out."""
    around: list[list[list[Any]]] = []
    for statement in statements_at(file, line):
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            around.clear()
        elif isinstance(statement, (ast.If, ast.Try, ast.Match)):
            blocks = [getattr(statement, name, []) for name in _BLOCKS]
            if any(_covers(block, line) for block in blocks):  # else it is the condition itself
                around.append(blocks)
    yield from around


def _covers(block: list[Any], line: int) -> bool:
    return bool(block) and block[0].lineno <= line <= (block[-1].end_lineno or 0)


def _is_of(line: int, code: CodeType) -> bool:
    return any(number == line for _, _, number in code.co_lines())


def _function_with(file: str, line: int, frame: FrameType | None) -> FunctionType | None:
    """The function or method that a line is in, by the names of the module of a frame."""
    for value in list(frame.f_globals.values()) if frame is not None else ():
        members = list(vars(value).values()) if isinstance(value, type) else [value]
        for member in members:
            member = inspect.unwrap(getattr(member, "__func__", member))
            if isinstance(member, FunctionType) and member.__code__.co_filename == file \
                    and _is_of(line, member.__code__):
                return member
    return None
