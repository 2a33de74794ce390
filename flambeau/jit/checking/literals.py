"""Visiting expressions, and the types of literals."""

from __future__ import annotations

import ast
from contextlib import AbstractContextManager
from typing import Any

from .annotations import find_value_kind
from .container_choice import choose_dictionary, choose_list
from .diagnostics import Refusal
from .types import (
    FLOAT, INT, NONE, NUMBERS, STR, UNKNOWN, Kind, make_dict, fits,
    is_known, make_list, make_tuple, make_union,
)
from .values import Frame, Truth, Value

__all__ = ["Literals"]


# Expressions that an expected type shapes.
_TYPED = (ast.List, ast.Dict, ast.Call, ast.ListComp, ast.DictComp)


class Literals:
    """Finds the types of literals. `value` visits any expression."""

    program: Any
    errors: Refusal
    frame: Frame
    parameters: set[str]

    def value(self, node: ast.expr, expected: Kind = UNKNOWN) -> Value:
        """Return the type of an expression, where a value of type `expected` is wanted."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.value(child)
            return Value()
        result: Value = method(node, expected) if type(node) in _TYPED \
            else method(node)
        return result

    def quiet(self, node: ast.expr) -> Value:
        """Like `value`, without reports."""
        self.errors.muted += 1
        try:
            return self.value(node)
        finally:
            self.errors.muted -= 1

    def evaluated(self, node: ast.expr) -> Kind:
        """Return the type that an expression in the source names."""
        raise NotImplementedError

    def truth(self, node: ast.expr) -> Truth:
        """Return what is known of a condition."""
        raise NotImplementedError

    def refined(self, node: ast.expr, holds: bool) -> dict[str, Kind]:
        """Return the types of variables where a condition holds, or where it does not."""
        raise NotImplementedError

    def check_condition(self, node: ast.expr) -> None:
        """Refuse a condition whose type has no truth."""
        raise NotImplementedError

    def comprehension(self, loops: list[ast.comprehension]) -> AbstractContextManager[None]:
        """Enter the block of a comprehension's variables."""
        raise NotImplementedError

    # ---------------------------------------------------------------------------- literals

    def _constant(self, node: ast.Constant) -> Value:
        kind = NONE if node.value is None else find_value_kind(node.value)
        return Value(kind, node.value)

    def _joinedstr(self, node: ast.JoinedStr) -> Value:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.value(part.value)
        return Value(STR)

    def _tuple(self, node: ast.Tuple) -> Value:
        if any(isinstance(element, ast.Starred) for element in node.elts):
            return Value()
        return Value(make_tuple(*(self.value(element).kind for element in node.elts)))

    def _list(self, node: ast.List, expected: Kind = UNKNOWN) -> Value:
        kinds = [self.value(element).kind for element in node.elts]
        if expected.name == "Union":
            return Value(choose_list(expected, kinds, self.errors, node))
        lists = [expected] if expected.name == "List" else []
        if is_known(expected) and node.elts and expected.name in ("int", "float", "str", "Tensor"):
            self.errors.report("list-annotation", node, annotated=expected)
        if not kinds or not all(map(is_known, kinds)):
            return Value(lists[0] if len(lists) == 1 else make_list(UNKNOWN))
        if len(lists) == 1:
            element = lists[0].inner[0]
            if not all(fits(kind, element) for kind in kinds):
                actual = make_union(*kinds)
                self.errors.report("list-elements", node, annotated=lists[0], actual=actual)
            return Value(lists[0])
        same = len(set(kinds)) == 1
        simple = all(kind in (*NUMBERS, STR) for kind in kinds)
        return Value(make_list(kinds[0] if same else make_union(*kinds) if simple else UNKNOWN))

    def _dict(self, node: ast.Dict, expected: Kind = UNKNOWN) -> Value:
        keys = [UNKNOWN if key is None else self.value(key).kind for key in node.keys]
        values = [self.value(value).kind for value in node.values]
        if expected.name == "Union":
            return Value(choose_dictionary(expected, keys, values, self.errors, node))
        if expected.name == "Dict" or not keys:
            return Value(expected if expected.name == "Dict" else make_dict(UNKNOWN, UNKNOWN))
        for key, place in zip(keys, node.keys, strict=True):
            if {key, keys[0]} <= {INT, FLOAT, STR} and key != keys[0] and place is not None:
                self.errors.report("dictionary-literal", place, first=keys[0], second=key)
        same = len(set(values)) == 1
        return Value(make_dict(keys[0], values[0] if same else UNKNOWN))
