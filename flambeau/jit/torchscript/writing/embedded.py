"""Loaded and traced modules within a scripted one: their code joins the archive under other names.

An archive's namespaces and constants are numbered, so those of a second archive are renamed.
"""

from __future__ import annotations

import re
import textwrap
from typing import Any

from ....nn.module import Module
from ...torchscript.script_module import LoadedModule
from .archive import Call, Instance, Tagged
from .graph_code import GraphCode
from .loaded_module import find_archived_value

__all__ = ["Embedded", "is_embedded", "is_traced"]

_SPACE = re.compile(r"\b__torch__(?=\.)(?!\.torch\.classes\b)")
_CONSTANT = re.compile(r"\bCONSTANTS\.c(\d+)")


def is_traced(module: Any) -> bool:
    """Return whether a module runs a recorded graph."""
    return isinstance(module, Module) and "_flambeau_own" in module.__dict__


def is_embedded(module: Module) -> bool:
    """Return whether a module has code of its own, which joins that of the archive."""
    return isinstance(module, LoadedModule) or is_traced(module)


class Embedded:
    """The modules embedded in one archive. `unit` holds its classes and constants."""

    def __init__(self, unit: Any) -> None:
        self.unit = unit
        self._instances: dict[int, Instance] = {}
        self._spaces: dict[int, str] = {}  # by id of a loaded archive's program
        self._functions: dict[int, str] = {}

    def instance(self, module: Any) -> Instance:
        """Return the object of a module, whose code is added on first use."""
        known = self._instances.get(id(module))
        if known is None:
            embed = self._embed_traced if is_traced(module) else self._embed_loaded
            known = self._instances[id(module)] = embed(module)
        return known

    def function(self, module: Any) -> str:
        """Return the name of a traced function, whose code is added on first use."""
        known = self._functions.get(id(module))
        if known is None:
            known = self._functions[id(module)] = self.unit.classes.name(module.original_name)
            code = GraphCode(module._flambeau_program, "self")
            if "(self)" in code.text:
                raise NotImplementedError(f"torch.jit.script: the traced function "
                                          f"{module.original_name}, which reads parameters")
            space, _, name = known.rpartition(".")
            text = textwrap.dedent(self._renumber(code.text, code.constants))
            text = re.sub(r"\(self: self(?:,\s*)?", "(", text, count=1)
            self.unit.classes.add(space, text.replace("def forward(", f"def {name}(", 1))
        return known

    def _renumber(self, text: str, constants: Any) -> str:
        return _CONSTANT.sub(lambda match: self.unit.constant(constants[int(match[1])]), text)

    def _embed_traced(self, module: Any) -> Instance:
        program, classes = module._flambeau_program, self.unit.classes
        qualified = classes.name(module.original_name)
        code = GraphCode(program, qualified)
        forward = self._renumber(code.text, code.constants)
        result: Instance = classes.tree(module, qualified, forward, frozenset(program.constants))
        return result

    def _embed_loaded(self, module: Any) -> Instance:
        program = module._flambeau_type.program
        space = self._spaces.get(id(program))
        if space is None:
            space = self._spaces[id(program)] = f"__torch__.loaded_{len(self._spaces)}"
            for name, text in program.texts().items():
                renamed = _SPACE.sub(space, self._renumber(text, program.constants))
                self.unit.classes.add(name.replace("__torch__", space, 1), renamed)
        result: Instance = _rename(find_archived_value(module), space, {})
        return result


def _rename(value: Any, space: str, seen: dict[int, Any]) -> Any:
    """Return a value of an archive with the classes of another namespace. Preserves sharing."""
    if isinstance(value, Instance):
        if id(value) not in seen:
            result = seen[id(value)] = Instance(_SPACE.sub(space, value.qualified_name))
            result.attributes = _rename(value.attributes, space, seen)
        return seen[id(value)]
    if isinstance(value, Call):
        return Call(_SPACE.sub(space, value.qualified_name), _rename(value.argument, space, seen))
    if isinstance(value, Tagged):
        return Tagged(_rename(value.value, space, seen), _SPACE.sub(space, value.kind))
    if type(value) in (list, tuple):
        return type(value)(_rename(part, space, seen) for part in value)
    if type(value) is dict:
        return {key: _rename(part, space, seen) for key, part in value.items()}
    return value
