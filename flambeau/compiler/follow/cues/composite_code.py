"""The code of a composite that a followed call does not have to run.

A composite marked `repeats_operators` calls the same operators whenever its arguments have the same
windows, flags and plain values, and nobody sees it do so. While it runs, the inline caches of its
operators note the lines that create their results. Joined, with each operand an argument of the
composite, an earlier result or a constant, these lines stand for the composite's Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ....autograd.mode import MODE
from ....autograd.tape import requires
from ....tensor.layout import memory_format
from ....tensor.tensor import Tensor
from ...trace.operands import collect_tensors

if TYPE_CHECKING:
    from .inline_cache import Cue

# Names in the lines of an inline cache: operands, results, other variables, and its own objects.
_NAME = re.compile(r"(?<![\w.'])(a\d+|k_\w+|r\d+|n\d+|w\d+|c\d+|node|owner|arrays|made|views|CUE|"
                   r"operator|memory|recycle)\b")


@dataclass
class Piece:
    """What the code of one inline cache adds to the code of the composite around it.

    operands: the arguments, by their names in the lines.
    tests: true if an operand is not the expected one. rule: true if the operands' values are wrong.
    lines: create the results, with the autograd history that they have in this call.
    results: by name.
    names: the objects that lines and tests refer to.
    """

    operands: dict[str, Any] = field(default_factory=dict)
    tests: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=dict)
    rule: str = ""


class _Unknown(Exception):
    """An object in a composite of which nothing says where it comes from."""


class _Join:
    """Joins the pieces of a composite.

    names: receives the objects that the code refers to.
    expect: returns the test of a plain argument. is_plain: whether equality is enough for it.
    """

    def __init__(self, names: dict[str, Any], expect: Callable[[str, Any, Any], str],
                 is_plain: Callable[[Any], bool]) -> None:
        self.names, self.expect, self.is_plain = names, expect, is_plain
        self.tests: list[str] = []
        self.flag_tests: list[str] = []  # after the tests of classes
        self.lines: list[str] = []
        self.arguments: dict[int, str] = {}  # source of each tensor among the arguments, by id
        self.results: dict[int, str] = {}  # variable of each tensor created so far, by id

    def add_argument(self, name: str, x: Any) -> None:
        """Add the tests of an argument of the composite. Raises _Unknown."""
        if isinstance(x, Tensor):
            if id(x) in self.arguments:
                self.tests.append(f"{name} is not {self.arguments[id(x)]}")
                return
            self.arguments[id(x)] = name
            self.flag_tests += _flag_tests(name, x)
        elif x.__class__ in (tuple, list) and collect_tensors(x):
            self.tests.append(f"{name}.__class__ is not {x.__class__.__name__} "
                              f"or len({name}) != {len(x)}")
            for i, part in enumerate(x):
                self.add_argument(f"{name}[{i}]", part)
        elif self.is_plain(x):
            self.tests.append(self.expect(name, x, x))
        else:
            raise _Unknown

    def find_source(self, x: Any) -> str:
        """Return an expression for an object inside the composite. Raises _Unknown."""
        if isinstance(x, Tensor):
            source = self.results.get(id(x)) or self.arguments.get(id(x))
            if source is None:
                raise _Unknown
            return source
        if x.__class__ in (tuple, list) and collect_tensors(x):
            parts = "".join(f"{self.find_source(part)}, " for part in x)
            return f"({parts})" if x.__class__ is tuple else f"[{parts}]"
        if self.is_plain(x) or isinstance(x, (memory_format, np.dtype)):
            name = f"c{len(self.names)}"
            self.names[name] = x
            return name
        raise _Unknown

    def add_piece(self, piece: Piece, number: int) -> None:
        """Add the tests and lines of one inline cache. Raises _Unknown."""
        sources = {name: self.find_source(x) for name, x in piece.operands.items()}

        def rename(match: re.Match[str]) -> str:
            return sources.get(match[1], f"{match[1]}_{number}")

        for test in filter(None, (*piece.tests, piece.rule)):
            operands = [piece.operands[name] for name in _NAME.findall(test)
                        if name in piece.operands]
            created = [id(t) in self.results for t in collect_tensors(operands)]
            if not any(created):  # plain operands follow from the composite's arguments
                self.tests += [_NAME.sub(rename, test)] if created else []
            elif test is piece.rule or not all(created):
                raise _Unknown
        self.lines += [_NAME.sub(rename, line) for line in piece.lines]
        self.names |= {f"{name}_{number}": x for name, x in piece.names.items()}
        for name, y in piece.results.items():
            self.results[id(y)] = f"{name}_{number}"

    def checks_arguments(self, pieces: list[Piece]) -> bool:
        """Whether each tensor among the arguments is compared as an operand of some piece."""
        operands = {id(t) for piece in pieces for x in piece.operands.values()
                    for t in collect_tensors(x)}
        return self.arguments.keys() <= operands


def _flag_tests(name: str, x: Tensor) -> Iterator[str]:
    """Yield tests of what a composite may ask of a tensor, besides its class and window."""
    if x._base is None:
        yield (f"{name}._base is not None or {name}._requires_grad is not {x._requires_grad} "
               f"or {name}._stamp is INFERENCE")
    else:
        yield f"{name}._base is None or requires({name}) is not {requires(x)}"


def join_pieces(inner: list[Cue], arguments: dict[str, Any], result: Any, names: dict[str, Any],
                expect: Callable[[str, Any, Any], str], is_plain: Callable[[Any], bool]
                ) -> tuple[list[str], list[str], str] | None:
    """Return (tests that the composite would differ, lines, source of its result).

    inner: the inline caches of the functions that it called. Returns None if one of them has no
    code, or if an object in it comes from elsewhere.
    """
    pieces = [cue.piece for cue in inner if cue.piece is not None]
    if not any(piece.lines for piece in pieces) or len(pieces) != len(inner):
        return None
    join = _Join(names, expect, is_plain)
    try:
        for name, x in arguments.items():
            join.add_argument(name, x)
        if not join.checks_arguments(pieces):
            return None
        for number, piece in enumerate(pieces):
            join.add_piece(piece, number)
        source = join.find_source(result)
    except _Unknown:
        return None
    tests = [f"MODE.grad is not {MODE.grad}", "SPECIAL.count", "AUTOCAST.count",
             "creation.stamp is not None", *dict.fromkeys([*join.tests, *join.flag_tests])]
    return tests, join.lines, source
