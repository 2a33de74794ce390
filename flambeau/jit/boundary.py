"""Calls from Python into scripted code: arguments are checked and converted, errors located.

PyTorch copies lists and dictionaries on the way in, so that a scripted function cannot change its
caller's. Calls from scripted code to scripted code pass everything by reference.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

from .checking.signatures import Signature, derive_signature
from .checking.source import read_source
from .checking.types import Kind
from .conversions import CastError, convert_value
from .python_code import PYTHON_CODE
from .script_errors import convert_error

__all__ = ["Entry", "is_in_script"]


class _State(threading.local):
    """Whether this thread is running scripted code."""

    is_inside = False


STATE = _State()


def is_in_script() -> bool:
    """Return whether the caller is scripted code, not a Python function that such code calls."""
    if not STATE.is_inside:
        return False
    frame = sys._getframe(2)
    while frame is not None and frame.f_code is not Entry.__call__.__code__:
        if frame.f_code in PYTHON_CODE:
            return False
        frame = frame.f_back  # type: ignore[assignment]
    return True


class Entry:
    """A function or method as Python calls it."""

    def __init__(self, function: Any, is_method: bool = False, owner: str = "",
                 returns: Kind | None = None) -> None:
        self._is_method, self._owner = is_method, owner
        self._signature: Signature | None = None
        plain = inspect.unwrap(function)
        source = read_source(plain) if isinstance(plain, FunctionType) else None
        if source is not None:
            try:
                self._signature = derive_signature(plain, source, is_method)
                self._signature.returns = self._signature.returns or returns
            except (RuntimeError, ValueError):  # the checker reports what is wrong
                self._signature = None

    def __call__(self, function: Callable[..., Any], args: tuple[Any, ...],
                 kwargs: dict[str, Any]) -> Any:
        """Call `function`, which may run hooks around the one that was described."""
        if STATE.is_inside:
            return function(*args, **kwargs)
        if self._signature is not None:
            args, kwargs = self._convert(self._signature, args, kwargs)
        STATE.is_inside = True
        try:
            return function(*args, **kwargs)
        except Exception as error:
            converted = convert_error(error)
            if converted is error:
                raise
            raise converted from error
        finally:
            STATE.is_inside = False

    @property
    def schema(self) -> str:
        """The signature as PyTorch's schemas show it."""
        return "" if self._signature is None else self._signature.schema(self._owner)

    def _convert(self, signature: Signature, args: tuple[Any, ...],
                 kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        kinds, name = signature.kinds, signature.name
        offset = int(self._is_method)
        if len(args) > len(kinds):
            raise RuntimeError(
                f"{name}() expected at most {len(kinds) + offset} argument(s) but received "
                f"{len(args) + len(kwargs) + offset} argument(s). Declaration: {self.schema}")
        converted = []
        for position, (parameter, value) in enumerate(zip(kinds, args, strict=False)):
            converted.append(self._cast(signature, parameter, position + offset, value))
        named = {}
        for position, parameter in enumerate(kinds):
            if position < len(args):
                continue
            if parameter in kwargs:
                named[parameter] = self._cast(
                    signature, parameter, position + offset, kwargs[parameter])
            elif parameter not in signature.defaults:
                raise RuntimeError(f"{name}() is missing value for argument '{parameter}'. "
                                   f"Declaration: {self.schema}")
        for parameter in kwargs:
            if parameter not in named:
                raise RuntimeError(f"Unknown keyword argument '{parameter}' for operator "
                                   f"'{name}'. Schema: {self.schema}")
        return tuple(converted), named

    def _cast(self, signature: Signature, parameter: str, position: int, value: Any) -> Any:
        kind = signature.kinds[parameter]
        try:
            return convert_value(value, kind)
        except CastError as error:
            inferred = (f"Inferred '{parameter}' to be of type 'Tensor' because it was not "
                        "annotated with an explicit type.\n") if kind.is_inferred else ""
            raise RuntimeError(
                f"{signature.name}() Expected a value of type '{_format_kind(kind)}' for "
                f"argument '{parameter}' but instead found type '{type(value).__name__}'.\n"
                f"{inferred}Position: {position}\nValue: {value!r}\nDeclaration: {self.schema}\n"
                f"Cast error details: {error}") from None


def _format_kind(kind: Kind) -> str:
    """Return a type as errors show it; a named tuple with its fields."""
    fields = getattr(kind.python, "_fields", None)
    if fields is None:
        return str(kind)
    return (f"__torch__.{kind.python.__module__}.{kind.python.__name__} (aka "
            f"NamedTuple({', '.join(fields)}))")
