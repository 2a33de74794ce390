"""Write the classes of an archive, one per module: their declarations and methods."""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence
from typing import Any

from ....nn.module import Module
from ....tensor.tensor import Tensor
from .archive import Instance

__all__ = ["ClassWriter", "Method", "write_attribute_read", "write_literal"]


def _is_identifier(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)


def write_attribute_read(owner: str, path: str) -> str:
    """Return the expression that reads `a.0.b` of an object."""
    result = owner
    for name in path.split("."):
        result = f"({result}).{name}" if _is_identifier(name) else f'getattr({result}, "{name}")'
    return result


def write_literal(value: Any) -> str:
    """Return a constant as a TorchScript literal."""
    if isinstance(value, float):
        return {"inf": "inf", "-inf": "-inf", "nan": "nan"}.get(str(value), repr(value))
    if isinstance(value, str):
        return '"' + value.encode("unicode_escape").decode().replace('"', '\\"') + '"'
    if isinstance(value, (tuple, list)):
        inner = ", ".join(map(write_literal, value))
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner}{',' if len(value) == 1 else ''})"
    if value is None or isinstance(value, (bool, int)):
        return str(value)
    raise NotImplementedError(f"a constant of type {type(value).__name__}")


class Method:
    """A method in TorchScript: its parameters besides self, and its lines, indented by two spaces
    per level."""

    def __init__(self, parameters: str, *lines: str) -> None:
        self.parameters, self.lines = parameters, lines

    def text(self, name: str, class_name: str, result: str = "") -> str:
        """Return the definition. `result`: the type of the result, if it is to be declared."""
        arguments = f"self: {class_name}" + (f", {self.parameters}" if self.parameters else "")
        arrow = f" -> {result}" if result else ""
        body = "".join(f"    {line}\n" for line in self.lines)
        return f"  def {name}({arguments}){arrow}:\n{body}"


class ClassWriter:
    """Collects the text of classes by namespace, and their objects."""

    def __init__(self) -> None:
        self.code: dict[str, str] = {}
        self._numbers: dict[str, int] = {}

    def name(self, name: str, module: str = "") -> str:
        """Return a qualified name that is unique in the archive. `module`: Python's module."""
        clean = name if _is_identifier(name) else "Module"
        space = "__torch__"
        if module != "__main__" and module and all(map(_is_identifier, module.split("."))):
            space += f".{module}".replace(".flambeau", ".torch", 1)
        number = self._numbers.get(f"{space}.{clean}", 0)
        self._numbers[f"{space}.{clean}"] = number + 1
        return f"{space}.___torch_mangle_{number}.{clean}" if number else f"{space}.{clean}"

    def add(self, space: str, text: str) -> None:
        """Append text to a namespace."""
        self.code[space] = self.code.get(space, "") + text

    def module(self, module: Module, qualified: str, methods: str, children: dict[str, Instance],
               attributes: dict[str, tuple[str, Any]] | None = None,
               constants: dict[str, tuple[str, str]] | None = None,
               omitted: frozenset[str] = frozenset(),
               declarations: Sequence[str] = (),
               kinds: Mapping[str, str] | None = None) -> Instance:
        """Write the class of one module and return its object.

        `attributes`: (type, value) by name. `constants`: (type, text) by name. Declares the
        module's parameters and buffers, except buffers in `omitted`. `declarations`: more lines.
        `kinds`: interfaces of children by name.
        """
        rows: dict[str, tuple[str, Any]] = {}
        buffers = {k: v for k, v in module._buffers.items() if k not in omitted}
        tensors = {**module._parameters, **buffers}
        for key, value in tensors.items():
            rows[key] = ("NoneType" if value is None else "Tensor", value)
        rows["training"] = ("bool", module.training)
        rows.update(attributes or {})
        lines = [
            f"class {qualified.rpartition('.')[2]}(Module):",
            f"  __parameters__ = {_names(module._parameters)}",
            f"  __buffers__ = {_names(buffers)}",
            *declarations,
        ]
        declared = {k: kind for k, (kind, _) in rows.items()}
        declared.update({k: child.qualified_name for k, child in children.items()})
        declared.update(kinds or {})
        if not all(map(_is_identifier, declared)):
            lines.append("  __annotations__ = []")
        lines += [f"  {k} : {kind}" if _is_identifier(k) else f'  __annotations__["{k}"] = {kind}'
                  for k, kind in declared.items()]
        lines += [f"  {k} : Final[{kind}] = {text}" for k, (kind, text) in
                  (constants or {}).items()]
        self.add(qualified.rpartition(".")[0], "\n".join(lines) + "\n" + methods)
        values = {k: value for k, (_, value) in rows.items()}
        return Instance(qualified, {**values, **children})

    def tree(self, module: Module, qualified: str, methods: str,
             omitted: frozenset[str] = frozenset()) -> Instance:
        """Write a module and its descendants. Only the root gets methods."""
        seen: dict[int, Instance] = {}

        def below(owner: Module) -> dict[str, Instance]:
            result = {}
            for key, child in owner._modules.items():
                if child is None:
                    continue
                if id(child) not in seen:
                    name = self.name(getattr(child, "original_name", type(child).__name__))
                    seen[id(child)] = self.module(child, name, "", below(child))
                result[key] = seen[id(child)]
            return result

        return self.module(module, qualified, methods, below(module), omitted=omitted)


def _names(table: Mapping[str, Tensor | None]) -> str:
    """Return the names of the tensors in a table as a list literal."""
    return "[" + "".join(f'"{k}", ' for k, v in table.items() if v is not None) + "]"
