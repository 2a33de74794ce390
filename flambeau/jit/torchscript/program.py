"""The code files of an archive; look up their definitions by name."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from . import operators, runtime
from .definitions import ClassType, Function, define_class
from .expressions import Expressions, ScriptSyntaxError
from .type_expressions import is_instance

__all__ = ["Program"]


class Program:
    """Functions and classes by qualified name, `__torch__.package.Class`.

    `environment` holds the globals of translated functions: the functions of runtime.py, the
    operators and definitions in use, and no builtins.
    """

    def __init__(self, read: Callable[[str], str | None]) -> None:
        self._read = read
        self.constants: tuple[Any, ...] = ()
        self.version = "10"
        self._files: dict[str, tuple[ast.Module, list[str]]] = {}
        self._defined: dict[str, Any] = {}
        self.environment: dict[str, Any] = {
            "__builtins__": {}, **runtime.FUNCTIONS, "g_isinstance": self._is_instance,
        }

    def read_all(self, names: list[str]) -> None:
        """Read the remaining code files while the archive is open."""
        for name in names:
            if name.startswith("code/") and name.endswith(".py") and name not in self._files:
                text = self._read(name)
                if text is not None:
                    self.define(name, text)

    def add_function(self, qualified_name: str, text: str) -> None:
        """Add a function to a namespace."""
        space = qualified_name.rpartition(".")[0]
        filename = f"code/{space.replace('.', '/')}.py"
        known = "".join(self._files[filename][1]) if filename in self._files else ""
        self.define(filename, known + text)

    def replace_function(self, function: Function, text: str) -> None:
        """Give a function or method another definition."""
        tree, _ = self._files[function.filename]
        owner = function.qualified_name.split(".")[-2]
        (new,) = ast.parse(text).body
        bodies = [tree.body, *(node.body for node in tree.body
                               if isinstance(node, ast.ClassDef) and node.name == owner)]
        for body in bodies:
            for position, node in enumerate(body):
                if node is function.definition:
                    body[position] = new
        tree = self.define(function.filename, ast.unparse(tree) + "\n")
        self._refer_anew(tree, function)

    def _refer_anew(self, tree: ast.Module, changed: Function) -> None:
        """Let the functions of a file that was written anew refer to its lines."""
        changed.compiled = None
        for node in tree.body:
            for known in self._defined.values():
                if getattr(known, "filename", changed.filename) != changed.filename:
                    continue
                if isinstance(node, ast.FunctionDef) and isinstance(known, Function) \
                        and known.name == node.name:
                    known.definition = node
                if isinstance(node, ast.ClassDef) and isinstance(known, ClassType) \
                        and known.name == node.name:
                    for row in node.body:
                        method = known.methods.get(getattr(row, "name", ""))
                        if isinstance(row, ast.FunctionDef) and method is not None \
                                and method.filename == changed.filename:
                            method.definition = row

    def texts(self) -> dict[str, str]:
        """Return the code by namespace."""
        for kind in self.classes():
            for method in kind.methods.values():
                method.follow()
        return {name.removeprefix("code/").removesuffix(".py").replace("/", "."): "".join(lines)
                for name, (_, lines) in self._files.items()}

    def classes(self) -> list[ClassType]:
        """Return the classes looked up so far."""
        return [v for v in self._defined.values() if isinstance(v, ClassType)]

    def find_known(self, qualified_name: str) -> Any:
        """Return a class or function that was looked up before, or None."""
        return self._defined.get(qualified_name)

    def lines(self, filename: str) -> list[str]:
        """Return the lines of a code file."""
        return self._files[filename][1]

    def define(self, filename: str, text: str) -> ast.Module:
        """Parse a code file. Raise ScriptSyntaxError if it is not valid Python."""
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ScriptSyntaxError(f"{filename}: {error}") from None
        self._files[filename] = tree, text.splitlines(keepends=True)
        return tree

    def find(self, qualified_name: str) -> Any:
        """Return the function or class with this name, defining it on first use."""
        known = self._defined.get(qualified_name)
        if known is None:
            known = self._defined[qualified_name] = self._define(qualified_name)
        return known

    def _define(self, qualified_name: str) -> Any:
        space, _, name = qualified_name.rpartition(".")
        filename = f"code/{space.replace('.', '/')}.py"
        if filename not in self._files:
            text = self._read(filename)
            if text is None:
                return self._find_member(qualified_name)
            self.define(filename, text)
        for node in self._files[filename][0].body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                return define_class(self, qualified_name, node, filename)
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return Function(self, qualified_name, node, filename)
        return self._find_member(qualified_name)

    def _find_member(self, qualified_name: str) -> Any:
        """Return an Enum member or a method, given its qualified name."""
        owner_name, _, name = qualified_name.rpartition(".")
        if owner_name.count(".") < 1:
            raise ScriptSyntaxError(f"the archive defines no {qualified_name}")
        owner = self.find(owner_name)
        if isinstance(owner, ClassType):
            if owner.kind == "enum" and name in owner.constants:
                return owner.python[name]
            if name in owner.methods:
                return owner.methods[name]
        raise ScriptSyntaxError(f"the archive defines no {qualified_name}")

    def bind(self, kind: str, name: str) -> str:
        """Bind an operator, definition or constant for translated code; return its global name."""
        key = f"{kind[0]}_{name.replace('.', '__dot__')}"
        if key not in self.environment:
            if kind == "operator":
                self.environment[key] = _find_operator(name)
            elif kind == "reference":
                self.environment[key] = self.find(name)
            else:
                self.environment[key] = self._constant(name)
        return key

    def _constant(self, name: str) -> Any:
        number = name.removeprefix("c")
        if not number.isdecimal() or int(number) >= len(self.constants):
            raise ScriptSyntaxError(f"the archive has no constant {name}")
        return self.constants[int(number)]

    def evaluate(self, node: ast.expr, filename: str) -> Any:
        """Evaluate an expression in a class body."""
        tree = ast.Expression(Expressions(filename, self.bind).expression(node))
        return eval(compile(ast.fix_missing_locations(tree), filename, "eval"), self.environment)

    def _is_instance(self, value: Any, kind: str) -> bool:
        return is_instance(value, ast.parse(kind, mode="eval").body, self.find)


def _find_operator(name: str) -> Callable[..., Any]:
    """Return an operator. An unknown one fails only when called, as that may never happen."""
    try:
        return operators.find(name)
    except ScriptSyntaxError as error:
        missing = error

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise missing

    return refuse
