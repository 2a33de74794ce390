"""Patterns such as `b (h w) c -> b c h w`, which name the axes of a tensor."""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Mapping
from typing import Any

from ..native.foundation.user_frames import warn

__all__ = ["AnonymousAxis", "ParsedExpression", "comma_separate", "parse_pattern",
           "validate_rearrange_expressions"]

_ellipsis = "\u2026"  # one character, so that it is a name like others
_TOKEN = re.compile(r"[()]|[^\s()]+")


class AnonymousAxis:
    """An axis that has a length in the pattern and no name. Two of them are never equal."""

    def __init__(self, value: str) -> None:
        self.value = int(value)
        if self.value < 1:
            raise ValueError(f"Anonymous axis should have positive length, not {self.value}")

    def __repr__(self) -> str:
        return f"{self.value}-axis"


class ParsedExpression:
    """One side of a pattern.

    `composition` has an entry per axis of the tensor: the list of axes of which it is composed, or
    the ellipsis. `identifiers` are all names. An axis of length 1 is an empty list.
    """

    def __init__(
        self, expression: str, *, allow_underscore: bool = False, allow_duplicates: bool = False
    ) -> None:
        self.has_ellipsis = False
        self.has_ellipsis_parenthesized: bool | None = None
        self.has_non_unitary_anonymous_axes = False
        self.identifiers: set[str | AnonymousAxis] = set()
        self.composition: list[Any] = []
        self._allows = allow_underscore, allow_duplicates
        self._parse(self._replace_ellipsis(expression))

    def _replace_ellipsis(self, expression: str) -> str:
        if "." not in expression:
            return expression
        if "..." not in expression:
            raise ValueError("Expression may contain dots only inside ellipsis (...)")
        if expression.count("...") != 1 or expression.count(".") != 3:
            raise ValueError("Expression may contain dots only inside ellipsis (...); only one "
                             "ellipsis for tensor ")
        self.has_ellipsis = True
        return expression.replace("...", _ellipsis)

    def _parse(self, expression: str) -> None:
        for char in expression:
            if char not in "()_ " + _ellipsis and not char.isalnum():
                raise ValueError(f"Unknown character '{char}'")
        group: list[Any] | None = None
        for token in _TOKEN.findall(expression):
            if token == "(":
                if group is not None:
                    raise ValueError("Axis composition is one-level (brackets inside brackets not "
                                     "allowed)")
                group = []
            elif token == ")":
                if group is None:
                    raise ValueError("Brackets are not balanced")
                self.composition.append(group)
                group = None
            else:
                self._add(token, group)
        if group is not None:
            raise ValueError(f"Imbalanced parentheses in expression: '{expression}'")

    def _add(self, name: str, group: list[Any] | None) -> None:
        """Add an axis to a composed one, or as one of its own."""
        allow_underscore, allow_duplicates = self._allows
        is_free = allow_duplicates or (allow_underscore and name == "_")
        if name in self.identifiers and not is_free:
            raise ValueError(f"Indexing expression contains duplicate dimension '{name}'")
        if name == _ellipsis:
            self.identifiers.add(name)
            self.has_ellipsis_parenthesized = group is not None
            (self.composition if group is None else group).append(name)
            return
        if name.isdecimal() and int(name) == 1:
            if group is None:
                self.composition.append([])
            return
        axis: str | AnonymousAxis = name
        if name.isdecimal():
            axis, self.has_non_unitary_anonymous_axes = AnonymousAxis(name), True
        else:
            is_valid, reason = self.check_axis_name_return_reason(name, allow_underscore)
            if not is_valid:
                raise ValueError(f"Invalid axis identifier: {name}\n{reason}")
        self.identifiers.add(axis)
        if group is None:
            self.composition.append([axis])
        else:
            group.append(axis)

    @staticmethod
    def check_axis_name_return_reason(
        name: str, allow_underscore: bool = False
    ) -> tuple[bool, str]:
        """Return whether a name may be an axis's, and why not."""
        if not name.isidentifier():
            return False, "not a valid python identifier"
        if name[0] == "_" or name[-1] == "_":
            if name == "_" and allow_underscore:
                return True, ""
            return False, "axis name should should not start or end with underscore"
        if keyword.iskeyword(name):
            warn(f"It is discouraged to use axes names that are keywords: {name}", RuntimeWarning)
        if name == "axis":
            warn("It is discouraged to use 'axis' as an axis name and will raise an error in "
                 "future", FutureWarning)
        return True, ""

    @staticmethod
    def check_axis_name(name: str) -> bool:
        """Return whether a name may be an axis's."""
        return ParsedExpression.check_axis_name_return_reason(name)[0]


def parse_pattern(
    pattern: str, axes_lengths: Mapping[str, int]
) -> tuple[ParsedExpression, ParsedExpression]:
    """Parse the two sides of `left -> right`. Raises ValueError for a pattern of another form."""
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError("Pattern must contain a single '->' separator")
    if _ellipsis in axes_lengths:
        raise ValueError(f"'{_ellipsis}' is not an allowed axis identifier")
    left, right = map(ParsedExpression, sides)
    if right.has_ellipsis and not left.has_ellipsis:
        raise ValueError(
            f"Ellipsis found in right side, but not left side of a pattern {pattern}")
    if left.has_ellipsis and left.has_ellipsis_parenthesized:
        raise ValueError(f"Ellipsis is parenthesis in the left side is not allowed: {pattern}")
    return left, right


def validate_rearrange_expressions(
    left: ParsedExpression, right: ParsedExpression, axes_lengths: Mapping[str, int]
) -> None:
    """Raise TypeError or ValueError for what `rearrange` cannot do."""
    for length in axes_lengths.values():
        if type(length) is not int:
            raise TypeError(f"rearrange axis lengths must be integers, got: {type(length)}")
    if left.has_non_unitary_anonymous_axes or right.has_non_unitary_anonymous_axes:
        raise ValueError("rearrange only supports unnamed axes of size 1")
    if difference := left.identifiers ^ right.identifiers:
        raise ValueError("Identifiers only on one side of rearrange expression (should be on "
                         f"both): {difference}")
    if unmatched := axes_lengths.keys() - left.identifiers:
        raise ValueError(f"Identifiers not found in rearrange expression: {unmatched}")


def comma_separate(collection: Collection[str | Collection[str]]) -> str:
    """Write names and tuples of names as Python does.

    >>> from flambeau.func.axis_pattern import comma_separate
    >>> comma_separate([("d0",), (), ("d3", "d4")])
    '(d0,), (), (d3, d4)'
    """
    return ", ".join(
        item if isinstance(item, str)
        else f"({comma_separate(item)}{',' if len(item) == 1 else ''})" for item in collection)
