"""Conditions: which branch runs for certain, and what each says about the types of variables."""

from __future__ import annotations

import ast
from typing import Any

from ...nn.module import Module
from .operators import Operators
from .types import ANY, BOOL, NONE, NUMBERS, TENSOR, UNKNOWN, Kind, fits, is_known, make_union
from .values import Truth, remove_member

__all__ = ["Conditions"]


_OPPOSITE = {Truth.ALWAYS: Truth.NEVER, Truth.NEVER: Truth.ALWAYS}


class Conditions(Operators):
    """Decides conditions and refines variables by them, as PyTorch's compiler does."""

    def truth(self, node: ast.expr) -> Truth:
        """Return what is known of a condition."""
        if isinstance(node, ast.Constant):
            return Truth.ALWAYS if node.value else Truth.NEVER
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.truth(node.operand)
            return _OPPOSITE.get(inner, inner)
        if isinstance(node, ast.BoolOp):
            return self._decide_several(node)
        if isinstance(node, ast.Compare):
            return self._decide_comparison(node)
        if isinstance(node, ast.Call):
            return self._decide_call(node)
        if isinstance(node, ast.BinOp):
            is_number = self.quiet(node).kind in (*NUMBERS, TENSOR)
            return Truth.AT_RUN_TIME if is_number else Truth.UNSURE
        if isinstance(node, ast.Name):
            variable = self.frame.find(node.id)
            is_input = variable is not None and node.id in self.parameters
            return Truth.AT_RUN_TIME if is_input and variable is not None and \
                variable.kind in (*NUMBERS, TENSOR) else Truth.UNSURE
        return Truth.UNSURE

    def _decide_several(self, node: ast.BoolOp) -> Truth:
        decides = Truth.ALWAYS if isinstance(node.op, ast.Or) else Truth.NEVER
        truths = [self.truth(value) for value in node.values]
        if decides in truths:
            return decides
        if Truth.UNSURE in truths:
            return Truth.UNSURE
        return Truth.AT_RUN_TIME if Truth.AT_RUN_TIME in truths else _OPPOSITE[decides]

    def _decide_comparison(self, node: ast.Compare) -> Truth:
        if not isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            return Truth.AT_RUN_TIME
        sides = [self.quiet(node.left).kind, self.quiet(node.comparators[0]).kind]
        if NONE not in sides or UNKNOWN in sides:
            return Truth.UNSURE
        other = sides[0] if sides[1] == NONE else sides[1]
        if other == ANY or other.name == "Union":
            return Truth.AT_RUN_TIME
        is_none = Truth.ALWAYS if other == NONE else Truth.NEVER
        return is_none if isinstance(node.ops[0], ast.Is) else _OPPOSITE[is_none]

    def _decide_call(self, node: ast.Call) -> Truth:
        function = self.quiet(node.func).static
        name = getattr(function, "__name__", "")
        if name == "is_scripting":
            return Truth.ALWAYS
        if function is bool and len(node.args) == 1:
            is_value = self.quiet(node.args[0]).kind in (*NUMBERS, TENSOR)
            return Truth.AT_RUN_TIME if is_value else Truth.UNSURE
        if name == "isinstance" and len(node.args) == 2:
            value, target = self.quiet(node.args[0]).kind, self._find_targets(node.args[1])
            if not is_known(value) or target is None or not is_known(target):
                return Truth.UNSURE
            if value == ANY or value.name == "Union":
                return Truth.AT_RUN_TIME
            return Truth.UNSURE if fits(value, target) != (value == target) else (
                Truth.ALWAYS if value == target else Truth.NEVER)
        if name == "hasattr" and len(node.args) == 2:
            owner, attribute = self.quiet(node.args[0]).static, node.args[1]
            if isinstance(owner, Module) and isinstance(attribute, ast.Constant):
                has = hasattr(owner, str(attribute.value))
                return Truth.ALWAYS if has else Truth.NEVER
        return Truth.UNSURE

    def _find_targets(self, node: ast.expr) -> Kind | None:
        """Return the type that isinstance looks for; several are a union."""
        if isinstance(node, ast.Tuple):
            several = [self._find_targets(element) for element in node.elts]
            return None if None in several else make_union(*(k for k in several if k is not None))
        return self.evaluated(node)

    # ---------------------------------------------------------------------------- refinements

    def refined(self, node: ast.expr, holds: bool) -> dict[str, Kind]:
        """Return the types of variables where a condition holds, or where it does not."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.refined(node.operand, not holds)
        if isinstance(node, ast.BoolOp):
            if isinstance(node.op, ast.And) is holds:
                kinds: dict[str, Kind] = {}
                for value in node.values:
                    kinds |= self.refined(value, holds)
                return kinds
            names = {name for value in node.values for name in self.refined(value, holds)}
            return dict.fromkeys(names, UNKNOWN)  # one of several conditions decided
        name, actual = self._find_test(node)
        variable = None if name is None else self.frame.find(name)
        if name is None or variable is None or actual is None:
            return {}
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.IsNot):
            holds = not holds
        return {name: _narrow(variable.kind, actual, holds)}

    def _find_test(self, node: ast.expr) -> tuple[str | None, Kind | None]:
        """Return the variable and type of `x is None`, `x is not None` and `isinstance(x, T)`."""
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            left, right = node.left, node.comparators[0]
            if isinstance(left, ast.Constant):
                left, right = right, left
            if isinstance(left, ast.Name) and isinstance(right, ast.Constant) \
                    and right.value is None:
                return left.id, NONE
        if isinstance(node, ast.Call) and len(node.args) == 2 \
                and isinstance(node.args[0], ast.Name) and getattr(
                    self.quiet(node.func).static, "__name__", "") == "isinstance":
            return node.args[0].id, self._find_targets(node.args[1]) or UNKNOWN
        return None, None

    def check_condition(self, node: ast.expr) -> None:
        """Refuse a condition whose type has no truth."""
        value = self.value(node)
        method: Any = getattr(value.kind.python, "__bool__", None)
        if method is not None:
            actual = self.program.find_result(method)
            if is_known(actual) and actual != BOOL:
                self.errors.report("condition", node, kind=actual)


def _narrow(kind: Kind, actual: Kind, holds: bool) -> Kind:
    members = kind.inner if kind.name == "Union" else (kind,)
    if kind == UNKNOWN or actual == UNKNOWN:
        return UNKNOWN
    if holds:
        matching = [member for member in members if fits(member, actual)]
        return actual if kind == ANY else make_union(*matching) if matching else UNKNOWN
    if kind == ANY:
        return ANY
    targets = actual.inner if actual.name == "Union" else (actual,)
    for target in targets:
        kind = remove_member(kind, target) if kind.name == "Union" else kind
    return kind if kind not in targets else UNKNOWN


