"""Statements: what each sets, where control leaves, and how branches come together."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager

from .assignments import Assignments, becomes_list
from .types import (
    INT, NONE, NUMBERS, STR, TENSOR, UNKNOWN, Kind, fits, is_known,
    unify,
)
from .values import Frame, Truth, Value, Variable

__all__ = ["Statements", "first_assignments"]


def assigned_names(nodes: list[ast.stmt]) -> set[str]:
    """Return the names that statements set."""
    return {node.id for statement in nodes for node in ast.walk(statement)
            if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del))}


def first_assignments(nodes: list[ast.stmt]) -> dict[str, int]:
    """Return the names that statements set, each with the first line where they do.

    Variables of comprehensions are not among them.
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
        """Check statements up to one that leaves."""
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
            if item.optional_vars is not None:
                self.assign(item.optional_vars, Value())
        self.block(node.body)

    def _visit_delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if not isinstance(target, ast.Subscript):
                continue
            if isinstance(target.slice, ast.Slice):
                self.errors.report("delete-slice", target)
            owner = self.value(target.value).kind.python
            if isinstance(owner, type) and not hasattr(owner, "__delitem__"):
                self.errors.report("no-delitem", target)
        self.frame.forget(assigned_names([node]))

    # ------------------------------------------------------------------------ control flow

    def _visit_return(self, node: ast.Return) -> None:
        expected = self.annotated_return or UNKNOWN
        kind = NONE if node.value is None else self.value(node.value, expected).kind
        self.frame.exits = True
        if not fits(kind, expected) and not becomes_list(kind, expected) and is_known(expected):
            self.errors.report("return-type", node, annotated=expected, actual=kind)
        self.returned.append(kind)

    def _visit_raise(self, node: ast.Raise) -> None:
        if isinstance(node.exc, ast.Call):  # an exception is no value elsewhere
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

    def _visit_if(self, node: ast.If) -> None:
        self.check_condition(node.test)
        truth = self.truth(node.test)
        if truth in (Truth.ALWAYS, Truth.NEVER):
            self.frame.refine(self.refined(node.test, truth is Truth.ALWAYS))
            self.block(node.body if truth is Truth.ALWAYS else node.orelse)
            return
        self.errors.muted += truth is Truth.UNSURE
        try:
            first = self._branch(node.test, node.body, True)
            second = self._branch(node.test, node.orelse, False)
        finally:
            self.errors.muted -= truth is Truth.UNSURE
        if truth is Truth.UNSURE:
            self.has_unsure_branch = True
            self.frame.forget({*first.variables, *second.variables})
            self.returned.append(UNKNOWN)
            return
        self._join(first, second)

    def _branch(self, test: ast.expr, body: list[ast.stmt], holds: bool) -> Frame:
        outer = self.frame
        self.frame = frame = Frame(outer)
        frame.refine(self.refined(test, holds))
        try:
            self.block(body)
        finally:
            self.frame = outer
        return frame

    def _join(self, first: Frame, second: Frame) -> None:
        """Take over what two branches set, or an error for what only one of them sets."""
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
            known = self.frame.find(name)
            if kind is None and known is None:
                types = {"name": name, "first": str(left.kind), "second": str(right.kind)}
                error = ("branch-type", types)
                self.frame.variables[name] = Variable(UNKNOWN, UNKNOWN, error=error)
                continue
            failed = left.error or right.error
            declared = kind or UNKNOWN if known is None else known.declared
            self.frame.variables[name] = Variable(kind or UNKNOWN, declared, failed)

    def _visit_while(self, node: ast.While) -> None:
        self._forget_refined(node.body)
        self.check_condition(node.test)
        self._loop(node.body)

    def _visit_for(self, node: ast.For) -> None:
        kind = self.value(node.iter).kind
        if isinstance(node.iter, ast.Tuple) and isinstance(node.target, ast.Tuple) \
                and all(isinstance(part, ast.List) for part in node.iter.elts):
            self.errors.report("iterables", node.iter)
        if kind in NUMBERS:
            self.errors.report("iterable", node, kind=kind)
        element = element_of(kind)
        if element is None:  # unrolled, maybe: each round may give variables another type
            self.errors.muted += 1
            try:
                outer, self.frame = self.frame, Frame(self.frame)
                self.assign(node.target, Value())
                self.block(node.body)
            finally:
                self.errors.muted -= 1
                self.frame = outer
            self.frame.forget(assigned_names([node]))
            return
        self._forget_refined(node.body)
        self._loop(node.body, node.target, element)

    def _forget_refined(self, body: list[ast.stmt]) -> None:
        """Drop what branches found out about variables that a loop sets."""
        for name in assigned_names(body):
            known = self.frame.find(name)
            if known is not None and known.kind != known.declared:
                self.frame.forget({name})

    def _loop(self, body: list[ast.stmt], target: ast.expr | None = None,
              element: Kind = UNKNOWN) -> None:
        outer = self.frame
        self.frame = Frame(outer)
        try:
            if target is not None:
                self.frame.forget({n.id for n in ast.walk(target) if isinstance(n, ast.Name)})
                if isinstance(target, ast.Name):
                    self.frame.variables[target.id] = Variable(element, element)
                else:
                    self.errors.muted += 1
                    self.assign(target, Value(element))
                    self.errors.muted -= 1
            self.block(body)
        finally:
            self.frame = outer

    @contextmanager
    def comprehension(self, loops: list[ast.comprehension]) -> Iterator[None]:
        """Enter the block of a comprehension's variables."""
        outer = self.frame
        is_quiet = False
        for loop in loops:
            element = element_of(self.value(loop.iter).kind)
            is_quiet |= element is None
            self.frame = Frame(self.frame)
            self.errors.muted += 1
            self.frame.forget({n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)})
            self.assign(loop.target, Value(UNKNOWN if element is None else element))
            for condition in loop.ifs:
                self.frame.refine(self.refined(condition, True))
            self.errors.muted -= 1
        self.errors.muted += is_quiet
        try:
            yield
        finally:
            self.errors.muted -= is_quiet
            self.frame = outer


def element_of(kind: Kind) -> Kind | None:
    """Return the type of the elements that a loop goes over, or None if it may be unrolled."""
    if kind.name == "range":
        return INT
    if kind.name == "List" and is_known(kind):
        return kind.inner[0]
    if kind.name == "Dict" and is_known(kind):
        return kind.inner[0]
    return kind if kind in (STR, TENSOR) else None
