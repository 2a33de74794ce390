"""Arguments that are no tensors: PyTorch's TypeErrors for those that it does not take as an int,
bool, float or str, although Python or NumPy would convert them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from ....native.foundation.public_names import c_class_name
from ....tensor.tensor import Tensor

if TYPE_CHECKING:
    from ..operator import Operator

_NO_INTEGERS = (bool, np.bool_, float, complex, str, NoneType)
_PLAIN = {"int": int, "bool": bool}
_NO_BOOLS = (int, float, complex, str, NoneType, list, tuple, np.ndarray, np.generic, Tensor)
# By annotation: what PyTorch's parser refuses. Symbolic lengths and objects of libraries pass.
_REFUSED: dict[str, tuple[type, ...]] = {
    "int": _NO_INTEGERS, "bool": _NO_BOOLS,
    "float": (str, complex, list, tuple, np.ndarray, NoneType),
    "str": (int, float, complex, list, tuple, np.ndarray, NoneType, Tensor),
    "Number": (str, list, tuple, np.ndarray, NoneType),
}


def check_sequence(operator: Operator, position: int, value: Any) -> None:
    """Raise TypeError unless the argument is a tuple or list of tensors."""
    if not isinstance(value, (list, tuple)):
        raise build_kind_error(operator, position, "tuple of Tensors", value)


def check_integer(operator: Operator, position: int, value: Any) -> None:
    """Raise TypeError for a value that PyTorch does not take as an int: bools, floats, no number.
    Tensors and symbolic lengths pass."""
    if isinstance(value, _NO_INTEGERS):
        raise build_kind_error(operator, position, "int", value)


def check_bool(operator: Operator, position: int, value: Any) -> None:
    """Raise TypeError for a value that PyTorch does not take as a bool, such as 1."""
    if isinstance(value, _NO_BOOLS) and not isinstance(value, bool):
        raise build_kind_error(operator, position, "bool", value)


def check_annotated(operator: Operator, args: Sequence[Any]) -> None:
    """Raise TypeError for the first argument that does not have the type its parameter names."""
    for i, (value, parameter) in enumerate(zip(args, operator.parameters, strict=False)):
        if parameter.kind is parameter.VAR_POSITIONAL:
            check_sizes(name_in_errors(operator), parameter.name, value)
        kind = _find_missed_kind(parameter, value)
        if kind is not None:
            raise build_kind_error(operator, i, kind, value)


def check_call(
    name: str, function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]
) -> None:
    """The same for a composite's call, whose named arguments PyTorch's texts give no position."""
    parameters = inspect.signature(function).parameters
    positions = list(parameters.values())
    pairs = [(p, value, f" (position {i + 1})")
             for i, (p, value) in enumerate(zip(positions, args, strict=False))]
    pairs += [(parameters[n], value, "") for n, value in kwargs.items() if n in parameters]
    for parameter, value, place in pairs:
        if parameter.kind is parameter.VAR_POSITIONAL:
            return
        kind = _find_missed_kind(parameter, value)
        if kind is not None:
            raise TypeError(f"{name}(): argument '{parameter.name}'{place} must be {kind}, not "
                            f"{c_class_name(value)}") from None


def list_plain_parameters(function: Callable[..., Any]) -> list[tuple[int, str, type]]:
    """Return position, name and class of the parameters that are annotated as int or bool; none of
    a function with a starred parameter, whose arguments have no positions."""
    parameters = list(inspect.signature(function).parameters.values())
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return []
    return [(len(parameters) if p.kind is p.KEYWORD_ONLY else i, p.name, _PLAIN[str(p.annotation)])
            for i, p in enumerate(parameters) if str(p.annotation) in _PLAIN]


def _find_missed_kind(parameter: inspect.Parameter, value: Any) -> str | None:
    """Return the kind that a parameter names if PyTorch refuses the value in its place."""
    note = str(parameter.annotation)
    kind = note.removesuffix(" | None")
    refused = _REFUSED.get(kind)
    if kind in ("int", "float") and isinstance(value, Tensor) and value.requires_grad:
        return kind
    if refused is None or (value is None and kind != note) or (
        kind == "bool" and isinstance(value, bool)
    ):
        return None
    return kind if isinstance(value, refused) else None


def build_kind_error(operator: Operator, position: int, kind: str, value: Any) -> TypeError:
    """Return PyTorch's TypeError for an argument of another kind."""
    return TypeError(f"{name_in_errors(operator)}(): argument '{operator.names[position]}' "
                     f"(position {position + 1}) must be {kind}, not {c_class_name(value)}")


