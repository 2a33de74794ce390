"""Convert Python expressions to TorchScript: resolve names and inline known values."""

from __future__ import annotations

import ast
import enum
import inspect
import textwrap
import types
import typing
from typing import Any, NoReturn, Protocol

from ....export.aten_functions import number_of_dtype
from ....nn.module import Module
from ....tensor.devices import device
from ....tensor.dtypes import dtype
from ....tensor.layout import layout, memory_format
from ....tensor.tensor import Tensor
from ..script_module import ScriptMethod
from .annotations import type_text
from .classes import write_literal
from .module_state import ModuleState
from .static_values import Scope, Static

__all__ = ["SourceExpressions", "Unit", "is_module_method"]

_MEMORY = ("torch.contiguous_format", "torch.preserve_format", "torch.channels_last",
           "torch.channels_last_3d")
_PYTHON_ONLY = ("ignore", "unused")
_BUILTINS = frozenset("""
    len range int float bool str complex print min max abs sum all any round sorted zip enumerate
    ord chr hex oct bin divmod isinstance list tuple dict reversed
""".split())


def is_module_method(value: Any) -> bool:
    """Return whether a value is a bound method of a module."""
    return isinstance(value, (types.MethodType, ScriptMethod)) and isinstance(
        value.__self__, Module)


class Unit(Protocol):
    """Collects an archive's code."""

    state: ModuleState

    embedded: Any  # loaded and traced modules

    def call_module(self, module: Module) -> None:
        """Register a call of a module's forward."""

    def write_hooked_call(self, module: Module) -> str | None:
        """Return the function that runs a module's forward with its hooks, or None without."""
        raise NotImplementedError

    def call_method(self, module: Module, name: str) -> None:
        """Register a call of a module's method."""

    def call_function(self, function: Any) -> str:
        """Register a call of a function; return its name."""

    def constant(self, value: Tensor) -> str:
        """Register a tensor from outside the function; return its name."""

    def call_super(self, owner: Module | type, after: type, name: str) -> str:
        """Register a call of a base class's method; return its name in the archive."""

    def declare(self, kind: type) -> str:
        """Register a named tuple, enum, interface or script class; return its name."""

    def register_enum_member(self, member: Any) -> str:
        """Register an enum; return the expression for the member."""

    def grad_mode(self, enabled: bool) -> str:
        """Register a gradient mode; return its class's name."""


