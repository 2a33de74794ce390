"""Signatures of functions and modules, and normalization of call arguments."""

from __future__ import annotations

import enum
import inspect
import numbers
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import nn
from ..library import OpOverload, OpOverloadPacket
from ..native.foundation.user_frames import warn
from ..ops.registration import aten_schemas
from ..ops.registration.schema import Schema, ScriptType
from ..tensor.devices import device
from ..tensor.dtypes import dtype
from ..tensor.layout import layout
from ..tensor.quantizers import qscheme
from ..tensor.random.generator import Generator
from ..tensor.storage import UntypedStorage
from ..tensor.tensor import Tensor
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


class _ScriptClasses:
    """`__torch__` in a type's annotation: any class of scripts, which has no counterpart here."""

    def __getattr__(self, name: str) -> _ScriptClasses:
        return self


_TYPES: dict[str, Any] = vars(typing) | {
    "Tensor": Tensor, "Device": device, "Layout": layout, "number": numbers.Number,
    "AnyEnumType": enum.Enum, "QScheme": qscheme, "NoneType": type(None),
    "Storage": UntypedStorage, "Generator": Generator, "__torch__": _ScriptClasses(),
}


def _torchscript_type_to_python_type(ts_type: ScriptType) -> Any:
    """Return the Python type that a TorchScript type stands for."""
    return eval(ts_type.annotation_str, _TYPES)


def _torchscript_schema_to_signature(ts_schema: Schema) -> inspect.Signature:
    """Return a schema as a signature; `self` is called `input`, as in torch's functions."""
    parameters: list[inspect.Parameter] = []
    for argument in ts_schema.arguments:
        kind: Any = inspect.Parameter.KEYWORD_ONLY if argument.kwarg_only \
            else inspect.Parameter.POSITIONAL_OR_KEYWORD
        name = "input" if argument.name == "self" else argument.name
        if name == "from":  # a keyword of Python, so no call can name it
            kind = inspect.Parameter.POSITIONAL_ONLY
            parameters = [p.replace(kind=kind) for p in parameters]
        default = argument.default_value if argument.has_default_value() \
            else inspect.Parameter.empty
        annotation = _torchscript_type_to_python_type(argument.type)
        parameters.append(inspect.Parameter(name, kind, default=default, annotation=annotation))
    returns = tuple([_torchscript_type_to_python_type(r.type) for r in ts_schema.returns])
    result = None if not returns else returns[0] if len(returns) == 1 else returns
    return inspect.Signature(parameters, return_annotation=result)


def _find_schemas(op: Any) -> list[Schema] | None:
    """Return the schemas of an operator of torch.ops or of a native function; None for others."""
    if isinstance(op, (OpOverload, OpOverloadPacket)):
        overloads = [op] if isinstance(op, OpOverload) else \
            [getattr(op, name) for name in op.overloads()]  # type: ignore[attr-defined]
        known = [getattr(overload, "_schema", None) for overload in overloads]
        return [schema for schema in known if schema is not None] or None
    path = qualified_name(op) if callable(op) else ""
    space, _, name = path.rpartition(".")
    if space not in _NATIVE_SPACES:
        return None
    return list(aten_schemas.get_schemas(_NATIVE_SPACES[space] + name).values()) or None


_NATIVE_SPACES = {  # where PyTorch has functions of C++, with the prefixes of their names in aten
    "torch": "", "torch._C._nn": "", "torch._C._special": "", "torch._C._linalg": "",
    "torch._C._fft": "", "torch.special": "special_", "torch.linalg": "linalg_",
    "torch.fft": "fft_",
}


def _signature(target: Any) -> inspect.Signature | None:
    """Return a function's signature without `out`, which graphs never pass; None if unknown."""
    try:
        signature = inspect.signature(inspect.unwrap(target))
    except (TypeError, ValueError):
        return None
    retained = [p for p in signature.parameters.values() if p.name != "out"]
    return signature.replace(parameters=retained)


@compatibility(is_backward_compatible=False)
def get_signature_for_torch_op(op: Any, return_schemas: bool = False) -> Any:
    """Return the signatures of a native operator, one for each overload; None for other functions.

    `return_schemas`: return (signatures, schemas) instead.
    """
    schemas = _find_schemas(op)
    if schemas is None:
        return (None, None) if return_schemas else None
    signatures = [_torchscript_schema_to_signature(schema) for schema in schemas]
    return (signatures, schemas) if return_schemas else signatures


@compatibility(is_backward_compatible=False)
def check_for_mutable_operation(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise RuntimeError if a call writes into its arguments."""
    known = _find_schemas(target) or []
    named = {name: value for name, value in kwargs.items() if name != "out" or value is not None}
    if known and "out" in named:  # the table leaves these overloads out
        raise _build_write_error(f"{known[0].name}.out")
    fitting = [schema for schema in known
               if _accepts(_torchscript_schema_to_signature(schema), args, named)]
    if len(fitting) == 1 and fitting[0].is_mutable:  # several may differ in that
        raise _build_write_error(fitting[0])


def _build_write_error(operation: Any) -> RuntimeError:
    return RuntimeError(
        f"Tried to trace mutable operation {operation}. FX only supports functional code, so "
        "operations that mutate operands in-place (e.g. via `out` arguments) are not supported")


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
            return inspect.isclass(parts[0]) and issubclass(parts[0], element)
        return typing.get_origin(argument_type) is tuple and all(
            part is ... or (inspect.isclass(part) and issubclass(part, element)) for part in parts
        )
    if (signature_type, argument_type) in ((float, int), (int, dtype)):
        return True
    if inspect.isclass(argument_type) and inspect.isclass(signature_type):
        return issubclass(argument_type, signature_type)
    return False


def _normalize(
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


def _accepts(signature: inspect.Signature, args: Any, kwargs: Any) -> bool:
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _accepts_types(signature: inspect.Signature, types_: Any, named_types: Any) -> bool:
    """Return whether a signature takes arguments of these types."""
    try:
        bound = signature.bind(*types_, **named_types)
    except TypeError:
        return False
    return all(type_matches(signature.parameters[name].annotation, kind)
               for name, kind in bound.arguments.items())


@compatibility(is_backward_compatible=False)
def normalize_function(
    target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any, ...] | None = None, kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Return a call's arguments by parameter name, with defaults filled in; None if unknown.

    `arg_types`, `kwarg_types`: the arguments' types, which choose among a native function's
    overloads. RuntimeError if there are several and no types.
    """
    kwargs = kwargs or {}
    signatures = get_signature_for_torch_op(target)
    if signatures is None:
        signature = _signature(target)
        return None if signature is None else _normalize(
            signature, args, kwargs, normalize_to_only_use_kwargs)
    fitting = [s for s in signatures if _accepts(s, args, kwargs)]
    if len(fitting) > 1:
        if arg_types is None and kwarg_types is None:
            printed = "\n".join(str(s) for s in fitting)
            raise RuntimeError(
                f"Tried to normalize arguments to {qualified_name(target)} but the schema match "
                "was ambiguous! Please provide argument types to the normalize_arguments() call. "
                f"Available schemas:\n{printed}")
        fitting = [s for s in signatures
                   if _accepts_types(s, arg_types or (), kwarg_types or {})][:1]
    if not fitting:
        return None
    return _normalize(fitting[0], args, kwargs, normalize_to_only_use_kwargs)


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
    return _normalize(signature, args, kwargs or {}, normalize_to_only_use_kwargs)
