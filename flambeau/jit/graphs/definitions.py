"""The classes and functions that a scripted program's texts define, by qualified name."""

from __future__ import annotations

import ast
from typing import Any

__all__ = ["Definitions"]


class Definitions:
    """Parsed texts of a program. `texts`: source by namespace, as in an archive."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.functions: dict[str, ast.FunctionDef] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        for space, text in texts.items():
            for statement in ast.parse(text).body:
                if isinstance(statement, ast.FunctionDef):
                    self.functions[f"{space}.{statement.name}"] = statement
                elif isinstance(statement, ast.ClassDef):
                    self.classes[f"{space}.{statement.name}"] = statement
        self.enums = frozenset(name for name, kind in self.classes.items() if any(
            ast.unparse(base) == "Enum" for base in kind.bases))

    def find_attribute(self, kind: str, name: str) -> str | None:
        """Return the type of a class's attribute, or None if it declares none."""
        definition = self.classes.get(kind)
        for row in [] if definition is None else definition.body:
            if isinstance(row, ast.AnnAssign) and ast.unparse(row.target) == name:
                return ast.unparse(row.annotation)
            if isinstance(row, ast.Assign) and ast.unparse(row.targets[0]) in (
                    "__parameters__", "__buffers__") and name in ast.unparse(row.value):
                return "Tensor"
        return None

    def find_method(self, kind: str, name: str) -> ast.FunctionDef | None:
        """Return a class's method, or None."""
        definition = self.classes.get(kind)
        return next((row for row in ([] if definition is None else definition.body)
                     if isinstance(row, ast.FunctionDef) and row.name == name), None)

    def find_member_value(self, path: str) -> Any:
        """Return the value of an Enum's member as text, or None."""
        kind, _, name = path.rpartition(".")
        for row in self.classes[kind].body if kind in self.enums else []:
            if isinstance(row, ast.Assign) and ast.unparse(row.targets[0]) == name:
                return row.value
        return None
