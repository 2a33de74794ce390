"""Interfaces: which modules and objects have the methods that one declares."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any

from ...nn.module import Module
from ..torchscript.writing.annotations import SCRIPTED_CLASSES
from .annotations import find_class_kind
from .signatures import Signature, derive_signature
from .source import is_library, read_source
from .types import Kind, fits

__all__ = ["COMPILED", "explain_class_mismatch", "explain_mismatch", "list_methods"]

COMPILED = "_flambeau_compiled"  # a scripted module's attribute: the methods it was compiled with


def list_methods(interface: type) -> dict[str, Signature]:
    """Return the methods that an interface declares."""
    result = {}
    for name, method in vars(interface).items():
        source = read_source(method) if isinstance(method, FunctionType) else None
        if source is not None:
            result[name] = derive_signature(method, source, True)
    return result


def explain_mismatch(value: Any, interface: type) -> str:
    """Return PyTorch's reason why an object does not implement an interface, or ""."""
    compiled = value.__dict__.get(COMPILED) if isinstance(value, Module) else None
    if not isinstance(value, Module) and type(value) not in SCRIPTED_CLASSES:
        return (f"Assigning the object {value} to an interface fails because the value is not a "
                "TorchScript compatible type, did you forget toturn it into a user defined "
                "TorchScript class?")
    return explain_class_mismatch(type(value), interface, compiled)


def explain_class_mismatch(kind: type, interface: type,
                           compiled: frozenset[str] | None = None) -> str:
    """Return why objects of a class do not implement an interface, or "".

    `compiled`: the methods that they have, if those are fewer than the class's.
    """
    target = find_class_kind(interface)
    is_module = issubclass(kind, Module)
    shown = f"__torch__.{kind.__module__}.{kind.__name__}"
    why = ""
    if issubclass(interface, Module) and not is_module:
        why = (f"Class '{shown}' is not a subtype of the module interface '{target}': only "
               "ScriptModule class can be subtype of module interface.")
    for name, declared in list_methods(interface).items():
        method = inspect.getattr_static(kind, name, None)
        method = getattr(method, "function", method)  # of a scripted class
        has = isinstance(method, FunctionType) and (
            compiled is None or name in compiled or is_library(method))
        if why:
            break
        if not has:
            why = f"Class '{shown}' does not have method '{name}' but interface '{target}' does."
        else:
            why = _compare(name, method, declared, shown)
    return why and (f"Object of type {shown} is not compatible with interface {target}\n{why}")


def _compare(name: str, method: Any, declared: Signature, shown: str) -> str:
    """Return why a method does not match: parameters may be wider, the result narrower."""
    source = read_source(method)
    if source is None:
        return ""
    actual = derive_signature(inspect.unwrap(method), source, True)
    pairs = list(zip(declared.kinds.values(), actual.kinds.values(), strict=False))
    results: list[tuple[Kind, Kind]] = [] if None in (actual.returns, declared.returns) else [
        (actual.returns, declared.returns)]  # type: ignore[list-item]
    if len(declared.kinds) == len(actual.kinds) and all(
            fits(value, target) for value, target in (*pairs, *results)):
        return ""
    return (f"Method on class '{shown}' (1) is not compatible with interface (2)\n"
            f"  (1) {actual.schema(shown)}\n  (2) {declared.schema(shown)}")
