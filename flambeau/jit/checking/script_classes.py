"""Attributes of script classes: those that `__init__` sets, and their types."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from types import FunctionType
from typing import Any

from .annotations import find_class_kind, read_annotation
from .diagnostics import Call, Refusal
from .signatures import derive_signature
from .source import read_source
from .types import UNKNOWN, Kind, fits, is_known

__all__ = ["ScriptClasses"]

_CLASS_ATTRIBUTE = (" '{name}' is defined as a class attribute which currently is not supported. "
                    "Consider converting this to an instance attribute.")


class ScriptClasses:
    """Knows the attributes of the classes of a program."""

    def __init__(self) -> None:
        self._attributes: dict[type, dict[str, Kind]] = {}

    def check(self, function: Any, owner: Any = None, call: Call | None = None) -> Kind:
        """Check a function or method; return the type that it returns."""
        raise NotImplementedError

    def check_class(self, kind: type) -> None:
        """Check the methods of a script class, `__init__` first."""
        if dataclasses.is_dataclass(kind) or kind.__mro__[1:] != (object,):
            return
        self._attributes.pop(kind, None)
        self._init(kind)
        for name, method in vars(kind).items():
            if isinstance(method, FunctionType) and name != "__init__":
                self.check(method, kind)

    def _init(self, kind: type) -> dict[str, Kind]:
        """Return the types of the attributes that `__init__` sets."""
        known = self._attributes.get(kind)
        if known is None:
            known = self._attributes[kind] = {}
            for name, annotation in vars(kind).get("__annotations__", {}).items():
                if name in vars(kind):  # a class attribute, which objects do not have
                    continue
                known[name] = UNKNOWN if isinstance(annotation, str) else \
                    read_annotation(annotation)
            init = vars(kind).get("__init__")
            if isinstance(init, FunctionType):
                self.check(init, kind)
        return known

    def find_class_attribute(self, kind: type, name: str) -> tuple[bool, Kind]:
        """Return whether objects of a class have an attribute, and its type."""
        if hasattr(kind, "_fields"):
            fields = dict(zip(kind._fields, find_class_kind(kind).inner, strict=True))
            return name in fields or hasattr(kind, name), fields.get(name, UNKNOWN)
        if hasattr(kind, "_torchscript_interface"):
            return name in vars(kind), UNKNOWN
        if kind.__mro__[1:] != (object,) or dataclasses.is_dataclass(kind) \
                or hasattr(kind, "__getattr__") or read_source(vars(kind).get("__init__")) is None:
            return True, UNKNOWN
        attributes = self._init(kind)
        if name in attributes:
            return True, attributes[name]
        static = inspect.getattr_static(kind, name, None)
        is_method = isinstance(static, (FunctionType, property, staticmethod, classmethod))
        is_constant = name in getattr(kind, "__constants__", ())
        return is_method or is_constant or name.startswith("__"), UNKNOWN

    def describe_class_attribute(self, kind: Any, name: str) -> str:
        """Return what to say about an attribute that only the class has."""
        if not isinstance(kind, type) or not hasattr(kind, name):
            return ""
        return _CLASS_ATTRIBUTE.format(name=name)

    def set_class_attribute(self, checker: Any, target: ast.Attribute, actual: Kind) -> None:
        """Note an attribute that `__init__` sets; refuse new ones elsewhere and other types."""
        kind, errors = checker.script_class(), checker.errors
        if kind.__mro__[1:] != (object,):
            return
        known = self._attributes.setdefault(kind, {})
        is_property = isinstance(inspect.getattr_static(kind, target.attr, None), property)
        if target.attr in known:
            expected = known[target.attr]
            if is_known(actual) and not fits(actual, expected):
                errors.report("attribute-type", target, expected=expected, actual=actual)
        elif checker.source.tree.name == "__init__":
            if checker.frame.outer is not None:
                errors.report("attribute-in-branch", target)
            known[target.attr] = actual
        elif not is_property:
            errors.report("attribute-set", target, name=target.attr)

    def construct(self, kind: type, args: list[Kind], keywords: dict[str, Kind], errors: Refusal,
                  node: ast.Call) -> None:
        """Check a call of a class."""
        if hasattr(kind, "_fields"):
            fields = find_class_kind(kind).inner
            for name, expected, actual in zip(kind._fields, fields, args, strict=False):
                if not fits(actual, expected):
                    errors.report("argument", node.func, schema=f"{kind.__name__}.__new__",
                                  name=name, expected=expected, actual=actual, hint="")
            return
        init: Any = vars(kind).get("__init__")
        source = read_source(init)
        if source is None or dataclasses.is_dataclass(kind) or hasattr(
                kind, "_torchscript_interface"):
            return
        derive_signature(inspect.unwrap(init), source, True).check(
            args, keywords, errors, node)
        if not errors.muted:
            self._init(kind)

    def find_method_result(self, kind: Any, name: str) -> Kind:
        """Return the type that a method of an object is annotated to return."""
        method = inspect.getattr_static(kind, name, None)
        if not isinstance(method, FunctionType):
            return UNKNOWN
        source = read_source(method)
        return UNKNOWN if source is None else derive_signature(method, source,
                                                               True).returns or UNKNOWN
