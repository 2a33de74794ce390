"""Assignments: what each sets, and what a variable, attribute or container cannot take."""

from __future__ import annotations

import ast

from ...nn.module import Module
from .calls import Calls
from .types import (
    NUMBERS, STR, TENSOR, UNKNOWN, Kind, make_dict, fits, accepts_argument, is_known,
)
from .values import NO_VALUE, Value, Variable

__all__ = ["Assignments", "converts_to_list"]


class Assignments(Calls):
    """Checks the assignments of one function."""

    def _visit_assign(self, node: ast.Assign) -> None:
        if node.type_comment:
            comment = ast.parse(node.type_comment, mode="eval").body
            self._check_annotated(node, node.targets[0], comment, node.value)
            return
        value = self.value(node.value)
        if value.kind == make_dict(UNKNOWN, UNKNOWN) and _is_empty(node.value):
            value = Value(make_dict(STR, TENSOR))
        for target in node.targets:
            self.assign(target, value, node.value)

    def _visit_annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._check_annotated(node, node.target, node.annotation, node.value)

    def _check_annotated(self, node: ast.stmt, target: ast.expr, annotation: ast.expr,
                         expression: ast.expr) -> None:
        kind = self.evaluated(annotation)
        if not is_known(kind) or hasattr(kind.python, "_torchscript_interface"):
            self.quiet(expression)
            self.assign(target, Value(kind))
            return
        value = self.value(expression, kind)
        self._check_dictionary(expression, kind)
        if not isinstance(target, ast.Name):
            self.assign(target, Value(kind))
            return
        outside = self.frame.find_outside(target.id)
        is_defined = outside is not None and outside.error is None
        if is_defined and target.id not in self.frame.variables:
            self.errors.report("reannotated", target, name=target.id)
        if not fits(value.kind, kind) and not converts_to_list(value.kind, kind):
            self.errors.report("variable-annotation", target, name=target.id, annotated=kind,
                               actual=value.kind)
        self.frame.variables[target.id] = Variable(kind, kind)

    def _check_dictionary(self, node: ast.expr, kind: Kind) -> None:
        """Refuse `dict([...])` and `dict(zip(...))` of other keys or values than annotated."""
        if kind.name != "Dict" or not isinstance(node, ast.Call) or len(node.args) != 1 \
                or self.quiet(node.func).static is not dict:
            return
        (argument,) = node.args
        pair = self.quiet(argument).kind
        if pair.name == "List" and pair.inner[0].name == "Tuple":
            parts = pair.inner[0].inner
        elif isinstance(argument, ast.Call) and self.quiet(argument.func).static is zip:
            kinds = [self.quiet(arg).kind for arg in argument.args]
            parts = tuple(k.inner[0] for k in kinds if k.name == "List")
        else:
            return
        if len(parts) != 2 or not all(map(is_known, parts)):
            return
        for name, actual, expected in zip(("key", "value"), parts, kind.inner, strict=True):
            if name == "key" and actual.name == "Union":
                self.errors.report("dictionary-mixed", node, actual=actual)
            if not fits(actual, expected):
                self.errors.report(
                    "dictionary-value", node, annotated=kind, part=name, actual=actual)

    def _visit_augassign(self, node: ast.AugAssign) -> None:
        value = self.value(node.value).kind
        if isinstance(node.target, ast.Name):
            left = self.value(ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
            kind = self.arithmetic(node, node.op, left.kind, value)
            self.assign(node.target, Value(kind))
        elif isinstance(node.target, ast.Subscript):
            owner = self.value(node.target.value).kind
            if owner.name == "Tuple" and owner.python is None:
                self.errors.report("augmented-tuple", node.target, kind=owner)

    def assign(self, target: ast.expr, value: Value, source: ast.expr | None = None) -> None:
        """Set a target, and refuse what its variable, attribute or container cannot take."""
        if isinstance(target, ast.Name):
            self._set_name(target, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target, value.kind, source)
        elif isinstance(target, ast.Attribute):
            self._set_attribute(target, value.kind)
        elif isinstance(target, ast.Subscript):
            self._set_item(target, value.kind)

    def _set_name(self, target: ast.Name, value: Value) -> None:
        known, outside = self.frame.find(target.id), self.frame.find_outside(target.id)
        if outside is not None and outside.error is None and not fits(
                value.kind, outside.declared) and is_known(value.kind):
            self.errors.report("reassigned", target, name=target.id, previous=outside.declared,
                               actual=value.kind)
        kind = value.kind
        declared = kind
        if known is not None and outside is not None:
            declared = known.declared
        self.parameters.discard(target.id)
        static = value.static if isinstance(value.static, Module) else NO_VALUE
        self.frame.variables[target.id] = Variable(kind, declared, static=static)

    def _unpack(self, target: ast.Tuple | ast.List, kind: Kind, source: ast.expr | None) -> None:
        need = len(target.elts)
        if any(isinstance(element, ast.Starred) for element in target.elts):
            self.frame.forget({n.id for n in ast.walk(target) if isinstance(n, ast.Name)})
            return
        if kind in NUMBERS:
            self.errors.report("tuple", source or target, kind=kind)
        if kind.name == "Tuple" and len(kind.inner) != need:
            code = "unpack-many" if len(kind.inner) > need else "unpack-few"
            self.errors.report(code, target, need=need, actual=len(kind.inner))
        matching = kind.name == "Tuple" and len(kind.inner) == need
        parts = kind.inner if matching else (UNKNOWN,) * need
        for element, part in zip(target.elts, parts, strict=True):
            self.assign(element, Value(part))

    def _set_attribute(self, target: ast.Attribute, actual: Kind) -> None:
        owner = self.value(target.value)
        if isinstance(owner.static, Module):
            self.program.set_attribute(owner.static, target, actual, self.errors)
        elif isinstance(owner.kind.python, type) and owner.kind.python is self.script_class():
            self.program.set_class_attribute(self, target, actual)

    def script_class(self) -> type | None:
        """Return the script class whose method this is, or None."""
        raise NotImplementedError

    def _set_item(self, target: ast.Subscript, actual: Kind) -> None:
        owner = self.value(target.value).kind
        index = UNKNOWN if isinstance(target.slice, ast.Slice) else self.value(target.slice).kind
        if owner.name == "Tuple" and owner.python is None:
            self.errors.report("subscripted-tuple", target, kind=owner)
        if owner.name == "Dict" and is_known(owner):
            key, element = owner.inner
            for name, expected, kind in (("idx", key, index), ("v", element, actual)):
                if is_known(kind) and not accepts_argument(kind, expected):
                    self.errors.report(
                        "arguments", target, name=name, expected=expected, actual=kind, operator=
                        f"aten::_set_item.{key}(Dict({key}, t)(a!) l, {key}(b -> *) idx, "
                        "t(c -> *) v) -> ()")


def _is_empty(node: ast.expr) -> bool:
    return not (node.args or node.keywords) if isinstance(node, ast.Call) else \
        isinstance(node, ast.Dict) and not node.keys


def converts_to_list(kind: Kind, target: Kind) -> bool:
    """Return whether a tuple is accepted where a list is expected."""
    return kind.name == "Tuple" and target.name == "List" and accepts_argument(kind, target)
