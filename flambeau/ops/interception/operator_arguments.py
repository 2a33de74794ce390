"""All arguments of an operator's call, including defaults: for its rules, and for profiles.

PyTorch's dispatcher passes full argument lists to profiles. Here a call only has the arguments that
the program passed; the signature of the operator's function supplies the rest.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from inspect import Parameter
from typing import Any

from ..core.operator import OPERATORS, Operator
from ..registration.aten_schemas import get_schemas


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


def bind_arguments(operator: Operator, args: tuple, kwargs: dict[str, Any],
                   reflected: bool) -> list[Any]:
    """Return all of the operator's arguments in order, with defaults filled in."""
    if reflected:
        args = args[::-1]
    values = list(args)
    if not kwargs:
        values += _list_defaults(operator)[len(values) :]
        return values
    for alias, name in (("axis", "dim"), ("keepdims", "keepdim")):
        if alias in kwargs and alias not in operator.names:
            kwargs = {**kwargs, name: kwargs[alias]}
    values += [kwargs.get(parameter.name, default) for parameter, default in
               zip(operator.parameters, _list_defaults(operator), strict=True)][len(values) :]
    return values


@functools.cache
def _list_defaults(operator: Operator) -> tuple[Any, ...]:
    """Return the value of each omitted parameter."""
    return tuple([() if p.kind is p.VAR_POSITIONAL else p.default for p in operator.parameters])


def gather_arguments(operator: Operator, args: tuple, kwargs: dict[str, Any]) -> tuple:
    """Return the positional arguments, those of a `*parameter` as one tuple."""
    position = find_variadic_position(operator)
    if position is None:
        return args
    name = operator.parameters[position].name
    rest = (kwargs[name],) if name in kwargs else args[position:]
    if len(rest) == 1 and isinstance(rest[0], (tuple, list)):
        rest = tuple(rest[0])
    return (*args[:position], rest)


@functools.cache
def find_variadic_position(operator: Operator) -> int | None:
    """Return the position of the operator's `*parameter`, or None."""
    return next((position for position,
                 p in enumerate(operator.parameters) if p.kind is p.VAR_POSITIONAL),
                None)
