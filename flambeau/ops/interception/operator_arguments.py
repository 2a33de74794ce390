"""Operator arguments for profiles, including defaults, in signature order.

PyTorch's dispatcher passes full argument lists to profiles. Here a call only has the arguments that
the program passed; the signature of the operator's function supplies the rest.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from inspect import Parameter
from typing import Any

from ..core.operator import OPERATORS
from ..registration.aten_schemas import get_schemas

__all__ = ["complete_arguments", "list_arguments"]

# Parameters of the Python functions that operators lack.
_PYTHON_ONLY = frozenset({"out", "requires_grad", "memory_format", "size_average",
                          "reduce", "implicit"})
_signatures: dict[Callable, list[Parameter] | None] = {}


def list_arguments(name: str, function: Callable, args: tuple, kwargs: dict[str, Any]) -> tuple:
    """Return the arguments of a call in the order of the operator's signature.

    Sizes passed as separate arguments become one list. For calls that do not fit the signature, and
    so will raise, return the arguments as passed.
    """
    operator = OPERATORS.get(name)
    declared = function if operator is None else operator.function
    parameters = _list_parameters(declared)
    if parameters is None:
        return args
    values: list[Any] = []
    rest = list(args)
    for parameter in parameters:
        if parameter.kind is Parameter.VAR_POSITIONAL:
            if not rest:
                size = kwargs.get(parameter.name.rstrip("_"), kwargs.get("size", ()))
            else:
                size = rest[0] if isinstance(rest[0], (list, tuple)) else rest
            values.append(list(size))
            rest = []
        elif rest and parameter.kind is not Parameter.KEYWORD_ONLY:
            values.append(rest.pop(0))
        elif parameter.name in kwargs:
            values.append(kwargs[parameter.name])
        elif parameter.default is not Parameter.empty:
            values.append(parameter.default)
    if kwargs.get("out") is not None:
        out = kwargs["out"]
        values += out if isinstance(out, (list, tuple)) else [out]
    return args if rest else tuple(values)


def _list_parameters(function: Callable) -> list[Parameter] | None:
    """Return an operator's parameters, or None if the function does not show them."""
    if function not in _signatures:
        try:
            shown = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            _signatures[function] = None
        else:
            listed = any(p.kind is Parameter.VAR_POSITIONAL for p in shown)
            _signatures[function] = [
                p for p in shown
                if p.name not in _PYTHON_ONLY and p.kind is not Parameter.VAR_KEYWORD
                and not (listed and p.name in ("shape", "size", "generator")
                         and p.kind is not Parameter.VAR_POSITIONAL)]
    return _signatures[function]


def complete_arguments(name: str, overload: str, values: Iterable[Any]) -> tuple:
    """Return the arguments of a call of aten's, the schema's defaults for those that are missing.

    Without an overload, the first one counts that lets them be left out.
    """
    values = tuple(values)
    schemas = get_schemas(name)
    for schema in [schemas[overload]] if overload in schemas else schemas.values():
        missing = schema.arguments[len(values):]
        if not any(argument.required for argument in missing):
            return (*values, *(argument.default_value for argument in missing))
    return values
