"""Objects of classes that an archive defines. Code can access only declared members."""

from __future__ import annotations

from functools import partial
from typing import Any

__all__ = ["ScriptObject"]


class ScriptObject:
    """An instance of an archive's class, limited to declared attributes and methods."""

    __slots__ = ("_flambeau_attributes", "_flambeau_type")

    def __init__(self, kind: Any) -> None:
        object.__setattr__(self, "_flambeau_type", kind)
        object.__setattr__(self, "_flambeau_attributes", {})

    def _flambeau_get(self, name: str) -> Any:
        """Return a declared attribute or constant. Raise AttributeError for other names."""
        if name in self._flambeau_attributes:
            return self._flambeau_attributes[name]
        if name in self._flambeau_type.constants:
            return self._flambeau_type.constants[name]
        raise AttributeError(f"{self._flambeau_type.name} has no attribute {name!r}")

    def _flambeau_set(self, name: str, value: Any) -> None:
        """Set a declared attribute. Raise AttributeError for other names."""
        if name not in self._flambeau_type.attributes:
            raise AttributeError(f"{self._flambeau_type.name} declares no attribute {name!r}")
        self._flambeau_attributes[name] = value

    def __getattr__(self, name: str) -> Any:
        method = self._flambeau_type.methods.get(name)
        return self._flambeau_get(name) if method is None else partial(method, self)

    def __setattr__(self, name: str, value: Any) -> None:
        self._flambeau_set(name, value)

    def __eq__(self, other: object) -> Any:
        method = self._flambeau_type.methods.get("__eq__")
        return self is other if method is None else method(self, other)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<torch.ScriptObject object of {self._flambeau_type.qualified_name}>"


def _forward_to_declared(name: str) -> Any:
    """Return a special method that forwards to the class's declared one."""
    def call(self: ScriptObject, *args: Any) -> Any:
        method = self._flambeau_type.methods.get(name)
        if method is None:
            raise TypeError(f"'{self._flambeau_type.qualified_name}' object has no method '{name}'")
        return method(self, *args)

    return call


_OPERATORS = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor",
    "lshift", "rshift", "lt", "le", "gt", "ge", "neg", "contains", "len", "str", "int", "float")
for _name in _OPERATORS:
    setattr(ScriptObject, f"__{_name}__", _forward_to_declared(f"__{_name}__"))
