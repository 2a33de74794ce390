"""Types of operators, subscripts, branches and comprehensions."""

from __future__ import annotations

import ast
from typing import Any

from ...nn import ModuleDict, ModuleList, Sequential
from .container_choice import choose_list
from .literals import Literals
from .types import (
    BOOL, COMPLEX, FLOAT, INT, NONE, NUMBERS, STR, TENSOR, UNKNOWN, Kind, fits, is_known, make_list,
    make_dict, unify,
)
from .values import NO_VALUE, Frame, Truth, Value

__all__ = ["Operators", "find_literal"]

_SYMBOLS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Mod: "remainder",
            ast.Pow: "pow", ast.FloorDiv: "floordiv"}
_METHODS = {ast.Add: "__add__", ast.Sub: "__sub__", ast.Mult: "__mul__", ast.Div: "__truediv__",
            ast.Mod: "__mod__", ast.Pow: "__pow__"}  # of script classes
_RANKS = {BOOL: 0, INT: 1, FLOAT: 2, COMPLEX: 3}


class Operators(Literals):
    """Finds the types of expressions without calls."""

    def _binop(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left).kind, self.value(node.right).kind
        if left == STR and isinstance(node.op, ast.Mod):
            return Value(STR)
        name = _METHODS.get(type(node.op), "")
        if isinstance(left.python, type) and left.python.__mro__[1:] == (object,) and name \
                and not hasattr(left.python, name):
            self.errors.report("attribute", node, kind=left, name=name, hint="")
        return Value(self.arithmetic(node, node.op, left, right))

    def arithmetic(self, node: ast.AST, operator: ast.operator, left: Kind, right: Kind) -> Kind:
        """Return the type of a sum, product etc. Refuse strings and None among numbers."""
        if left in NUMBERS and right in NUMBERS and type(operator) in _SYMBOLS:
            if isinstance(operator, ast.Div):
                return COMPLEX if COMPLEX in (left, right) else FLOAT
            if isinstance(operator, ast.Pow):
                return FLOAT if FLOAT in (left, right) else UNKNOWN
            return max((left, right, INT), key=_RANKS.__getitem__)
        scalars = (*NUMBERS, TENSOR)
        if TENSOR in (left, right) and left in scalars and right in scalars:
            return TENSOR
        if left == right == STR and isinstance(operator, ast.Add):
            return STR
        operands = [k for k in (left, right) if k == NONE or k.name == "Union" and NONE in k.inner
                    and is_known(k) and all(m in (*scalars, STR, NONE) for m in k.inner)]
        if STR in (left, right) and left in (*scalars, STR) and right in (*scalars, STR) \
                and isinstance(operator, (ast.Add, ast.Sub, ast.Div)):
            operands.append(STR)
        others = [k for k in (left, right) if k not in operands]
        if operands and type(operator) in _SYMBOLS and all(k in (*scalars, STR) for k in others):
            name = "self" if left in operands else "other"
            self.errors.report(
                "arguments", node, operator=f"aten::{_SYMBOLS[type(operator)]}.Tensor(Tensor self, "
                "Tensor other) -> Tensor", expected=TENSOR, name=name, actual=operands[0])
        if left == right and left.name == "List" and isinstance(operator, ast.Add):
            return left
        return UNKNOWN

    def _unaryop(self, node: ast.UnaryOp) -> Value:
        inner = self.value(node.operand).kind
        if isinstance(node.op, ast.Not):
            return Value(BOOL)
        return Value(inner if inner in (INT, FLOAT, COMPLEX, TENSOR) else UNKNOWN)

    def _compare(self, node: ast.Compare) -> Value:
        kinds = [self.value(side).kind for side in (node.left, *node.comparators)]
        if isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
            return Value(BOOL)
        simple = all(kind in (*NUMBERS, STR) for kind in kinds)
        return Value(BOOL if simple else TENSOR if kinds == [TENSOR, TENSOR] else UNKNOWN)

    # ---------------------------------------------------------------------------- subscripts

    def _subscript(self, node: ast.Subscript) -> Value:
        owner = self.value(node.value)
        if isinstance(owner.static, (ModuleList, ModuleDict, Sequential)):
            return self._find_submodule(owner.static, node)
        index = UNKNOWN if isinstance(node.slice, ast.Slice) else self.value(node.slice).kind
        kind = owner.kind
        if isinstance(node.slice, ast.Slice) and kind.name in ("List", "str", "Tensor"):
            return Value(kind)
        if kind == TENSOR:
            return Value(TENSOR)
        if kind.name == "List" and not isinstance(node.slice, ast.Slice):
            return Value(kind.inner[0])
        if kind.name == "Dict":
            key = kind.inner[0]
            if is_known(index) and is_known(key) and not fits(index, key) and index != TENSOR:
                self.errors.report(
                    "arguments", node, expected=key, name="key", actual=index, operator=
                    f"aten::__getitem__.Dict_{key}(Dict({key}, t) self, {key} key) -> t(*)")
            return Value(kind.inner[1])
        if kind.name == "Tuple" and kind.python is None:
            return Value(self._find_member(kind, node))
        return Value(STR if kind == STR else UNKNOWN)

    def _find_member(self, kind: Kind, node: ast.Subscript) -> Kind:
        index = find_literal(node.slice)
        if not isinstance(index, int):
            return UNKNOWN
        if not -len(kind.inner) <= index < len(kind.inner):
            self.errors.report("tuple-index", node, length=len(kind.inner), index=index)
            return UNKNOWN
        return kind.inner[index]

    def _find_submodule(self, owner: Any, node: ast.Subscript) -> Value:
        """Return the module at an index, which must be a literal."""
        index = find_literal(node.slice)
        if isinstance(node.slice, ast.Slice):
            return Value()
        if isinstance(owner, ModuleDict) and type(owner).__getitem__ is ModuleDict.__getitem__:
            if isinstance(index, str) and index not in owner._modules:
                self.errors.report("module-key", node, key=index)
            elif index is None and self._is_plain_local(node.slice, STR):
                self.errors.report("module-index-literal", node)
            return Value(UNKNOWN, owner._modules.get(index, NO_VALUE)
                         if isinstance(index, str) else NO_VALUE)
        if isinstance(index, int) and isinstance(owner, (ModuleList, Sequential)):
            if not -len(owner) <= index < len(owner):
                self.errors.report("module-index", node, index=index, length=len(owner))
                return Value()
            return Value(UNKNOWN, owner[index])
        if index is None and isinstance(owner, ModuleList) and self._is_plain_local(
                node.slice, INT):
            self.errors.report("module-index-number", node)
        return Value()

    def _is_plain_local(self, node: ast.expr, kind: Kind) -> bool:
        """Return whether an index is a variable of the function, not unrolled from a loop."""
        variable = self.frame.find(node.id) if isinstance(node, ast.Name) else None
        return variable is not None and variable.kind == kind

    # ------------------------------------------------------------------------ branches

    def _ifexp(self, node: ast.IfExp) -> Value:
        truth = self.truth(node.test)
        self.check_condition(node.test)
        first = self._check_guarded(node.test, node.body, True, truth in (
            Truth.NEVER, Truth.UNSURE))
        second = self._check_guarded(node.test, node.orelse, False, truth in (
            Truth.ALWAYS, Truth.UNSURE))
        if truth in (Truth.ALWAYS, Truth.NEVER):
            return first if truth is Truth.ALWAYS else second
        if truth is Truth.UNSURE:
            return Value(first.kind if first.kind == second.kind else UNKNOWN)
        kind = unify(first.kind, second.kind)
        if kind is None:
            self.errors.report("if-expression", node, first=first.kind, second=second.kind)
        return Value(kind or UNKNOWN)

    def _check_guarded(self, test: ast.expr, node: ast.expr, holds: bool, is_quiet: bool) -> Value:
        """Return the type of an expression that a condition guards."""
        outer = self.frame
        self.frame = Frame(outer)
        self.frame.refine(self.refined(test, holds))
        try:
            return self.quiet(node) if is_quiet else self.value(node)
        finally:
            self.frame = outer

    def _boolop(self, node: ast.BoolOp) -> Value:
        outer, holds = self.frame, isinstance(node.op, ast.And)
        self.frame = Frame(outer)
        is_quiet = False
        try:
            for value in node.values:
                self.quiet(value) if is_quiet else self.value(value)
                is_quiet |= self.truth(value) is not Truth.AT_RUN_TIME
                self.frame.refine(self.refined(value, holds))
        finally:
            self.frame = outer
        return Value(BOOL)

    # ------------------------------------------------------------------------ comprehensions

    def _listcomp(self, node: ast.ListComp | ast.GeneratorExp, expected: Kind = UNKNOWN) -> Value:
        with self.comprehension(node.generators):
            element = self.value(node.elt).kind
        if expected.name == "Union":
            return Value(choose_list(expected, [element], self.errors, node))
        if expected.name == "List" and fits(element, expected.inner[0]):
            return Value(expected)
        return Value(make_list(element))

    _generatorexp = _listcomp

    def _dictcomp(self, node: ast.DictComp, expected: Kind = UNKNOWN) -> Value:
        with self.comprehension(node.generators):
            key, value = self.value(node.key).kind, self.value(node.value).kind
        if expected.name == "Dict" and all(map(fits, (key, value), expected.inner)):
            return Value(expected)
        return Value(make_dict(key, value))


def find_literal(node: ast.expr) -> Any:
    """Return a literal number or string, or None."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None