def require_bool(name: str, argument: str, value: Any) -> bool:
    """Return a composite's argument as a bool; TypeError for what PyTorch does not take as one."""
    if value.__class__ is not bool and isinstance(value, _NO_BOOLS):
        raise TypeError(f"{name}(): argument '{argument}' must be bool, not {c_class_name(value)}")
    return bool(value)


def read_length(n: Any) -> int:
    """Return an element of a shape as an int; TypeError for bools, floats and other objects."""
    if isinstance(n, (float, bool, str)) or not hasattr(n, "__index__"):
        raise TypeError("argument 'size' must be tuple of ints, but found element of type "
                        f"{c_class_name(n)}")
    return n.__index__()


def check_sizes(name: str, argument: str, sizes: Any, spread: bool = True) -> None:
    """Raise TypeError for the first of a method's starred arguments, or of the elements of its only
    argument unless `spread`, that is no int."""
    for i, n in enumerate(sizes):
        if n.__class__ is int or (isinstance(n, bool) and i):
            continue
        try:
            refused = isinstance(n, (bool, float, str)) or n.__index__() is None
        except (AttributeError, TypeError, RuntimeError):
            refused = True
        if refused:
            raise build_size_error(name, sizes, i, spread, False, argument) from None


def build_size_error(name: str, size: Sequence[Any], index: int, spread: bool, keyword: bool,
                     parameter: str = "size") -> TypeError:
    """Return PyTorch's TypeError for the element at `index` of a shape, the argument `parameter`.

    `spread`: the elements are arguments themselves; `keyword`: the argument was passed by name.
    """
    kind, argument = c_class_name(size[index]), f"{name}(): argument '{parameter}'"
    place = argument if keyword else f"{argument} (position 1)"
    if index:
        return TypeError(f"{argument} failed to unpack the object at pos {index + 1} with error "
                         f'"type must be tuple of ints,but got {kind}"')
    if not spread and not keyword:
        return TypeError(f"{place} must be tuple of ints, but found element of type {kind} at "
                         "pos 0")
    if len(size) > 1 and spread:
        return TypeError(f"{name}() takes 1 positional argument but {len(size)} were given")
    return TypeError(f"{place} must be tuple of ints, not {kind if spread else 'tuple'}")


def require_int(name: str, argument: str, value: Any, position: int | None = None) -> None:
    """Raise TypeError for a composite's argument that PyTorch does not take as an int."""
    if isinstance(value, _NO_INTEGERS):
        place = "" if position is None else f" (position {position})"
        raise TypeError(f"{name}(): argument '{argument}'{place} must be int, not "
                        f"{c_class_name(value)}")


def freeze_integers(name: str, argument: str, value: Any, position: int | None = None) -> Any:
    """Return an int, or a sequence of ints as a tuple; None and texts as they are.

    Raises PyTorch's TypeError for bools and floats, which are equal to ints as keys of a cache.

    >>> freeze_integers("conv2d", "stride", [1, 2])
    (1, 2)
    """
    if value.__class__ is int or value is None or isinstance(value, str):
        return value
    if not hasattr(value, "__iter__"):
        if isinstance(value, _NO_INTEGERS):
            place = "" if position is None else f" (position {position})"
            raise TypeError(f"{name}(): argument '{argument}'{place} must be tuple of ints, not "
                            f"{c_class_name(value)}")
        return value
    result = tuple(value)
    for i, n in enumerate(result):
        if n.__class__ is int or not isinstance(n, _NO_INTEGERS):
            continue
        kind = c_class_name(n)
        problem = f'failed to unpack the object at pos {i + 1} with error "type must be tuple of ' \
            f'ints,but got {kind}"' if i else \
            f"must be tuple of ints, but found element of type {kind} at pos 0"
        raise TypeError(f"{name}(): argument '{argument}' {problem}")
    return result


def name_in_errors(operator: Operator) -> str:
    """Return PyTorch's name of a composite in its errors, such as linalg_norm for linalg's norm."""
    name, home = operator.name.lstrip("_"), operator.expose[0] if operator.expose else ""
    return f"{home}_{name}" if home in ("linalg", "fft", "special") \
        and not name.startswith(home) else name
