"""Checks of statements: the variables that each sets, where control leaves, how branches join."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from .assignments import Assignments, converts_to_list
from .types import INT, NONE, NUMBERS, STR, TENSOR, UNKNOWN, Kind, fits, is_known, unify
from .values import Frame, Truth, Value, Variable

__all__ = ["Statements", "find_first_assignments"]


def find_assigned_names(nodes: list[ast.stmt]) -> set[str]:
    """Return the names that statements set."""
    return {node.id for statement in nodes for node in ast.walk(statement)
            if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del))}


def find_first_assignments(nodes: list[ast.stmt]) -> dict[str, int]:
    """Return the names that statements set, each with the first line that sets it.

    Variables of comprehensions are left out.
    """
    result: dict[str, int] = {}
    inner = {id(part) for statement in nodes for node in ast.walk(statement)
             if isinstance(node, ast.comprehension) for part in ast.walk(node.target)}
    for statement in nodes:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) \
                    and id(node) not in inner:
                result[node.id] = min(node.lineno, result.get(node.id, node.lineno))
    return result


class Statements(Assignments):
    """Checks the statements of one function. `returned` collects the types that it returns."""

    returned: list[Kind]
    annotated_return: Kind | None
    has_unsure_branch = False

    def block(self, body: list[ast.stmt]) -> None:
        """Check statements, up to the first that leaves the block."""
        for statement in body:
            if self.frame.exits:
                return
            method = getattr(self, f"_visit_{type(statement).__name__.lower()}", None)
            if method is not None:
                method(statement)

    def _visit_expr(self, node: ast.Expr) -> None:
        self.value(node.value)

    def _visit_with(self, node: ast.With) -> None:
        for item in node.items:
            kind = self.value(item.context_expr).kind
            if isinstance(kind.python, type) and not all(
                    hasattr(kind.python, name) for name in ("__enter__", "__exit__")):
                self.errors.report("context", item.context_expr)
            elif kind == STR:
                self.errors.report("context-object", item.context_expr)
            elif isinstance(kind.python, type):
                self._check_manager(kind.python, item.context_expr)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, Value())
        self.block(node.body)

    def _check_manager(self, kind: type, node: ast.expr) -> None:
        """Refuse a script class whose __enter__ or __exit__ takes other arguments."""
        enter, leave = (inspect.getattr_static(kind, n) for n in ("__enter__", "__exit__"))
        if not isinstance(enter, FunctionType) or not isinstance(leave, FunctionType):
            return
        if len(inspect.signature(enter).parameters) != 1:
            self.errors.report("enter-arguments", node)
        parameters = list(inspect.signature(leave).parameters.values())
        if len(parameters) != 4:
            self.errors.report("exit-arguments", node)
        for number, parameter in enumerate(parameters[1:], 1):
            if parameter.annotation not in (Any, object, "Any", parameter.empty):
                self.errors.report("exit-types", node, number=number)

    def _visit_delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if not isinstance(target, ast.Subscript):
                continue
            if isinstance(target.slice, ast.Slice):
                self.errors.report("delete-slice", target)
            owner = self.value(target.value).kind.python
            if isinstance(owner, type) and not hasattr(owner, "__delitem__"):
                self.errors.report("no-delitem", target)
        self.frame.forget(find_assigned_names([node]))

    # ------------------------------------------------------------------------ control flow

    def _visit_return(self, node: ast.Return) -> None:
        expected = self.annotated_return or UNKNOWN
        kind = NONE if node.value is None else self.value(node.value, expected).kind
        self.frame.exits = True
        if not fits(kind, expected) and not converts_to_list(kind, expected) and is_known(expected):
            self.errors.report("return-type", node, annotated=expected, actual=kind)
        self.returned.append(kind)

    def _visit_raise(self, node: ast.Raise) -> None:
        if isinstance(node.exc, ast.Call):  # exceptions are values only here
            for part in (node.exc.func, *node.exc.args):
                self.value(part)
        elif node.exc is not None:
            self.value(node.exc)
        self.frame.exits = True

    def _visit_break(self, node: ast.stmt) -> None:
        self.frame.exits = True

    _visit_continue = _visit_break

    def _visit_assert(self, node: ast.Assert) -> None:
        self.check_condition(node.test)
        self.frame.refine(self.refined(node.test, True))

    @contextmanager
    def _enter_block(self) -> Iterator[Frame]:
        """Enter a block with variables of its own."""
        outer = self.frame
        self.frame = Frame(outer)
        try:
            yield self.frame
        finally:
            self.frame = outer

    @contextmanager
    def _mute(self, is_muted: bool = True) -> Iterator[None]:
        """Report no errors meanwhile."""
        self.errors.muted += is_muted
        try:
            yield
        finally:
            self.errors.muted -= is_muted

    def _visit_if(self, node: ast.If) -> None:
        self.check_condition(node.test)
        truth = self.truth(node.test)
        if truth in (Truth.ALWAYS, Truth.NEVER):
            self.frame.refine(self.refined(node.test, truth is Truth.ALWAYS))
            self.block(node.body if truth is Truth.ALWAYS else node.orelse)
            return
        with self._mute(truth is Truth.UNSURE):
            first = self._check_branch(node.test, node.body, True)
            second = self._check_branch(node.test, node.orelse, False)
        if truth is Truth.UNSURE:
            self.has_unsure_branch = True
            self.frame.forget({*first.variables, *second.variables})
            self.returned.append(UNKNOWN)
            return
        self._join(first, second)

    def _check_branch(self, test: ast.expr, body: list[ast.stmt], holds: bool) -> Frame:
        """Check the branch where a test holds, or does not; return its variables."""
        with self._enter_block() as frame:
            frame.refine(self.refined(test, holds))
            self.block(body)
        return frame

    def _join(self, first: Frame, second: Frame) -> None:
        """Set the variables that both branches set. Using one that only one sets is an error."""
        self.frame.exits = first.exits and second.exits
        if self.frame.exits:
            return
        if first.exits or second.exits:
            self.frame.variables |= (second if first.exits else first).variables
            return
        for name in {**first.variables, **second.variables}:
            left, right = first.find(name), second.find(name)
            if left is None or right is None:
                branch = "true" if left is None else "false"
                error = ("branch-undefined", {"name": name, "branch": branch})
                self.frame.variables[name] = Variable(UNKNOWN, UNKNOWN, error=error)
                continue
            kind = unify(left.kind, right.kind)
            earlier = self.frame.find(name)
            if kind is None and earlier is None:
                types = {"name": name, "first": str(left.kind), "second": str(right.kind)}
                error = ("branch-type", types)
                self.frame.variables[name] = Variable(UNKNOWN, UNKNOWN, error=error)
                continue
            kind = kind or UNKNOWN
            declared = kind if earlier is None else earlier.declared
            self.frame.variables[name] = Variable(kind, declared, left.error or right.error)

    def _visit_while(self, node: ast.While) -> None:
        self._forget_refined(node.body)
        self.check_condition(node.test)
        self._check_loop(node.body)

    def _visit_for(self, node: ast.For) -> None:
        kind = self.value(node.iter).kind
        if isinstance(node.iter, ast.Tuple) and isinstance(node.target, ast.Tuple) \
                and all(isinstance(part, ast.List) for part in node.iter.elts):
            self.errors.report("iterables", node.iter)
        if kind in NUMBERS:
            self.errors.report("iterable", node, kind=kind)
        element = find_element(kind)
        if element is None:  # maybe unrolled: a variable's type may differ between iterations
            with self._mute(), self._enter_block():
                self.assign(node.target, Value())
                self.block(node.body)
            self.frame.forget(find_assigned_names([node]))
            return
        self._forget_refined(node.body)
        self._check_loop(node.body, node.target, element)

    def _forget_refined(self, body: list[ast.stmt]) -> None:
        """Forget the types that branches inferred for variables that a loop sets."""
        for name in find_assigned_names(body):
            variable = self.frame.find(name)
            if variable is not None and variable.kind != variable.declared:
                self.frame.forget({name})

    def _check_loop(self, body: list[ast.stmt], target: ast.expr | None = None,
                    element: Kind = UNKNOWN) -> None:
        """Check a loop's body; a `for` loop sets its target to values of type `element`."""
        with self._enter_block() as frame:
            if target is not None:
                frame.forget({n.id for n in ast.walk(target) if isinstance(n, ast.Name)})
                if isinstance(target, ast.Name):
                    frame.variables[target.id] = Variable(element, element)
                else:
                    with self._mute():
                        self.assign(target, Value(element))
            self.block(body)

    @contextmanager
    def comprehension(self, loops: list[ast.comprehension]) -> Iterator[None]:
        """Enter a block with the variables of a comprehension."""
        outer = self.frame
        is_muted = False
        for loop in loops:
            element = find_element(self.value(loop.iter).kind)
            is_muted |= element is None
            self.frame = Frame(self.frame)
            self.errors.muted += 1
            self.frame.forget({n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)})
            self.assign(loop.target, Value(UNKNOWN if element is None else element))
            for condition in loop.ifs:
                self.frame.refine(self.refined(condition, True))
            self.errors.muted -= 1
        try:
            with self._mute(is_muted):
                yield
        finally:
            self.frame = outer


def find_element(kind: Kind) -> Kind | None:
    """Return the type of the elements that a loop iterates over, or None if it may be unrolled."""
    if kind.name == "range":
        return INT
    if kind.name == "List" and is_known(kind):
        return kind.inner[0]
    if kind.name == "Dict" and is_known(kind):
        return kind.inner[0]
    return kind if kind in (STR, TENSOR) else None
