"""Frozen graphs as a program of their own, and the module that runs it."""

from __future__ import annotations

import ast
import itertools
import textwrap
from enum import Enum
from typing import Any

from ..torchscript.instantiation import create_program
from ..torchscript.objects import ScriptObject
from ..torchscript.script_module import LoadedModule
from .following import follow_graph
from .freezing import Frozen
from .writing import GraphWriter

__all__ = ["assemble"]


def assemble(module: LoadedModule, frozen: Frozen) -> LoadedModule:
    """Return a module with the frozen methods and the attributes that they need."""
    return _Assembly(module, frozen).build()


class _Assembly:
    def __init__(self, module: Any, frozen: Frozen) -> None:
        self._root, self._frozen = module, frozen
        self._program = module._flambeau_type.program
        self._writer = GraphWriter(list(self._program.constants))
        self._names: dict[int, str] = {}  # of the classes of modules, by module
        self._modules: dict[int, Any] = {}
        self._results: dict[int, Any] = {}
        self._collect(module)

    def _collect(self, module: Any) -> None:
        """Name the classes of the modules that stay."""
        if id(module) in self._names:
            return
        kind = module._flambeau_type
        name = kind.qualified_name
        if id(module) not in self._frozen.whole:
            taken = {*self._names.values(), *(m._flambeau_type.qualified_name for m in
                     self._modules.values() if id(m) in self._frozen.whole)}
            for number in itertools.count():
                if name not in taken:
                    break
                name = f"__torch__.___torch_mangle_frozen_{number}.{kind.name}"
        self._names[id(module)], self._modules[id(module)] = name, module
        for child in self._list_attributes(module).values():
            if isinstance(child, LoadedModule):
                self._collect(child)

    def _list_attributes(self, module: Any) -> dict[str, Any]:
        """Return the attributes of a module that stay, in the order of its class."""
        needed = self._frozen.attributes.get(id(module), set())
        return {name: module._flambeau_get(name) for name in module._flambeau_type.attributes
                if name in needed and name not in module._flambeau_type.constants}

    def build(self) -> LoadedModule:
        """Return the module."""
        for method, graph in self._frozen.graphs.items():
            first = next(graph.inputs())
            first.setType(first.type().derive(self._names[id(method.owner)]))
        code = self._write_code()
        program = create_program(code, self._writer.constants)
        result: LoadedModule = self._transfer(self._root, program)
        for method, graph in self._frozen.graphs.items():
            kind = self._results[id(method.owner)]._flambeau_type
            follow_graph(kind.methods[method.name], graph)
        for owner in self._results.values():
            if isinstance(owner, LoadedModule) and "training" not in \
                    owner._flambeau_type.attributes:
                owner.__dict__.pop("training", None)
        return result

    def _write_code(self) -> dict[str, str]:
        replaced = {id(m): self._write_class(m) for m in self._modules.values()
                    if id(m) not in self._frozen.whole}
        whole = {m._flambeau_type.qualified_name for m in self._modules.values()
                if id(m) in self._frozen.whole}
        code: dict[str, str] = {}
        for space, text in self._program.texts().items():
            parts = [ast.unparse(node) for node in ast.parse(text).body
                     if not _is_module(node) or f"{space}.{node.name}" in whole]
            code[space] = "\n".join(parts) + "\n" if parts else ""
        for key, text in [*((self._names[key], text) for key, text in replaced.items()),
                          *self._writer.functions.items()]:
            space = key.rpartition(".")[0]
            code[space] = code.get(space, "") + text
        return {space: text for space, text in code.items() if text}

    def _write_class(self, module: Any) -> str:
        kind, attributes = module._flambeau_type, self._list_attributes(module)
        lines = [f"class {self._names[id(module)].rpartition('.')[2]}(Module):"]
        for table, names in (("parameters", kind.parameters), ("buffers", kind.buffers)):
            listed = "".join(f'"{n}", ' for n in attributes if n in names)
            lines.append(f"  __{table}__ = [{listed}]")
        if not all(map(str.isidentifier, attributes)):
            lines.append("  __annotations__ = []")
        for name, value in attributes.items():
            declared = ast.unparse(kind.attributes[name])
            if isinstance(value, LoadedModule) and declared == \
                    value._flambeau_type.qualified_name:
                declared = self._names[id(value)]
            lines.append(f"  {name} : {declared}" if name.isidentifier()
                         else f'  __annotations__["{name}"] = {declared}')
        text = "\n".join(lines) + "\n"
        for method, graph in self._frozen.graphs.items():
            if method.owner is module:
                text += textwrap.indent(self._writer.write(graph, method.name), "  ")
        return text

    def _transfer(self, value: Any, program: Any) -> Any:
        """Return a value of the new program."""
        if isinstance(value, (LoadedModule, ScriptObject)):
            if id(value) not in self._results:
                self._transfer_object(value, program)
            return self._results[id(value)]
        if isinstance(value, Enum):
            return program.find(_find_name(self._program, type(value))).python[value.name]
        if isinstance(value, tuple):
            parts = [self._transfer(part, program) for part in value]
            if type(value) is tuple:
                return tuple(parts)
            return program.find(_find_name(self._program, type(value))).python(*parts)
        if isinstance(value, list):
            return [self._transfer(part, program) for part in value]
        if isinstance(value, dict):
            return {self._transfer(k, program): self._transfer(v, program)
                    for k, v in value.items()}
        return value

    def _transfer_object(self, value: Any, program: Any) -> None:
        name = self._names.get(id(value), value._flambeau_type.qualified_name)
        result = self._results[id(value)] = program.find(name).new()
        names = self._list_attributes(value) if isinstance(value, LoadedModule) \
            else value._flambeau_attributes
        for attribute, part in dict(names).items():
            result._flambeau_set(attribute, self._transfer(part, program))


def _is_module(node: ast.stmt) -> bool:
    return isinstance(node, ast.ClassDef) and [ast.unparse(b) for b in node.bases] == ["Module"]


def _find_name(program: Any, kind: type) -> str:
    return next(k.qualified_name for k in program.classes() if k.python is kind)
