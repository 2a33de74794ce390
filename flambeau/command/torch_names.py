"""The torch names that Python sources use, read from their syntax trees."""

from __future__ import annotations

import ast
import importlib.util
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from ..tensor.absent import Lacking

_ROOTS = ("torch", "flambeau")


class TorchName(NamedTuple):
    """A use of a name such as torch.nn.functional.relu."""

    name: str
    file: Path
    line: int


class ProgramNames:
    """All torch names of a program: its files, and the files that they import."""

    def __init__(self, follow_packages: bool = False) -> None:
        self.uses: list[TorchName] = []
        self.files: set[Path] = set()
        self.unreadable: dict[Path, str] = {}
        self._follow_packages = follow_packages

    def read(self, file: Path) -> None:
        """Add the names in a file and in the modules that it imports."""
        pending = [file]
        while pending:
            path = pending.pop()
            if path in self.files:
                continue
            self.files.add(path)
            try:
                tree = ast.parse(path.read_bytes(), str(path))
            except (OSError, SyntaxError, ValueError) as error:
                self.unreadable[path] = str(error)
                continue
            reader = _FileNames(path)
            reader.visit(tree)
            self.uses += reader.uses
            for name in sorted(reader.imports):
                source = _find_source(name, path.parent, self._follow_packages)
                if source is not None:
                    pending.append(source)


class _FileNames(ast.NodeVisitor):
    """The torch names of a file: its imports, and the attribute chains that start there."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.uses: list[TorchName] = []
        self.imports: set[str] = set()  # modules that are not torch's
        self._aliases: dict[str, str] = {}  # local name: torch name

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            root, _, submodule = alias.name.partition(".")
            if root not in _ROOTS:
                self.imports.add(alias.name)
                continue
            torch_name = f"torch.{submodule}" if submodule else "torch"
            self._use(torch_name, node)
            self._aliases[alias.asname or root] = torch_name if alias.asname else "torch"

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        root, _, submodule = module.partition(".")
        if node.level or root not in _ROOTS:
            self.imports.add("." * node.level + module)
            return
        base = f"torch.{submodule}" if submodule else "torch"
        for alias in node.names:
            torch_name = base if alias.name == "*" else f"{base}.{alias.name}"
            self._use(torch_name, node)
            if alias.name != "*":
                self._aliases[alias.asname or alias.name] = torch_name

    def visit_Attribute(self, node: ast.Attribute) -> None:
        attributes: list[str] = []
        value: ast.expr = node
        while isinstance(value, ast.Attribute):
            attributes.append(value.attr)
            value = value.value
        if isinstance(value, ast.Name) and value.id in self._aliases:
            if isinstance(node.ctx, ast.Load):
                self._use(".".join([self._aliases[value.id], *reversed(attributes)]), node)
        else:
            self.visit(value)

    def _use(self, name: str, node: ast.AST) -> None:
        self.uses.append(TorchName(name, self.file, getattr(node, "lineno", 0)))


def resolve(name: str) -> str | None:
    """Return why a torch name cannot be used, or None if it can.

    A chain is resolved up to the first value that is neither module nor class: the rest
    (`torch.float32.itemsize`, `torch.ops.library.operator`) belongs to a value.
    """
    value: Any = import_module("torch")
    path = "torch"
    for attribute in name.split(".")[1:]:
        if path == "torch.ops":
            return None
        try:
            following = getattr(value, attribute, None)
            if following is None and not hasattr(value, attribute):
                following = import_module(f"{path}.{attribute}")
        except NotImplementedError as error:
            return str(error)
        except ImportError:
            return "flambeau has no such name"
        path = f"{path}.{attribute}"
        if isinstance(following, Lacking):
            return "not implemented"
        value = following
        if not isinstance(value, type(sys)):
            return None  # attributes of classes and values: as far as the source tells
    return None


def _find_source(name: str, folder: Path, installed: bool) -> Path | None:
    """Return the file of an imported module: beside the importing file, or installed."""
    levels = len(name) - len(name.lstrip("."))
    components = name.lstrip(".").split(".") if name.strip(".") else []
    for _ in range(levels - 1):
        folder = folder.parent
    for length in range(len(components), -1 if levels else 0, -1):
        base = folder.joinpath(*components[:length])
        for candidate in (base.with_suffix(".py"), base / "__init__.py"):
            if length and candidate.is_file():
                return candidate
    if levels or not installed or components[0] in sys.stdlib_module_names:
        return None
    try:
        spec = importlib.util.find_spec(components[0])
    except (ImportError, ValueError):
        return None
    origin = getattr(spec, "origin", None)
    return Path(origin) if origin and origin.endswith(".py") else None
