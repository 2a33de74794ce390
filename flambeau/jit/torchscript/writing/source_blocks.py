"""Convert compound statements: branches, loops, with."""

from __future__ import annotations

import ast
import copy
from typing import Any

from ....autograd.mode import enable_grad, no_grad, set_grad_enabled
from .annotations import is_written_class
from .filters import expand_filter, find_filtered_comprehensions, name_item
from .source_calls import SourceCalls

__all__ = ["SourceBlocks"]

_UNBRANCHED = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)


class SourceBlocks(SourceCalls):
    """Converts blocks: prunes branches with known conditions, unrolls loops over modules."""

    _blocks = 0  # number of generated names

    def _block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for statement in self._insert_filters(statements):
            new = self.visit(statement)
            if isinstance(new, list):
                result += new
            elif new is not None:
                result.append(new)
        return result

    def _insert_filters(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Insert filter loops before statements with conditional comprehensions (filters.py)."""
        result: list[ast.stmt] = []
        for statement in statements:
            if isinstance(statement, _UNBRANCHED):
                for comprehension in find_filtered_comprehensions(statement):
                    if self._list_modules(comprehension.generators[0].iter) is not None:
                        continue
                    self._blocks += 1
                    name_item(comprehension, f"_item{self._blocks}")
                    self.scope.locals.add(f"_item{self._blocks}")
                    names = f"_items{self._blocks}", f"_chosen{self._blocks}"
                    self.scope.locals.update(names)
                    result += expand_filter(comprehension, *names)
            result.append(statement)
        return result

    def visit_If(self, node: ast.If) -> Any:
        """If the condition is known, keep only the branch taken."""
        known = self.scope.find(node.test)
        if known is not None:
            return self._block(node.body if known.value else node.orelse)
        test = self.visit(node.test)
        body, orelse = self._block(node.body), self._block(node.orelse)
        # Flatten the rest after an error: names assigned in a branch would be undefined outside it.
        if node.body and isinstance(node.body[-1], ast.Raise):
            return [ast.If(test, body, []), *orelse]
        if node.orelse and isinstance(node.orelse[-1], ast.Raise):
            return [ast.If(ast.UnaryOp(ast.Not(), test), orelse, []), *body]
        return ast.If(test, body or [ast.Pass()], orelse)

    def visit_Raise(self, node: ast.Raise) -> Any:
        """Write PyTorch's operator that raises."""
        value, kind = node.exc, "RuntimeError"
        message: ast.expr = ast.Constant("")
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            kind = value.func.id
            message = self.visit(value.args[0]) if value.args else message
        elif isinstance(value, ast.Name):
            kind = value.id
        return ast.parse(f"ops.prim.RaiseException({ast.unparse(message)}, 'builtins.{kind}')"
                         ).body[0]

    def visit_With(self, node: ast.With) -> Any:
        """Write blocks of gradient modes and script classes, creating the object first.

        Drops profiler labels (record_function).
        """
        if len(node.items) > 1:
            inner = ast.copy_location(ast.With(node.items[1:], node.body), node)
            return self.visit(ast.copy_location(ast.With(node.items[:1], [inner]), node))
        item = node.items[0]
        context = item.context_expr
        static = self.scope.find(context.func) if isinstance(context, ast.Call) else None
        entered = None if static is None else static.value
        if f"{getattr(entered, '__module__', '')}.{getattr(entered, '__name__', '')}" == \
                "flambeau.autograd.profiler.record_function" and item.optional_vars is None:
            return self._block(node.body)
        self._blocks += 1
        name = f"_context{self._blocks}"
        before = self._write_grad_mode(node, name, entered, context)
        if before is None:
            if entered is not None and not is_written_class(entered):
                self.refuse(node, "a with of anything but torch.no_grad(), torch.enable_grad(), "
                                  "record_function and script classes")
            before = [ast.Assign([ast.Name(name)], self.visit(context), lineno=0)]
        variable = None if item.optional_vars is None else self.visit(item.optional_vars)
        return [*before, ast.With([ast.withitem(ast.Name(name), variable)],
                                  self._block(node.body) or [ast.Pass()], lineno=0)]

    def _write_grad_mode(self, node: ast.With, name: str, entered: Any,
                         context: ast.expr) -> list[ast.stmt] | None:
        """Return the statements that create a gradient mode, or None for other contexts."""
        if entered not in (no_grad, enable_grad, set_grad_enabled):
            return None
        enabled = entered is enable_grad
        if entered is set_grad_enabled:
            arguments = [*context.args, *(k.value for k in context.keywords)]  # type: ignore[attr-defined]
            known = self.scope.find(arguments[0])
            if known is None:
                self.refuse(node, "set_grad_enabled of a value that is known only at run time")
            enabled = bool(known.value)
        kind = self.unit.grad_mode(enabled)
        return ast.parse(f"{name} = {kind}.__new__({kind})\n"
                         f"{name}_made = ({name}).__init__()").body

    def visit_While(self, node: ast.While) -> Any:
        """Keep the loop; rewrite its else clause."""
        if node.orelse:
            return self._write_else(node)
        return ast.While(self.visit(node.test), self._block(node.body) or [ast.Pass()], [])

    def _write_else(self, node: ast.While | ast.For) -> list[ast.stmt]:
        """Write a loop with else, using a flag that `break` clears."""
        self._blocks += 1
        flag = f"_ended{self._blocks}"
        self.scope.locals.add(flag)
        loop, loop.orelse = copy.deepcopy(node), []
        loop.body = _flag_breaks(loop.body, flag)
        ended = ast.parse(f"{flag} = True").body
        after = ast.If(ast.Name(flag, ast.Load()), node.orelse, [])
        return self._block([*ended, loop, ast.copy_location(after, node)])

    def visit_For(self, node: ast.For) -> Any:
        """Unroll a loop over modules; keep others."""
        if node.orelse:
            return self._write_else(node)
        modules = self._list_modules(node.iter)
        if modules is None:
            return ast.For(self.visit(node.target), self.visit(node.iter), self._block(node.body),
                           [], lineno=0)
        result: list[ast.stmt] = []
        for items in modules:
            self._bind_items(node.target, items)
            if any(isinstance(n, (ast.Break, ast.Continue)) for s in node.body
                   for n in ast.walk(s)):
                self.refuse(node, "break or continue in a loop over modules")
            result += self._block(copy.deepcopy(node.body))  # visiting mutates the tree
        return result


def _flag_breaks(statements: list[ast.stmt], flag: str) -> list[ast.stmt]:
    """Clear the flag before each break of this loop, but not of nested loops."""
    result: list[ast.stmt] = []
    for statement in statements:
        if isinstance(statement, ast.Break):
            result += ast.parse(f"{flag} = False").body
        elif isinstance(statement, (ast.If, ast.With)):
            statement.body = _flag_breaks(statement.body, flag)
            if isinstance(statement, ast.If):
                statement.orelse = _flag_breaks(statement.orelse, flag)
        elif isinstance(statement, (ast.For, ast.While)):
            statement.orelse = _flag_breaks(statement.orelse, flag)
        result.append(statement)
    return result