class SourceExpressions(ast.NodeTransformer):
    """Converts the expressions of one function and registers what they use with `unit`."""

    def __init__(self, function: Any, owner: Module | None, unit: Unit,
                 script_class: type | None = None) -> None:
        self.function, self.owner, self.unit = function, owner, unit
        self.script_class = script_class  # the class, for its methods
        try:
            lines, self._first = inspect.getsourcelines(function)
            tree = _parse(textwrap.dedent("".join(lines)))
        except (OSError, TypeError, SyntaxError) as error:
            raise NotImplementedError(
                f"torch.jit.script: the source of {function.__qualname__} is not there") from error
        if not isinstance(tree, ast.FunctionDef):
            raise NotImplementedError(
                f"torch.jit.script: {function.__qualname__} is no function with a def")
        self.tree = tree
        self._lines = lines
        self.scope = Scope(function, owner, _find_bound_names(tree), unit.state)

    def refuse(self, node: ast.AST, reason: str) -> NoReturn:
        """Raise NotImplementedError naming the line."""
        number = getattr(node, "lineno", 1)
        error = NotImplementedError(f"torch.jit.script: {reason}")
        line = self._lines[number - 1].strip() if number <= len(self._lines) else ""
        error.add_note(f'File "{inspect.getsourcefile(self.function)}", line '
                       f"{self._first + number - 1}: {line}\nThe function runs in Python; to save "
                       "it, write this line otherwise or use torch.jit.trace")
        raise error

    def _type(self, annotation: Any) -> str:
        try:
            return type_text(annotation, self.unit.declare)
        except NotImplementedError as error:
            self.refuse(self.tree, str(error))

    def write_type(self, node: ast.AST, annotation: ast.expr) -> str:
        """Convert an annotation in the source to a TorchScript type."""
        return self._type(self.evaluated(node, annotation))

    def evaluated(self, node: ast.AST, annotation: ast.expr) -> Any:
        """Evaluate an annotation in the source."""
        try:
            own = {} if self.script_class is None else {
                self.script_class.__name__: self.script_class}
            return eval(ast.unparse(annotation), {"Tensor": Tensor, **vars(typing),
                                                  **self.scope.outer, **own})
        except Exception as error:
            self.refuse(node, f"an annotation: {error}")

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Refuse syntax that TorchScript lacks."""
        if isinstance(node, (ast.Try, ast.Lambda, ast.Yield, ast.YieldFrom, ast.Await, ast.Import,
                             ast.ImportFrom, ast.Global, ast.Nonlocal, ast.FunctionDef,
                             ast.ClassDef, ast.AsyncFunctionDef, ast.GeneratorExp, ast.Starred,
                             ast.Match, ast.NamedExpr, ast.Set, ast.SetComp)):
            self.refuse(node, f"{type(node).__name__} in a function that is saved")
        return super().generic_visit(node)

    def _write_known(self, node: ast.AST, static: Static) -> ast.expr:
        """Convert a known value to an expression."""
        value = static.value
        if isinstance(value, dtype):
            return ast.Constant(number_of_dtype(value))
        if isinstance(value, memory_format):
            return ast.Constant(_MEMORY.index(str(value)))
        if isinstance(value, layout):
            return ast.Constant(0)
        if isinstance(value, device):
            return ast.parse(f'torch.device("{value}")', mode="eval").body
        if isinstance(value, enum.Enum):
            return ast.parse(self.unit.register_enum_member(value), mode="eval").body
        function = getattr(value, "_flambeau_function", value)
        if isinstance(function, types.FunctionType):  # passed to fork
            return ast.parse(self.unit.call_function(function), mode="eval").body
        try:
            return ast.parse(write_literal(value), mode="eval").body
        except NotImplementedError:
            self.refuse(node, f"a value of type {type(value).__name__} from outside the function")

    def visit_Name(self, node: ast.Name) -> Any:
        """Keep local names; inline others."""
        if isinstance(node.ctx, ast.Store):
            self.scope.known.pop(node.id, None)
            return ast.Name(node.id)
        static = self.scope.known.get(node.id)
        if static is None and node.id in self.scope.locals:
            return ast.Name(node.id)
        static = static or self.scope.find(node)
        if static is None:
            self.refuse(node, f"the name {node.id}")
        if isinstance(static.value, (Module, Tensor)) and static.text is not None:
            return ast.parse(static.text, mode="eval").body
        if isinstance(static.value, Tensor):
            return ast.parse(self.unit.constant(static.value), mode="eval").body
        return self._write_known(node, static)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        """Inline settings; keep reads of module attributes."""
        self._check_property(node)
        own = self._write_own_member(node)
        if own is not None:
            return own
        if not isinstance(node.ctx, ast.Load):
            self._change(node)
            return ast.Attribute(self.visit(node.value), node.attr)
        static = self.scope.find(node)
        holder = self.scope.find(node.value) if isinstance(node.value, ast.Attribute) else None
        owner = self.scope.find(node.value.value) if isinstance(node.value, ast.Attribute) else None
        if holder is not None and isinstance(holder.value, enum.Enum) and owner is not None \
                and isinstance(owner.value, Module) and node.attr in ("name", "value"):
            return ast.Attribute(self.visit(node.value), node.attr)
        if static is not None and isinstance(static.value, (list, dict, enum.Enum)):
            static = self._read_shared(node, static)
        if static is None or (isinstance(static.value, Module) and static.text is not None):
            owner = self.scope.find(node.value)
            if owner is not None and isinstance(owner.value, Module) and owner.text is not None:
                if static is not None and static.text is not None:
                    return ast.parse(static.text, mode="eval").body
                base = ast.parse(owner.text, mode="eval").body
                return ast.Attribute(base, node.attr)
            return ast.Attribute(self.visit(node.value), node.attr)
        if is_module_method(static.value):  # passed to fork
            return ast.parse(self.write_module_method(node, static.value), mode="eval").body
        return self._write_known(node, static)

    def write_module_method(self, node: ast.expr, value: Any) -> str:
        """Write a method of a module and return the expression that reads it."""
        owner = self.scope.find(node.value)  # type: ignore[attr-defined]
        if owner is None or owner.text is None:
            self.refuse(node, f"the method {value.__name__} of a module that has no name here")
        if value.__name__ == "forward":
            self.unit.call_module(value.__self__)
        else:
            self.unit.call_method(value.__self__, value.__name__)
        return f"({owner.text}).{value.__name__}"

    def _write_own_member(self, node: ast.Attribute) -> ast.expr | None:
        """Write `self.name` if it is a property or class constant of a script class, else None."""
        arguments = self.tree.args.args
        if self.script_class is None or not isinstance(node.ctx, ast.Load) or not arguments \
                or not isinstance(node.value, ast.Name) or node.value.id != arguments[0].arg:
            return None
        member = inspect.getattr_static(self.script_class, node.attr, None)
        if isinstance(member, property):
            return ast.Call(ast.Attribute(ast.Name(node.value.id), node.attr), [], [])
        if isinstance(member, (bool, int, float, str)) \
                and node.attr not in self.script_class.__annotations__:
            return self._write_known(node, Static(member))
        return None

    def _change(self, node: ast.Attribute) -> None:
        """Mark a module's attribute as run-time state."""
        owner = self.scope.find(node.value)
        if owner is not None and isinstance(owner.value, Module):
            self.unit.state.change(owner.value, node.attr)

    def _read_shared(self, node: ast.Attribute, static: Static) -> Static | None:
        """Read a module's list, dict or Enum at run time, since any holder may mutate it."""
        owner = self.scope.find(node.value)
        if owner is None or not isinstance(owner.value, Module) or owner.text is None:
            return static
        self._change(node)
        return None

    def _check_property(self, node: ast.Attribute) -> None:
        """Refuse properties whose value may change; treat others as settings."""
        owner = self.scope.find(node.value)
        member = getattr(type(owner.value), node.attr, None) if owner is not None \
            and isinstance(owner.value, Module) else None
        if owner is None or not isinstance(member, property):
            return
        code = getattr(member.fget, "__code__", None)
        reads = () if code is None else code.co_names
        changes = [name for name in reads if self.unit.state.is_changing(owner.value, name)]
        if changes or not isinstance(node.ctx, ast.Load):
            self.refuse(node, f"the property {node.attr}, whose value the function changes")

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        """Resolve an element of a container of modules or parameters."""
        static = self.scope.find(node) or self.scope.find_parameter(node)
        if static is not None and isinstance(static.value, (Module, Tensor)) and static.text:
            return ast.parse(static.text, mode="eval").body
        if isinstance(node.ctx, ast.Load) and static is not None \
                and not isinstance(static.value, (list, dict, Tensor)):
            return self._write_known(node, static)
        return ast.Subscript(self.visit(node.value), self.visit(node.slice))

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """If the condition is known, keep only one side."""
        known = self.scope.find(node.test)
        if known is not None:
            return self.visit(node.body if known.value else node.orelse)
        return ast.IfExp(self.visit(node.test), self.visit(node.body), self.visit(node.orelse))

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """Drop known operands that do not decide the result."""
        known = self.scope.find(node)
        if known is not None:
            return self._write_known(node, Static(bool(known.value)))
        values = [self.visit(v) for v in node.values if self.scope.find(v) is None]
        return values[0] if len(values) == 1 else ast.BoolOp(node.op, values)

    def visit_Compare(self, node: ast.Compare) -> Any:
        """Convert a chain of comparisons to a conjunction."""
        known = self.scope.find(node)
        if known is not None:
            return self._write_known(node, known)
        operands = [self.visit(n) for n in (node.left, *node.comparators)]
        parts: list[ast.expr] = [ast.Compare(operands[i], [op], [operands[i + 1]])
                                 for i, op in enumerate(node.ops)]
        return parts[0] if len(parts) == 1 else ast.BoolOp(ast.And(), parts)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Any:
        """Convert an f-string to a call of str.format."""
        text, values = "", []
        for part in node.values:
            if isinstance(part, ast.Constant):
                text += str(part.value)
            elif isinstance(part, ast.FormattedValue) and part.format_spec is None:
                text += "{}"
                values.append(self.visit(part.value))
            else:
                self.refuse(node, "an f-string with a format")
        return ast.Call(ast.Attribute(ast.Constant(text), "format"), values, [])


def _parse(text: str) -> ast.stmt:
    """Parse a definition, including type comments such as `# type: (int) -> int`."""
    try:
        return ast.parse(text, type_comments=True).body[0]
    except SyntaxError:  # a comment that only looks like a type
        return ast.parse(text).body[0]


def _find_bound_names(tree: ast.FunctionDef) -> set[str]:
    names = {a.arg for a in [*tree.args.args, *tree.args.kwonlyargs]}
    return names | {n.id for n in ast.walk(tree)
                    if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
