"""Texts that a step makes of numbers to print them, and the calls of `print` that a program makes.

A program formats the numbers when it prints them: after its run, and in the order of the step.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Text(NamedTuple):
    """function(*parts). Parts are Texts, plain values, or numbers that are not known yet."""

    function: Callable[..., Any]
    parts: tuple[Any, ...]


class Slot(NamedTuple):
    """The position of a number among those that a print gets."""

    position: int


def join_texts(*parts: str) -> str:
    """Return the parts of an f-string as one text."""
    return "".join(parts)


def interpolate(template: str, *operands: Any) -> str:
    """Return `template % operands`."""
    return template % operands


def write_text(x: Any, read: Callable[[Any], Any]) -> Any:
    """Return a text, or a part of one. `read` returns the value of what is not a Text."""
    if x.__class__ is Text:
        return x.function(*[write_text(part, read) for part in x.parts])
    return read(x)


def _call(function: Callable[..., Any], args: list[Any], named: dict[str, Any]) -> None:
    function(*args, **named)


@dataclass(eq=False)
class PrintCall:
    """A call of print: its arguments, in which Slots stand for numbers, and its line."""

    function: Callable[..., Any]
    args: list[Any]
    named: dict[str, Any]
    line: tuple[str, int]
    code_name: str
    call: Callable[..., None] = field(init=False)

    def __post_init__(self) -> None:
        """Make the function that calls print, which a traceback shows as the step's own line."""
        file, line = self.line
        code = _call.__code__.replace(co_filename=file, co_firstlineno=line - 1,
                                      co_name=self.code_name)
        self.call = types.FunctionType(code, {})

    def __call__(self, numbers: Sequence[Any]) -> None:
        """Print, with these numbers in place of the slots."""
        def read(x: Any) -> Any:
            return numbers[x.position] if x.__class__ is Slot else x

        self.call(self.function, [write_text(x, read) for x in self.args], self.named)
