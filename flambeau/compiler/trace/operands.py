"""Operands: bind an operator's arguments to its parameters; list the leaves of nested arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.tape import requires
from ...ops.core.operator import Operator
from ...ops.core.return_types import has_named_fields
from ...tensor.size import Size
from ...tensor.tensor import INFERENCE, Tensor
from ...tensor.tree import collect_leaves, map_leaves_of

_ALIASES = {"axis": "dim", "keepdims": "keepdim"}
_NO_TENSOR = frozenset((int, float, bool, str, type(None)))


def bind(operator: Operator, args: tuple, kwargs: dict) -> tuple | None:
    """Return all parameters' values in order, as the body takes them; None if they do not fit."""
    result: list[Any] = []
    remaining = {_ALIASES[k] if k in _ALIASES and k not in operator.names else k: v
             for k, v in kwargs.items() if k != "out" or "out" in operator.names}
    position = 0
    for p in operator.parameters:
        if p.kind is p.VAR_POSITIONAL:
            rest = remaining.pop(p.name) if p.name in remaining else args[position:]
            position = len(args)
            if len(rest) == 1 and rest[0].__class__ in (tuple, list, Size):
                rest = tuple(rest[0])
            result.append(tuple(rest))
        elif position < len(args) and p.kind is not p.KEYWORD_ONLY:
            result.append(args[position])
            position += 1
        elif p.name in remaining:
            result.append(remaining.pop(p.name))
        elif p.kind is p.VAR_KEYWORD:
            result.append(remaining)
            remaining = {}
        elif p.default is not p.empty:
            result.append(p.default)
        else:
            return None
    return tuple(result) if not remaining and position == len(args) else None


def unbind(operator: Operator, bound: tuple) -> tuple[tuple, dict]:
    """Invert `bind`: return (args, kwargs) for the operator's body or function."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for p, value in zip(operator.parameters, bound, strict=True):
        if p.kind is p.VAR_POSITIONAL:
            args.extend(value)
        elif p.kind is p.KEYWORD_ONLY:
            kwargs[p.name] = value
        elif p.kind is p.VAR_KEYWORD:
            kwargs.update(value)
        else:
            args.append(value)
    return tuple(args), kwargs


def unbind_call(operator: Operator, bound: tuple) -> tuple[tuple, dict]:
    """`unbind` for the operator's public function, which may require its axes: none are `()`."""
    args, kwargs = unbind(operator, bound)
    return (*args, ()) if operator.requires_axes and not bound[-1] else args, kwargs


def takes_number_from_tensor(operator: Operator, bound: tuple) -> bool:
    """Whether a tensor is passed as a number, such as a size, so that the operator reads it."""
    takes_tensors = (*operator.tensor_positions, *operator.position_attributes)
    return any(type(x) not in _NO_TENSOR and i not in takes_tensors and bool(collect_tensors(x))
               for i, x in enumerate(bound))


def is_named_tuple(x: Any) -> bool:
    """Whether x is a tuple with named fields or a Size, whose elements count as arguments."""
    kind = type(x)
    return issubclass(kind, tuple) and (has_named_fields(kind) or kind is Size)


def flatten(x: Any) -> list[Any]:
    """Return the leaves of nested tuples, lists and dicts, in order."""
    if type(x) in (tuple, list) or is_named_tuple(x):
        return [leaf for part in x for leaf in flatten(part)]
    if type(x) is dict:
        return flatten(list(x.values()))
    return [x]


def flatten_call(args: tuple, kwargs: dict[str, Any]) -> list[Any]:
    """Return the leaves of a call's arguments."""
    return flatten((args, kwargs) if kwargs else args)


def list_numbers(args: tuple, kwargs: dict[str, Any]) -> list[tuple[int, int | str, int | float]]:
    """Return the top-level arguments that are exactly ints or floats, as (leaf, position or name,
    value)."""
    result: list[tuple[int, int | str, int | float]] = []
    leaf = 0
    arguments: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
    for key, x in arguments:
        if type(x) is int or type(x) is float:
            result.append((leaf, key, x))
        leaf += len(flatten(x))
    return result


def collect_tensors(x: Any) -> list[Tensor]:
    """Return the tensors in nested tuples, lists and dicts."""
    return collect_leaves(Tensor, x)


def collect_arrays(x: Any) -> list[np.ndarray]:
    """Return the arrays of tensors, and plain arrays, in nested tuples, lists and dicts."""
    return [leaf._array if isinstance(leaf, Tensor) else leaf
            for leaf in collect_leaves((Tensor, np.ndarray), x)]


def as_arrays(x: Any) -> Any:
    """Replace tensors by their arrays in a nested setting such as an index."""
    return map_leaves_of(Tensor, lambda tensor: tensor._array, x)


def read_flags(x: Tensor) -> tuple[bool, bool]:
    """Return whether a tensor requires grad and whether it was made in inference mode, bypassing
    a subclass's `__torch_function__`."""
    base = x if x._base is None else x._base
    return bool(x._tracked and requires(x)), base._stamp is INFERENCE
