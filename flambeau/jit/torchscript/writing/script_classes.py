"""Write a program's classes other than modules: script classes, enums and interfaces."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

from ....nn.module import Module
from ....tensor.tensor import Tensor
from .annotations import is_named_tuple, is_written_class, type_text
from .classes import write_literal
from .inferred_types import TypeInference
from .source_code import FunctionCode

__all__ = ["list_attribute_types", "write_enum", "write_interface", "write_script_class"]

_PYTHON_ONLY = ("ignore", "unused")


def write_enum(kind: type[enum.Enum], qualified: str) -> str:
    """Return an Enum class's text: its members and their values."""
    rows = [f"  {member.name} = {write_literal(member.value)}" for member in kind]
    return "\n".join([f"class {qualified.rpartition('.')[2]}(Enum):", *rows]) + "\n"


def write_interface(kind: type, qualified: str, declare: Callable[[Any], str]) -> str:
    """Return an interface's text: the signatures of its methods."""
    base = "ModuleInterface" if issubclass(kind, Module) else "Interface"
    lines = [f"class {qualified.rpartition('.')[2]}({base}):"]
    for name, method in vars(kind).items():
        if not isinstance(method, types.FunctionType):
            continue
        hints = typing.get_type_hints(method)
        first, *rest = inspect.signature(method).parameters
        parameters = "".join(f", {p}: {type_text(hints.get(p, Tensor), declare)}" for p in rest)
        result = type_text(hints.get("return", Tensor), declare)
        lines += [f"  def {name}({first}: {qualified}{parameters}) -> {result}:", "    pass"]
    return "\n".join(lines) + "\n"


def _list_members(kind: type) -> dict[str, Any]:
    """Return the methods of a class and its bases by name; the nearest definition wins."""
    result: dict[str, Any] = {}
    for base in kind.__mro__[:-1]:
        for name, member in vars(base).items():
            if isinstance(member, (types.FunctionType, staticmethod, property)):
                result.setdefault(name, member)
    return result


def write_script_class(kind: type, qualified: str, unit: Any) -> str:
    """Return a class's text with all its methods.

    Raises NotImplementedError, with the line, for code that cannot be written.
    """
    rows = list_attribute_types(kind, unit)
    lines = [f"class {qualified.rpartition('.')[2]}:", *(f"  {n} : {t}" for n, t in rows.items())]
    text = "\n".join(lines) + "\n"
    members = _list_members(kind)
    if dataclasses.is_dataclass(kind):
        text += _write_dataclass_methods(kind, qualified, rows, "__post_init__" in members, unit)
        members = {n: m for n, m in members.items() if not _is_generated(m)}
    for name, member in members.items():
        if getattr(member, "_torchscript_modifier", "") in _PYTHON_ONLY:
            continue
        text += _write_method(kind, qualified, name, member, unit)
    return text + "".join(unit.inherited_methods.pop(qualified, {}).values())


def _write_method(kind: type, qualified: str, name: str, member: Any, unit: Any) -> str:
    if isinstance(member, property):
        if member.fset is not None:
            raise NotImplementedError(
                f"torch.jit.script: the setter of {kind.__name__}.{name}; write a method")
        member = member.fget
    is_static = isinstance(member, staticmethod)
    function = member.__func__ if is_static else member
    code = FunctionCode(function, None, unit, None if is_static else kind)
    text = code.text(name, qualified, is_static=is_static)
    if name == "__init__":
        text += "    return None\n"
    return text


def _is_generated(member: Any) -> bool:
    """Return whether `dataclass` generated the method, which then has no source."""
    function = getattr(member, "__func__", member)
    code = getattr(function, "__code__", None)
    return code is not None and code.co_filename == "<string>" \
        or getattr(function, "__name__", "") == "__repr__" and not isinstance(member, property)


