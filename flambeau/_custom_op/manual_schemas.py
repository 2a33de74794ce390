"""Whether a function has the signature that a schema written by hand describes."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from ..ops.registration.schema import Argument, Schema

__all__ = ["check_signature"]

_PREFIX = "custom_op(..., manual_schema)(func): "


def check_signature(schema: Schema, func: Callable) -> None:
    """Raise ValueError unless the parameters of a function are the arguments of a schema, without
    annotations and defaults."""
    signature = inspect.signature(func)
    parameters = list(signature.parameters.values())
    empty = inspect.Parameter.empty
    usual = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if any(p.kind not in usual for p in parameters):
        raise ValueError(
            f"{_PREFIX}positional-only args, varargs, and kwargs are not supported. Please rewrite "
            f"`func` to not have them. Got `func` with signature: {signature}")
    if signature.return_annotation is not inspect.Signature.empty \
            or any(p.annotation is not empty for p in parameters):
        raise ValueError(
            f"{_PREFIX}When passing in a manual schema, we expect `func` to have no type "
            f"annotations to avoid ambiguity. Got `func` with signature: {signature}")
    for is_keyword in (False, True):
        own = [p for p in parameters if (p.kind is usual[1]) is is_keyword]
        _compare(own, [a for a in schema.arguments if a.kwarg_only is is_keyword],
                 f"func's signature: {signature}, manual_schema: {schema}")


def _compare(
    parameters: list[inspect.Parameter], arguments: list[Argument], both: str
) -> None:
    is_like = len(parameters) == len(arguments)
    for parameter, argument in zip(parameters, arguments, strict=False):
        is_like = is_like and parameter.name == argument.name
        if is_like and (parameter.default is not inspect.Parameter.empty
                        or argument.has_default_value()):
            raise ValueError(f"{_PREFIX}neither func nor manual_schema should have default "
                             f"arguments. Got {both}")
    if not is_like:
        raise ValueError(f"{_PREFIX}When passing in a manual schema, we expect `func`'s signature "
                         f"to match `manual_schema` (aside from type annotations). {both}")
