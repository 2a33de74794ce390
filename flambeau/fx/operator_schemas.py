"""Signatures of functions and modules, and normalization of call arguments."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

from ..native.foundation.user_frames import warn
from .. import nn
from ..ops.core import aten
from ._compatibility import compatibility
from .qualified_names import qualified_name

__all__ = ["ArgsKwargsPair", "check_for_mutable_operation", "create_type_hint",
           "get_signature_for_torch_op", "normalize_function", "normalize_module", "type_matches"]

_SIMPLE = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@compatibility(is_backward_compatible=False)
class ArgsKwargsPair(NamedTuple):
    """Positional and keyword arguments of a call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def _operator_of(target: Any) -> Any:
    """Return the function behind a torch.ops operator; return other targets unchanged."""
    if isinstance(target, (aten.Overload, aten.Packet)):
        packet = getattr(target, "overloadpacket", target)
        return aten._lookup(packet.__name__)
    return target


def _signature(target: Any) -> inspect.Signature | None:
    """Return a function's signature without `out`, which graphs never pass; None if unknown."""
    try:
        signature = inspect.signature(inspect.unwrap(_operator_of(target)))
    except (TypeError, ValueError):
        return None
    retained = [p for p in signature.parameters.values() if p.name != "out"]
    return signature.replace(parameters=retained)


@compatibility(is_backward_compatible=False)
def get_signature_for_torch_op(op: Any, return_schemas: bool = False) -> Any:
    """Return a list with the signature of a native torch operator; None for Python functions.

    `return_schemas`: return (signatures, None) instead; flambeau's operators have no schemas.
    """
    path = qualified_name(op) if callable(op) else ""
    native = path.startswith(("torch._C.", "torch.ops.")) or path.count(".") == 1
    signature = _signature(op) if native and path.startswith("torch.") else None
    signatures = None if signature is None else [signature]
    return (signatures, None) if return_schemas else signatures


@compatibility(is_backward_compatible=False)
def check_for_mutable_operation(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise RuntimeError if a call writes into its arguments."""
    name = getattr(target, "__name__", "")
    writes = name.endswith("_") and not name.endswith("__") and \
        get_signature_for_torch_op(target) is not None
    if writes or kwargs.get("out") is not None:
        raise RuntimeError(
            f"Tried to trace mutable operation aten::{name}{'' if writes else '.out'}. FX only "
            "supports functional code, so operations that mutate operands in-place (e.g. via `out` "
            "arguments) are not supported"
        )


@compatibility(is_backward_compatible=False)
def create_type_hint(x: Any) -> Any:
    """Return the type of a list or tuple of types: of their common base, or else of Any."""
    try:
        if not isinstance(x, (list, tuple)):
            return x
        base = x[0] if x else Any
        for kind in x:
            if not issubclass(kind, base):
                base = kind if issubclass(base, kind) else Any
                if base is Any:
                    break
        return list[base] if isinstance(x, list) else tuple[base, ...]  # type: ignore[valid-type]
    except Exception:  # the elements are not types
        warn(f"We were not able to successfully create type hint from the type {x}")
        return x


@compatibility(is_backward_compatible=False)
def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """Return whether an argument of one type can be passed where another is declared."""
    if signature_type is argument_type:
        return True
    origin = typing.get_origin(signature_type)
    if origin in (typing.Union, types.UnionType) and signature_type != argument_type:
        return any(type_matches(kind, argument_type) for kind in typing.get_args(signature_type))
    if origin is list:
        element = typing.get_args(signature_type)[0]
        if argument_type is int and element is int:
            return True
        if not inspect.isclass(element):
            warn(
                f"Does not support nested parametric types, got {signature_type}. "
                "Please file a bug."
            )
            return False
        parts = typing.get_args(argument_type)
        if typing.get_origin(argument_type) is list:
            return issubclass(parts[0], element)
        return typing.get_origin(argument_type) is tuple and all(
            part is ... or (inspect.isclass(part) and issubclass(part, element)) for part in parts
        )
    if signature_type is argument_type is int or (signature_type, argument_type) == (float, int):
        return True
    if inspect.isclass(argument_type) and inspect.isclass(signature_type):
        return issubclass(argument_type, signature_type)
    return False


def _normalized(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any], only: bool
) -> ArgsKwargsPair | None:
    if any(p.kind not in _SIMPLE for p in signature.parameters.values()):
        return None
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    names = list(signature.parameters)
    count = 0 if only else len(args)
    return ArgsKwargsPair(
        tuple(bound.arguments[n] for n in names[:count]),
        {n: bound.arguments[n] for n in names[count:]},
    )


@compatibility(is_backward_compatible=False)
def normalize_function(
    target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
    arg_types: Any = None, kwarg_types: Any = None, normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Return a call's arguments by parameter name, with defaults filled in; None if unknown.

    `arg_types`, `kwarg_types`: accepted and ignored; flambeau's functions have one signature each.
    """
    signature = _signature(target)
    if signature is None:
        return None
    builtin = get_signature_for_torch_op(target) is not None
    try:
        return _normalized(signature, args, kwargs or {}, normalize_to_only_use_kwargs)
    except TypeError:
        if builtin:
            return None
        raise


@compatibility(is_backward_compatible=False)
def normalize_module(
    root: Any, target: str, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Return the arguments of a torch.nn layer's call by name; None for other modules.

    Raises RuntimeError if `root` has no module at `target`.
    """
    try:
        module = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(f"Tried to normalize node with target {target} but root did not have "
                           "that target!") from error
    cls = type(module)
    if getattr(nn, cls.__name__, None) is not cls:
        return None
    signature = inspect.signature(inspect.unwrap(module.forward))
    return _normalized(signature, args, kwargs or {}, normalize_to_only_use_kwargs)
