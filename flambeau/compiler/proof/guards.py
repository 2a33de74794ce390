"""Guards: what a proof takes for granted outside of the step, as tests on paths.

A guard is one expression in the source of a program's function, so that a call pays 25 to 55 ns for
each. Objects that a path starts from are constants of that source.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import chain
from typing import Any

import numpy as np

from ...native.target.compile_costs import MAX_UNROLLED_GUARD_MEMBERS
from ..trace.plain_values import PLAIN, same_plain, write_mismatch


class Test(Enum):
    """How a guard compares."""

    VALUE = auto()  # the same immutable value
    IDENTITY = auto()  # the same object
    LENGTH = auto()  # a container of as many entries
    BYTES = auto()  # an array of the same content, shape and dtype
    ABSENT = auto()  # a dict without a key
    NONE_OF = auto()  # a dict without any of some keys
    STATE = auto()  # an object that says whether all is as it was
    MEMBERS = auto()  # dicts with the same objects as in the copies that go with them


@dataclass(eq=False)
class Guard:
    """One test. `needed`: whether the step consumed what was read; `line`: which line read it."""

    path: str
    test: Test
    value: Any
    needed: bool = True
    line: tuple[str, int] = ("", 0)

    def failure(self, name: Callable[[Any], str]) -> str:
        """An expression that is true where the guard fails; `name` gives names to objects."""
        path, value = self.path, self.value
        if self.test is Test.LENGTH:
            return f"len({path}) != {value}"
        if self.test is Test.ABSENT:
            return f"{name(value)} in {path}"
        if self.test is Test.STATE:
            return f"not {name(value)}.is_same()"
        if self.test is Test.NONE_OF:
            return f"not {path}.keys().isdisjoint({name(value)})"
        if self.test is Test.MEMBERS:
            return self._moved_members(name)
        if self.test is Test.BYTES:
            return (f"({path}.tobytes(), {path}.shape, {path}.dtype) != {name(value)}")
        if self.test is Test.IDENTITY or value is None or isinstance(value, (bool, Enum)):
            return f"{path} is not {name(value)}"
        if value.__class__ in PLAIN or isinstance(value, np.generic):
            return write_mismatch(path, value, name)
        return f"not {name(is_same_value)}({path}, {name(value)})"

    def _moved_members(self, name: Callable[[Any], str]) -> str:
        """One comparison an entry costs 30 ns; many are faster compared at once."""
        snapshots: list[tuple[dict[str, Any], dict[str, Any]]] = self.value
        if sum(len(before) for _, before in snapshots) > MAX_UNROLLED_GUARD_MEMBERS:
            dicts = [members for members, _ in snapshots]
            ids = member_ids([before for _, before in snapshots])
            return f"{name(member_ids)}({name(dicts)}) != {name(ids)}"
        tests = []
        for members, before in snapshots:
            space = name(members)
            tests.append(f"len({space}) != {len(before)}")
            tests += [f"{space}.get({key!r}) is not {name(x)}" for key, x in before.items()]
        return " or ".join(tests) or "False"


def is_same_value(a: Any, b: Any) -> bool:
    """Whether two immutable values are the same to a program."""
    if a is b:
        return True
    if a.__class__ is not b.__class__:
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(is_same_value, a, b))
    if isinstance(a, (*PLAIN, np.generic)):
        return same_plain(a, b)
    return bool(a == b)


def member_ids(dicts: list[dict[str, Any]]) -> list[int]:
    """The identities of the values of some dicts, in order."""
    return [*map(id, chain.from_iterable(map(dict.values, dicts)))]


def format_line(file: str, line: int) -> str:
    """A line of source for people; empty where it is not known."""
    return f"{file}:{line}" if line else ""


@dataclass
class Proof:
    """Whether the Python of a call may be skipped, until when, and if not, why.

    `refusals`: (file, line, why). `constants`: the objects that paths start from, by name.
    `modules`: those whose state the library reads. `aliased`: arguments that the call also reads
    from outside. `reads_numbers`: whether item() gave any. `arrays`: NumPy's that it read.
    """

    refusals: list[tuple[str, int, str]] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    modules: list[Any] = field(default_factory=list)
    aliased: list[Any] = field(default_factory=list)
    reads_numbers: bool = False
    arrays: list[np.ndarray] = field(default_factory=list)
    opcodes: int = 0

    @property
    def holds(self) -> bool:
        """Whether skipping Python is permitted."""
        return not self.refusals

    @property
    def why(self) -> tuple[str, str]:
        """(why not, file:line)."""
        file, line, why = self.refusals[0]
        return why, format_line(file, line)

    def describe(self, path: str) -> str:
        """A path for people: the class of the object that it starts from, or a global's name."""
        name = re.split(r"\W", path, maxsplit=1)[0]
        x, rest = self.constants.get(name), path[len(name):]
        if isinstance(x, types.CellType):
            return "a variable of an outer function"
        if isinstance(x, dict) and "__builtins__" in x:
            return rest.strip("[]'")
        return path if x is None else f"{getattr(x, '__name__', type(x).__name__)}{rest}"

    def depends_on(self, path: str) -> str:
        """Why a call that changes what it depends on is not proved."""
        return f"what it does depends on {self.describe(path)}, which it changes"

    def failures(self, name: Callable[[Any], str]) -> Iterator[str]:
        """Expressions of which one is true where the proof no longer holds."""
        for guard in self.guards:
            yield guard.failure(name)

    def first_failing(self, leaves: list[Any]) -> Guard | None:
        """The first guard that fails now; `leaves`: the arguments, flattened."""
        space: dict[str, Any] = {**self.constants, **{f"t{i}": x for i, x in enumerate(leaves)}}
        for guard in self.guards:
            names: dict[str, Any] = {}

            def name(value: Any, names: dict[str, Any] = names) -> str:
                key = f"g{len(names)}"
                names[key] = value
                return key

            expression = guard.failure(name)
            if _fails(expression, space, names):
                return guard
        return None


def _fails(expression: str, space: dict[str, Any], names: dict[str, Any]) -> bool:
    """Whether a guard fails; one that raises does: what it reads is no longer there."""
    try:
        return bool(eval(expression, {**space, **names}))
    except Exception:
        return True
