"""Guards: a proof's assumptions about the state outside the step, as tests on paths.

Each guard is one expression in the generated source of the program's function, and costs 25 to
55 ns per call. The objects that paths start from are constants of that source.
"""

from __future__ import annotations

import ast
import re
import types
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import chain
from typing import Any

import numpy as np

from ...native.target.compile_costs import MAX_UNROLLED_GUARD_MEMBERS
from ..trace.plain_values import PLAIN, are_same_plain, write_mismatch


class Test(Enum):
    """How a guard compares."""

    VALUE = auto()  # the same immutable value
    IDENTITY = auto()  # the same object
    LENGTH = auto()  # a container of the same length
    BYTES = auto()  # an array of equal content, shape and dtype
    ABSENT = auto()  # a dict without a key
    NONE_OF = auto()  # a dict without any of several keys
    STATE = auto()  # an object whose `is_same()` must return True
    TRUTH = auto()  # an expression that must be true, or false
    MEMBERS = auto()  # dicts whose values are the same objects as in the paired copies


@dataclass(eq=False)
class Guard:
    """One test. `needed`: the step consumed the value; `line`: the line that read it.
    `precedes_writes`: the call changes what the guard reads, so it holds only before the call."""

    path: str
    test: Test
    value: Any
    needed: bool = True
    line: tuple[str, int] = ("", 0)
    precedes_writes: bool = False

    def list_names(self) -> list[str]:
        """Return the names that the path reads, once each: those of constants and of leaves."""
        if self.test in (Test.STATE, Test.MEMBERS):  # their paths are for people
            return []
        tree = ast.parse(self.path, mode="eval")
        return [*dict.fromkeys(n.id for n in ast.walk(tree) if isinstance(n, ast.Name))]

    def list_leaves(self) -> list[int]:
        """Return the numbers of the leaves that the path reads: of `t0` and so on."""
        return [int(name[1:]) for name in self.list_names()
                if name.startswith("t") and name[1:].isdigit()]

    def failure(self, name: Callable[[Any], str]) -> str:
        """Return an expression that is true if the guard fails. `name` assigns names to objects."""
        path, value = self.path, self.value
        if self.test is Test.LENGTH:
            return f"len({path}) != {value}"
        if self.test is Test.ABSENT:
            return f"{name(value)} in {path}"
        if self.test is Test.TRUTH:
            return f"not {path}" if value else path
        if self.test is Test.STATE:
            return f"not {name(value)}.is_same()"
        if self.test is Test.NONE_OF:
            return f"not {path}.keys().isdisjoint({name(value)})"
        if self.test is Test.MEMBERS:
            return self._test_moved_members(name)
        if self.test is Test.BYTES:
            return (f"({path}.tobytes(), {path}.shape, {path}.dtype) != {name(value)}")
        if self.test is Test.IDENTITY or value is None or isinstance(value, (bool, Enum)):
            return f"{path} is not {name(value)}"
        if value.__class__ in PLAIN or isinstance(value, np.generic):
            return write_mismatch(path, value, name)
        return f"not {name(is_same_value)}({path}, {name(value)})"

    def _test_moved_members(self, name: Callable[[Any], str]) -> str:
        """Return a test of all members: unrolled at 30 ns per entry, or in bulk if many."""
        snapshots: list[tuple[dict[str, Any], dict[str, Any]]] = self.value
        if sum(len(before) for _, before in snapshots) > MAX_UNROLLED_GUARD_MEMBERS:
            dicts = [members for members, _ in snapshots]
            ids = list_members([before for _, before in snapshots])
            return f"{name(list_members)}({name(dicts)}) != {name(ids)}"
        spaces = [name(members) for members, _ in snapshots]
        keys = [*chain.from_iterable(before for _, before in snapshots)]
        # One comparison of all keys, in order, which does not say which dict has which.
        tests = [f"[{', '.join([f'*{space}' for space in spaces])}] != {name(keys)}"]
        for space, (_, before) in zip(spaces, snapshots, strict=True):
            if any(x is None for x in before.values()):
                tests.append(f"len({space}) != {len(before)}")
            tests += [f"{space}.get({key!r}) is not {name(x)}" for key, x in before.items()]
        return " or ".join(tests)


def is_same_value(a: Any, b: Any) -> bool:
    """Whether a program may treat two immutable values as the same."""
    if a is b:
        return True
    if a.__class__ is not b.__class__:
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(is_same_value, a, b))
    if isinstance(a, (*PLAIN, np.generic)):
        return are_same_plain(a, b)
    return bool(a == b)


