"""Convert a Python function to TorchScript: resolve names and inline settings in its source."""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
import typing
from typing import Any

from ....autograd.mode import no_grad
from ....nn.module import Module
from ....tensor.tensor import Tensor
from .source_calls import SourceCalls
from .static_values import Static

__all__ = ["FunctionCode"]


class FunctionCode(SourceCalls):
    """The code of one function or method."""

    _blocks = 0  # number of `with` blocks so far

    def text(self, name: str, class_name: str | None) -> str:
        """Return the whole definition."""
        margin = "  " if class_name is not None else ""
        parameters = self._parameters(class_name)
        body: list[ast.stmt] = []
        for statement in self.tree.body:
            body += self._block([statement])
        lines = "\n".join(ast.unparse(ast.fix_missing_locations(s)) for s in body or [ast.Pass()])
        returns = self._hints.get("return", inspect.Parameter.empty)
        arrow = "" if returns is inspect.Parameter.empty else f" -> {self._type(returns)}"
        return (f"{margin}def {name}({', '.join(parameters)}){arrow}:\n"
                + textwrap.indent(lines, margin + "  ") + "\n")

    def as_method(self, class_name: str, name: str) -> str:
        """Return a forward that calls the function by name."""
        parameters = self._parameters(None)
        names = ", ".join(p.partition(":")[0] for p in parameters)
        return (f"  def forward(self: {class_name}, {', '.join(parameters)}):\n"
                f"    return {name}({names})\n")

    def _parameters(self, class_name: str | None) -> list[str]:
        arguments = self.tree.args
        if arguments.vararg or arguments.kwarg:
            self.refuse(self.tree, "*args and **kwargs")
        self._hints = self._all_hints(class_name is not None)
        result: list[str] = []
        defaults = {p.name: p.default for p in
                    inspect.signature(self.function).parameters.values()}
        for node in [*arguments.args, *arguments.kwonlyargs]:
            if class_name is not None and not result:
                result.append(f"self: {class_name}")
                continue
            hint = self._hints.get(node.arg)
            text = f"{node.arg}: {'Tensor' if hint is None else self._type(hint)}"
            default = defaults.get(node.arg, inspect.Parameter.empty)
            if default is not inspect.Parameter.empty:
                text += f"={ast.unparse(self._known(node, Static(default)))}"
            result.append(text)
        return result

    def _all_hints(self, is_method: bool) -> dict[str, Any]:
        """Return the types of parameters and result, from annotations or type comments."""
        try:
            hints = typing.get_type_hints(self.function)
        except (NameError, TypeError) as error:
            self.refuse(self.tree, f"an annotation: {error}")
        arguments = [*self.tree.args.args, *self.tree.args.kwonlyargs]
        for node in arguments:
            if node.type_comment:
                kind = ast.parse(node.type_comment, mode="eval").body
                hints[node.arg] = self._evaluated(node, kind)
        if self.tree.type_comment:
            written = ast.parse(self.tree.type_comment, mode="func_type")
            parameters = arguments[1:] if is_method and len(written.argtypes) < len(arguments) \
                else arguments
            if parameters and not (len(written.argtypes) == 1
                            and isinstance(written.argtypes[0], ast.Constant)):
                for node, kind in zip(parameters, written.argtypes, strict=False):
                    hints[node.arg] = self._evaluated(node, kind)
            hints["return"] = self._evaluated(self.tree, written.returns)
        return hints

    def _evaluated(self, node: ast.AST, annotation: ast.expr) -> Any:
        """Evaluate an annotation in the source."""
        try:
            return eval(ast.unparse(annotation), {"Tensor": Tensor, **vars(typing),
                                                  **self.scope.outer})
        except Exception as error:
            self.refuse(node, f"an annotation: {error}")

    # ------------------------------------------------------------------------ statements

    def _block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for statement in statements:
            new = self.visit(statement)
            if isinstance(new, list):
                result += new
            elif new is not None:
                result.append(new)
        return result

    def visit_Expr(self, node: ast.Expr) -> Any:
        """Drop docstrings."""
        if isinstance(node.value, ast.Constant):
            return None
        return ast.Expr(self.visit(node.value))

    def visit_Assign(self, node: ast.Assign) -> Any:
        """Bind a name to a module statically; write other assignments."""
        if len(node.targets) != 1:
            return self._chain(node)
        (target,) = node.targets
        static = self.scope.find(node.value)
        if static is not None and isinstance(static.value, Module) and \
                isinstance(target, ast.Name):
            self.scope.known[target.id] = static
            return None
        if node.type_comment:
            kind = ast.parse(node.type_comment, mode="eval").body
            value = self._annotated(node, kind, node.value)
        else:
            value = self.visit(node.value)
        return ast.Assign([self.visit(target)], value, lineno=0)

    def _chain(self, node: ast.Assign) -> list[ast.stmt]:
        """Write `a = b = value` as two assignments, the second of the first's name."""
        first, *others = node.targets
        if not isinstance(first, ast.Name):
            self.refuse(node, "an assignment to several targets whose first is no name")
        read = ast.Name(first.id, ast.Load())
        statements: list[ast.stmt] = [ast.Assign([first], node.value, lineno=node.lineno)]
        return self._block([*statements, *(ast.Assign([t], read, lineno=node.lineno)
                                           for t in others)])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        """Write `x: T = value` as an annotated value."""
        if node.value is None:
            return None
        value = self._annotated(node, node.annotation, node.value)
        return ast.Assign([self.visit(node.target)], value, lineno=0)

    def _annotated(self, node: ast.AST, annotation: ast.expr, value: ast.expr) -> ast.expr:
        text = ast.parse(self._type(self._evaluated(node, annotation)), mode="eval").body
        return ast.Call(ast.Name("annotate"), [text, self.visit(value)], [])

    def visit_If(self, node: ast.If) -> Any:
        """Keep only the branch that runs if the condition is known."""
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
        """Write `with torch.no_grad()`, whose object is created first."""
        before: list[ast.stmt] = []
        entered: list[ast.withitem] = []
        for item in node.items:
            context = item.context_expr
            static = self.scope.find(context.func) if isinstance(context, ast.Call) else None
            if static is None or static.value is not no_grad or item.optional_vars is not None:
                self.refuse(node, "a with of anything but torch.no_grad()")
            self._blocks += 1
            name, kind = f"_no_grad{self._blocks}", self.unit.no_grad()
            before += ast.parse(f"{name} = {kind}.__new__({kind})\n"
                                f"{name}_made = ({name}).__init__()").body
            entered.append(ast.withitem(ast.Name(name)))
        return [*before, ast.With(entered, self._block(node.body) or [ast.Pass()], lineno=0)]

    def visit_While(self, node: ast.While) -> Any:
        """Keep loops."""
        if node.orelse:
            self.refuse(node, "a loop with else")
        return ast.While(self.visit(node.test), self._block(node.body) or [ast.Pass()], [])

    def visit_For(self, node: ast.For) -> Any:
        """Unroll loops over modules; keep others."""
        if node.orelse:
            self.refuse(node, "a loop with else")
        modules = self._modules_of(node.iter)
        if modules is None:
            return ast.For(self.visit(node.target), self.visit(node.iter), self._block(node.body),
                           [], lineno=0)
        result: list[ast.stmt] = []
        for items in modules:
            self._bind_items(node.target, items)
            if any(isinstance(n, (ast.Break, ast.Continue)) for s in node.body
                   for n in ast.walk(s)):
                self.refuse(node, "break or continue in a loop over modules")
            result += self._block(copy.deepcopy(node.body))  # visiting changes the tree
        return result