def _write_dataclass_methods(kind: type, qualified: str, rows: dict[str, str], has_post_init: bool,
                             unit: Any) -> str:
    """Write `__init__` and `__eq__` of a dataclass, equivalent to the generated ones."""
    parameters, body = "", ""
    for field in dataclasses.fields(kind):
        if field.default_factory is not dataclasses.MISSING:
            raise NotImplementedError(f"torch.jit.script: the default_factory of "
                                      f"{kind.__name__}.{field.name}; set it in __post_init__")
        default = "" if field.default is dataclasses.MISSING else "=" + (
            unit.register_enum_member(field.default) if isinstance(field.default, enum.Enum)
            else write_literal(field.default))
        if field.init:
            parameters += f", {field.name}: {rows[field.name]}{default}"
            body += f"    self.{field.name} = {field.name}\n"
    body += "    self.__post_init__()\n" if has_post_init else ""
    text = f"  def __init__(self: {qualified}{parameters}) -> NoneType:\n{body}    return None\n"
    compared = [rows[f.name] for f in dataclasses.fields(kind) if f.compare]
    if "Tensor" in compared:  # `==` of tensors is no bool
        return text
    same = " and ".join(f"self.{f.name} == other.{f.name}" for f in dataclasses.fields(kind)
                        if f.compare) or "True"
    text += (f"  def __eq__(self: {qualified}, other: {qualified}) -> bool:\n"
             f"    return {same}\n")
    is_ordered = vars(kind)["__dataclass_params__"].order
    return text + (_write_order(kind, qualified) if is_ordered else "")


def _write_order(kind: Any, qualified: str) -> str:
    """Write the comparisons of a dataclass: the first fields that differ decide."""
    names = [field.name for field in dataclasses.fields(kind) if field.compare]
    text = ""
    for method, sign, when_equal in (("__lt__", "<", False), ("__le__", "<", True),
                                     ("__gt__", ">", False), ("__ge__", ">", True)):
        text += f"  def {method}(self: {qualified}, other: {qualified}) -> bool:\n"
        for name in names:
            text += (f"    if self.{name} != other.{name}:\n"
                     f"      return self.{name} {sign} other.{name}\n")
        text += f"    return {when_equal}\n"
    return text


def list_attribute_types(kind: type, unit: Any) -> dict[str, str]:
    """Return the types of a class's attributes, annotated or inferred from `__init__`."""
    outer: dict[str, Any] = {kind.__name__: kind}
    initialize = kind.__dict__.get("__init__", getattr(kind, "__init__", None))
    if isinstance(initialize, types.FunctionType) and initialize.__closure__:
        outer |= {n: c.cell_contents for n, c in zip(
            initialize.__code__.co_freevars, initialize.__closure__, strict=True)}
    hints = typing.get_type_hints(kind, localns=outer)
    rows = {name: type_text(hint, unit.declare) for name, hint in hints.items()
            if typing.get_origin(hint) is not typing.ClassVar}
    for base in reversed(kind.__mro__[:-1]):
        function = vars(base).get("__init__")
        if isinstance(function, types.FunctionType) and not _is_generated(function):
            _add_assigned(FunctionCode(function, None, unit, kind), rows, unit)
    return rows


def _add_assigned(code: FunctionCode, rows: dict[str, str], unit: Any) -> None:
    """Add the attributes that an `__init__` assigns."""
    def result_of(call: ast.Call) -> str | None:
        function = code.scope.find(call.func)
        return None if function is None else _find_result_type(code, call, function.value, unit)

    inference = TypeInference({**code.parameter_types(), **{
        f"self.{name}": kind for name, kind in rows.items()}}, result_of)
    owner = code.tree.args.args[0].arg
    for node in ast.walk(code.tree):
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            is_own = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) \
                and target.value.id == owner
            if isinstance(node, ast.AnnAssign):
                kind: str | None = code.write_type(node, node.annotation)
            else:
                kind = inference.infer(node.value)
            if is_own:
                name = target.attr  # type: ignore[attr-defined]
                if name not in rows and kind is None:
                    code.refuse(node, f"the attribute {name}, whose type is not known: declare it "
                                      "in the class body")
                kind = rows.setdefault(name, kind or "")
                inference.names[f"self.{name}"] = kind
            elif isinstance(target, ast.Name) and kind is not None:
                inference.names.setdefault(target.id, kind)


def _find_result_type(code: FunctionCode, call: ast.Call, function: Any, unit: Any) -> str | None:
    """Return the result type of a call, or None if unknown."""
    name, module = getattr(function, "__name__", ""), getattr(function, "__module__", "") or ""
    if name == "annotate" and module.endswith(".jit"):
        return code.write_type(call, call.args[0])
    if is_named_tuple(function) or is_written_class(function):
        return str(unit.declare(function))
    if isinstance(function, types.FunctionType) and "return" in function.__annotations__:
        hints = typing.get_type_hints(function)
        if not module.startswith("flambeau"):
            return type_text(hints["return"], unit.declare)
    return "Tensor" if module.partition(".")[0] == "flambeau" and callable(function) \
        and not isinstance(function, type) else None