def list_members(dicts: list[dict[str, Any]]) -> list[Any]:
    """Return the number of entries of each dict, and all keys and the ids of all values, in order.
    """
    return [*map(len, dicts), *chain.from_iterable(dicts),
            *map(id, chain.from_iterable([each.values() for each in dicts]))]


def format_line(file: str, line: int) -> str:
    """Return "file:line", or "" if the line is unknown."""
    return f"{file}:{line}" if line else ""


@dataclass
class Proof:
    """Whether a call's Python may be skipped: under which guards, or why not.

    `refusals`: (file, line, why). `constants`: the objects that paths start from, by name.
    `modules`: modules whose state the library reads. `outside_tensors`: tensors read outside,
    arguments included. `reads_numbers`: whether item() returned any number. `arrays`: NumPy arrays
    that were read. `numbers`: guards on number arguments, by leaf. `decisions`: guards on
    decisions the step made about numbers, up to the first refusal. `pins`: weak references to
    arguments, or objects read through them, whose identity is guarded. `argument_names`: the
    classes of arguments read through paths, by argument name. `replaced`: the places from which the
    call took tensors and where it stored others, if nothing else keeps it from being proved.
    """

    refusals: list[tuple[str, int, str]] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    modules: list[Any] = field(default_factory=list)
    outside_tensors: list[Any] = field(default_factory=list)
    reads_numbers: bool = False
    arrays: list[np.ndarray] = field(default_factory=list)
    numbers: dict[int, Guard] = field(default_factory=dict)
    decisions: list[Guard] = field(default_factory=list)
    pins: list[weakref.ref[Any]] = field(default_factory=list)
    argument_names: dict[str, str] = field(default_factory=dict)
    replaced: list[Any] = field(default_factory=list)
    opcodes: int = 0

    def note_pin(self, x: Any) -> None:
        """Note an object of an argument whose identity is guarded."""
        if not isinstance(x, (type, types.ModuleType)) and type(x).__weakrefoffset__:
            self.pins.append(weakref.ref(x))

    @property
    def holds(self) -> bool:
        """Whether Python may be skipped."""
        return not self.refusals

    def is_free(self, leaf: int) -> bool:
        """Whether an argument is a number whose value the step does not consume."""
        return leaf in self.numbers and not self.numbers[leaf].needed

    @property
    def why(self) -> tuple[str, str]:
        """Return (reason, "file:line") of the first refusal."""
        file, line, why = self.refusals[0]
        return why, format_line(file, line)

    def describe(self, path: str) -> str:
        """Return a readable path, starting with a global's name or the root object's class."""
        name = re.split(r"\W", path, maxsplit=1)[0]
        x, rest = self.constants.get(name), path[len(name):]
        if name in self.argument_names:
            return f"{self.argument_names[name]}{rest}"
        if isinstance(x, types.FunctionType) and rest.startswith("("):
            return f"the {x.__name__.removeprefix('read_')} of {self.describe(rest[1:-1])}"
        if isinstance(x, types.CellType):
            return "a variable of an outer function"
        if isinstance(x, dict) and "__builtins__" in x:
            return rest.strip("[]'")
        return path if x is None else f"{getattr(x, '__name__', type(x).__name__)}{rest}"

    def identify_path(self, path: str) -> str:
        """Return a key of a path that is the same for all recordings of a function."""
        return re.sub(r"(?<![\w.'])k\d+\b", lambda name: f"<{id(self.constants[name[0]])}>", path)

    def depends_on(self, path: str) -> str:
        """Return the reason for refusing a call that changes a value it depends on."""
        return f"what it does depends on {self.describe(path)}, which it changes"

    def failures(self, name: Callable[[Any], str]) -> Iterator[str]:
        """Yield expressions. The proof no longer holds if any is true."""
        for guard in self.guards:
            yield guard.failure(name)

    def first_failing(self, leaves: list[Any], is_after: bool = False) -> Guard | None:
        """Return the first guard that fails now, or None. `leaves`: the flattened arguments.
        `is_after`: the call has run."""
        space: dict[str, Any] = {**self.constants, **{f"t{i}": x for i, x in enumerate(leaves)}}
        for guard in self.guards:
            if is_after and guard.precedes_writes:
                continue
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
    """Whether a guard fails. It also fails if evaluating it raises."""
    try:
        return bool(eval(expression, {**space, **names}))
    except Exception:
        return True
