"""Programs that were just written, as modules: without a file, and with the same tensors."""

from __future__ import annotations

from typing import Any

from . import packed_objects
from .program import Program
from .script_module import LoadedModule
from .writing.archive import Call, Instance, Tagged

__all__ = ["create_program", "instantiate"]


def create_program(code: dict[str, str], constants: Any) -> Program:
    """Return a program of texts by namespace."""
    files = {f"code/{space.replace('.', '/')}.py": text for space, text in code.items()}
    program = Program(files.get)
    program.constants = tuple(constants)
    program.read_all(list(files))
    return program


def instantiate(root: Instance, code: dict[str, str], constants: Any) -> LoadedModule:
    """Return the module that an archive of these parts holds. Tensors are shared, lists copied."""
    result: LoadedModule = _Objects(create_program(code, constants)).create(root)
    return result


class _Objects:
    """Objects of one program. Preserves sharing of modules and script objects."""

    def __init__(self, program: Program) -> None:
        self._program, self._known = program, dict[int, Any]()

    def create(self, value: Any) -> Any:
        """Return the runtime's form of a value."""
        if isinstance(value, Instance):
            if id(value) not in self._known:
                self._fill(value)
            return self._known[id(value)]
        if isinstance(value, Call):
            kind, argument = self._program.find(value.qualified_name), self.create(value.argument)
            return kind.python(argument) if kind.kind == "enum" else kind.python(*argument)
        if isinstance(value, Tagged):
            return self.create(value.value)
        if isinstance(value, list):
            return [self.create(part) for part in value]
        if isinstance(value, dict):
            return {self.create(key): self.create(part) for key, part in value.items()}
        return tuple(map(self.create, value)) if type(value) is tuple else value

    def _fill(self, value: Instance) -> None:
        if value.qualified_name.startswith("__torch__.torch.classes."):
            kind = packed_objects.start(value.qualified_name)
            packed: Any = object.__new__(kind)
            self._known[id(value)] = packed
            packed_objects.restore(packed, self.create(value.attributes))
            return
        kind = self._program.find(value.qualified_name)
        result = self._known[id(value)] = kind.new()
        state = self.create(value.attributes)
        restore = kind.methods.get("__setstate__")
        if restore is not None:
            restore(result, state)
            return
        for name, part in state.items():
            result._flambeau_set(name, part)
