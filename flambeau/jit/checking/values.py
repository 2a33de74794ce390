"""What the checker knows of an expression, and the variables of a function."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .types import UNKNOWN, Kind, make_union

__all__ = ["NO_VALUE", "Frame", "Truth", "Value", "Variable", "remove_member"]


class NoValue(enum.Enum):
    """Marks an expression whose value only the run shows."""

    NO_VALUE = enum.auto()


NO_VALUE = NoValue.NO_VALUE


class Truth(enum.Enum):
    """What is known of a condition while compiling. UNSURE may be any of the others."""

    ALWAYS, NEVER, AT_RUN_TIME, UNSURE = range(4)


@dataclass(frozen=True)
class Value:
    """The type of an expression, and the Python object that it stands for, if that is known."""

    kind: Kind = UNKNOWN
    static: Any = NO_VALUE


@dataclass
class Variable:
    """A local variable: its type, refined by branches; the type that it was declared with.

    `error` is the code and values of the diagnostic for a use of it.
    """

    kind: Kind
    declared: Kind
    error: tuple[str, dict[str, Any]] | None = None
    static: Any = NO_VALUE


@dataclass
class Frame:
    """The variables set in a block. Blocks of branches and loops lie in the frame around them."""

    outer: Frame | None = None
    variables: dict[str, Variable] = field(default_factory=dict)
    exits: bool = False  # by return, raise, break or continue

    def find(self, name: str) -> Variable | None:
        """Return a variable of this block or one around it."""
        for frame in self._iterate_frames():
            if name in frame.variables:
                return frame.variables[name]
        return None

    def find_outside(self, name: str) -> Variable | None:
        """Return a variable of a block around this one."""
        return None if self.outer is None else self.outer.find(name)

    def refine(self, kinds: dict[str, Kind]) -> None:
        """Narrow variables in this block."""
        for name, kind in kinds.items():
            known = self.find(name)
            if known is not None:
                self.variables[name] = Variable(kind, known.declared, known.error, known.static)

    def forget(self, names: set[str]) -> None:
        """Treat variables as of unknown type from here on."""
        for name in names:
            self.variables[name] = Variable(UNKNOWN, UNKNOWN)

    def _iterate_frames(self) -> Iterator[Frame]:
        frame: Frame | None = self
        while frame is not None:
            yield frame
            frame = frame.outer


def remove_member(kind: Kind, part: Kind) -> Kind:
    """Return a union without one member."""
    rest = [member for member in kind.inner if member != part]
    return make_union(*rest) if rest else kind
