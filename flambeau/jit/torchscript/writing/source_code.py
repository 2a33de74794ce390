"""Convert a Python function's source to TorchScript: resolve names and inline settings."""

from __future__ import annotations

import ast
import inspect
import textwrap
import typing
from typing import Any

from ....nn.module import Module
from ....tensor.tensor import Tensor
from ...checking.signatures import parse_type_comment
from .source_blocks import SourceBlocks
from .static_values import Static

__all__ = ["FunctionCode"]


class FunctionCode(SourceBlocks):
    """The code of one function or method."""

    def text(self, name: str, class_name: str | None, is_static: bool = False) -> str:
        """Return the whole definition. A static method gets a `self` parameter."""
        margin = "  " if class_name is not None else ""
        parameters = self.parameters(None if is_static else class_name)
        if is_static:
            parameters.insert(0, f"self: {class_name}")
        body: list[ast.stmt] = []
        if getattr(self.function, "_torchscript_modifier", "") == "unused":
            body = self._raise_unused()
        else:
            for statement in self.tree.body:
                body += self._block([statement])
        lines = "\n".join(ast.unparse(ast.fix_missing_locations(s)) for s in body or [ast.Pass()])
        returns = self._hints.get("return", inspect.Parameter.empty)
        arrow = "" if returns is inspect.Parameter.empty else f" -> {self._type(returns)}"
        return (f"{margin}def {name}({', '.join(parameters)}){arrow}:\n"
                + textwrap.indent(lines, margin + "  ") + "\n")

    def _raise_unused(self) -> list[ast.stmt]:
        """Return a body that raises, for a function marked with jit.unused."""
        kind = self._type(self._hints.get("return", Tensor))
        message = (f"{self.tree.name} is marked with torch.jit.unused: archives do not hold it")
        return ast.parse(f"ops.prim.RaiseException({message!r}, 'builtins.NotImplementedError')\n"
                         f"return uninitialized({kind})").body

    def write_as_method(self, class_name: str, name: str) -> str:
        """Return a `forward` method that calls the function by name."""
        parameters = self.parameters(None)
        names = ", ".join(p.partition(":")[0] for p in parameters)
        return (f"  def forward(self: {class_name}, {', '.join(parameters)}):\n"
                f"    return {name}({names})\n")

    def parameters(self, class_name: str | None) -> list[str]:
        """Return the parameters with their types and defaults."""
        arguments = self.tree.args
        if arguments.vararg or arguments.kwarg:
            self.refuse(self.tree, "*args and **kwargs")
        self._hints = self._collect_hints(class_name is not None)
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
                text += f"={ast.unparse(self._write_known(node, Static(default)))}"
            result.append(text)
        return result

    def _collect_hints(self, is_method: bool) -> dict[str, Any]:
        """Return the types of parameters and return value, from annotations or type comments."""
        try:
            own = {} if self.script_class is None else {
                self.script_class.__name__: self.script_class}
            hints = typing.get_type_hints(self.function, localns={**self.scope.closure, **own})
        except (NameError, TypeError) as error:
            self.refuse(self.tree, f"an annotation: {error}")
        arguments = [*self.tree.args.args, *self.tree.args.kwonlyargs]
        for node in arguments:
            if node.type_comment:
                kind = ast.parse(node.type_comment, mode="eval").body
                hints[node.arg] = self.evaluated(node, kind)
        if self.tree.type_comment:
            written = parse_type_comment(self.tree.type_comment)
            parameters = arguments[1:] if is_method and len(written.argtypes) < len(arguments) \
                else arguments
            if parameters and not (len(written.argtypes) == 1
                            and isinstance(written.argtypes[0], ast.Constant)):
                for node, kind in zip(parameters, written.argtypes, strict=False):
                    hints[node.arg] = self.evaluated(node, kind)
            if "->" in self.tree.type_comment:
                hints["return"] = self.evaluated(self.tree, written.returns)
        return hints

    def parameter_types(self) -> dict[str, str]:
        """Return the types of a method's parameters, except `self`."""
        hints = self._collect_hints(is_method=True)
        arguments = [*self.tree.args.args[1:], *self.tree.args.kwonlyargs]
        return {a.arg: self._type(hints[a.arg]) if a.arg in hints else "Tensor" for a in arguments}

    # ------------------------------------------------------------------------ statements

    def visit_Expr(self, node: ast.Expr) -> Any:
        """Drop docstrings."""
        if isinstance(node.value, ast.Constant):
            return None
        return ast.Expr(self.visit(node.value))

    def visit_Assign(self, node: ast.Assign) -> Any:
        """Bind a name to a module statically; write any other assignment."""
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
            value = self._write_annotated(node, kind, node.value)
        else:
            value = self.visit(node.value)
        return ast.Assign([self.visit(target)], value, lineno=0)

    def _chain(self, node: ast.Assign) -> list[ast.stmt]:
        """Write `a = b = value` as `a = value` and `b = a`."""
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
        value = self._write_annotated(node, node.annotation, node.value)
        return ast.Assign([self.visit(node.target)], value, lineno=0)

    def _write_annotated(self, node: ast.AST, annotation: ast.expr, value: ast.expr) -> ast.expr:
        text = ast.parse(self._type(self.evaluated(node, annotation)), mode="eval").body
        return ast.Call(ast.Name("annotate"), [text, self.visit(value)], [])
