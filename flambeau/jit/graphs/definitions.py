"""The classes and functions that a scripted program's texts define, by qualified name."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

__all__ = ["Definitions"]


class Definitions:
    """Parsed texts of a program.

    `texts`: source by namespace, as in an archive. `constants`: its tensors and objects.
    """

    def __init__(self, texts: dict[str, str], constants: Sequence[Any] = ()) -> None:
        self.constants = constants
        self._attributes: dict[tuple[str, str], str | None] = {}
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

    def kind_of_class(self, kind: str) -> str:
        """Return what the class derives from: Module, NamedTuple, Enum, interface or object."""
        definition = self.classes.get(kind)
        bases = [] if definition is None else [ast.unparse(base) for base in definition.bases]
        base = bases[0] if bases else "object"
        return "interface" if base in ("Interface", "ModuleInterface") else base

    def list_fields(self, kind: str) -> dict[str, str] | None:
        """Return the fields of a named tuple with their types, or None for other classes."""
        if kind not in self.classes or self.kind_of_class(kind) != "NamedTuple":
            return None
        return {ast.unparse(row.target): ast.unparse(row.annotation)
                for row in self.classes[kind].body if isinstance(row, ast.AnnAssign)}

    def is_plain(self, kind: str) -> bool:
        """Return whether values are compared without a method of the class."""
        return self.kind_of_class(kind) in ("Enum", "NamedTuple")

    def find_attribute(self, kind: str, name: str) -> str | None:
        """Return the type of a class's attribute, or None if it declares none."""
        key = (kind, name)
        if key not in self._attributes:
            self._attributes[key] = self._read_attribute(kind, name)
        return self._attributes[key]

    def _read_attribute(self, kind: str, name: str) -> str | None:
        definition = self.classes.get(kind)
        for row in [] if definition is None else definition.body:
            target = row.target if isinstance(row, ast.AnnAssign) else row.targets[0] \
                if isinstance(row, ast.Assign) else None
            is_quoted = isinstance(target, ast.Subscript) and isinstance(
                target.slice, ast.Constant) and target.slice.value == name
            if isinstance(row, ast.AnnAssign) and (is_quoted or ast.unparse(row.target) == name):
                text = ast.unparse(row.annotation)
                return text[6:-1] if text.startswith("Final[") else text
            if isinstance(row, ast.Assign) and is_quoted:
                return ast.unparse(row.value)
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
