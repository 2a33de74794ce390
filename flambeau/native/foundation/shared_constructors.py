"""Constructors shared by several public classes; errors and signatures still show each class."""

from __future__ import annotations

from types import FunctionType
from typing import Any


def copy_with_name(function: Any, qualname: str) -> Any:
    """Return a copy of a function with another qualified name, which Python's errors quote."""
    code = function.__code__.replace(co_qualname=qualname)
    copy = FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__annotations__ = function.__annotations__
    copy.__doc__, copy.__qualname__, copy.__module__ = (
        function.__doc__, qualname, function.__module__
    )
    return copy


@classmethod  # type: ignore[misc]
def own_constructor(cls: Any, **kwargs: Any) -> None:
    """An `__init_subclass__` that copies the inherited constructor into flambeau's classes."""
    if "__init__" not in vars(cls) and cls.__module__.startswith("flambeau."):
        cls.__init__ = copy_with_name(cls.__init__, f"{cls.__qualname__}.__init__")
