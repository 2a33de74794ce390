"""Translate a TorchScript function to a Python function that can access only operators.

Every node of the result is created here or in expressions.py; the archive's tree is never reused.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from .expressions import BINARY, Expressions, mangle_local, build_runtime_call

__all__ = ["translate"]


def translate(
    definition: ast.FunctionDef, filename: str, bind: Callable[[str, str], str],
) -> ast.FunctionDef:
    """Translate a definition to Python.

    `bind(kind, name)` returns the global name of an operator ("operator"), a definition of the
    archive ("reference") or a constant ("constant").
    """
    return _Statements(filename, bind).function(definition)


class _Statements(Expressions):
    """Translates statements, one method each."""

    def function(self, definition: ast.FunctionDef) -> ast.FunctionDef:
        """Translate the whole definition."""
        declared = definition.args
        if definition.decorator_list or declared.vararg or declared.kwarg or declared.posonlyargs:
            self.refuse(definition, "decorators and variable arguments are no TorchScript")
        parameters = [*declared.args, *declared.kwonlyargs]
        self.locals = {a.arg for a in parameters} | _find_assigned(definition)
        arguments = ast.arguments(
            posonlyargs=[], args=[ast.arg(mangle_local(a.arg)) for a in declared.args],
            kwonlyargs=[ast.arg(mangle_local(a.arg)) for a in declared.kwonlyargs],
            kw_defaults=[None if d is None else self.expression(d) for d in declared.kw_defaults],
            defaults=[self.expression(d) for d in declared.defaults],
        )
        result = ast.FunctionDef(name=definition.name, args=arguments,
                                 body=self.block(definition.body), decorator_list=[])
        ast.copy_location(result, definition)
        return ast.fix_missing_locations(result)

    # ------------------------------------------------------------------------ statements

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Translate a list of statements; add `pass` if it is empty."""
        return [ast.copy_location(self.statement(s), s) for s in statements] or [ast.Pass()]

    def statement(self, node: ast.stmt) -> ast.stmt:
        """Translate one statement."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            self.refuse(node, f"{type(node).__name__} is no statement of TorchScript")
        result: ast.stmt = method(node)
        return result

    def _expr(self, node: ast.Expr) -> ast.stmt:
        return ast.Expr(self.expression(node.value))

    def _pass(self, node: ast.Pass) -> ast.stmt:
        return ast.Pass()

    def _break(self, node: ast.Break) -> ast.stmt:
        return ast.Break()

    def _continue(self, node: ast.Continue) -> ast.stmt:
        return ast.Continue()

    def _return(self, node: ast.Return) -> ast.stmt:
        return ast.Return(None if node.value is None else self.expression(node.value))

    def _if(self, node: ast.If) -> ast.stmt:
        orelse = self.block(node.orelse) if node.orelse else []
        return ast.If(self.expression(node.test), self.block(node.body), orelse)

    def _while(self, node: ast.While) -> ast.stmt:
        if node.orelse:
            self.refuse(node, "a loop with else")
        return ast.While(self.expression(node.test), self.block(node.body), [])

    def _for(self, node: ast.For) -> ast.stmt:
        if node.orelse:
            self.refuse(node, "a loop with else")
        source = build_runtime_call("g_iterate", self.expression(node.iter))
        return ast.For(self.target(node.target), source, self.block(node.body), [])

    def _with(self, node: ast.With) -> ast.stmt:
        items = [ast.withitem(build_runtime_call("g_context", self.expression(i.context_expr)),
                              None if i.optional_vars is None else self.target(i.optional_vars))
                 for i in node.items]
        return ast.With(items, self.block(node.body))

    def _raise(self, node: ast.Raise) -> ast.stmt:
        value = node.exc
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            text = [self.expression(a) for a in value.args] or [ast.Constant("")]
            return ast.Expr(build_runtime_call("g_raise", *text[:1], ast.Constant(value.func.id)))
        return ast.Expr(build_runtime_call("g_raise", ast.Constant("")))

    def _assert(self, node: ast.Assert) -> ast.stmt:
        text = ast.Constant("") if node.msg is None else self.expression(node.msg)
        failed = ast.Expr(build_runtime_call("g_raise", text, ast.Constant("AssertionError")))
        return ast.If(ast.UnaryOp(ast.Not(), self.expression(node.test)), [failed], [])

    def _delete(self, node: ast.Delete) -> ast.stmt:
        (subscript,) = node.targets
        if not isinstance(subscript, ast.Subscript):
            self.refuse(node, "only an element can be deleted")
        call = build_runtime_call(self.bind("operator", "Delete"), self.expression(subscript.value),
                                  self.expression(subscript.slice))
        return ast.Expr(call)

    def _assign(self, node: ast.Assign) -> ast.stmt:
        if len(node.targets) != 1:
            self.refuse(node, "one assignment has one target")
        return self.assignment(node.targets[0], self.expression(node.value))

    def _annassign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is None:
            return ast.Pass()
        return self.assignment(node.target, self.expression(node.value))

    def _augassign(self, node: ast.AugAssign) -> ast.stmt:
        name = BINARY.get(type(node.op))
        if name is None:
            self.refuse(node, "an unknown operator")
        operator = self.bind("operator", f"g_in_place_{name}")
        read = self.expression(_convert_to_load(node.target))
        value = build_runtime_call(operator, read, self.expression(node.value))
        return self.assignment(node.target, value)

    def assignment(self, target: ast.expr, value: ast.expr) -> ast.stmt:
        """Translate `target = value`. The runtime sets attributes and elements."""
        if isinstance(target, ast.Attribute):
            owner = self.expression(target.value)
            return ast.Expr(build_runtime_call("g_set", owner, ast.Constant(target.attr), value))
        if isinstance(target, ast.Subscript):
            return ast.Expr(build_runtime_call("g_setitem", self.expression(target.value),
                                               self.expression(target.slice), value))
        return ast.Assign([self.target(target)], value)


def _find_assigned(definition: ast.FunctionDef) -> set[str]:
    """Return the names that a function assigns."""
    return {n.id for n in ast.walk(definition)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _convert_to_load(target: ast.expr) -> ast.expr:
    """Convert an assignment target to the expression that reads it."""
    return ast.parse(ast.unparse(target), mode="eval").body
