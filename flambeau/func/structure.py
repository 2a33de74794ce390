"""Nested tuples, lists and dictionaries of tensors: their leaves in order, and back again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..tensor import Tensor


def leaves(nested: Any) -> list[Any]:
    """What is at the ends, in order: `{"b": 1, "a": (2, 3)}` gives 1, 2, 3."""
    if isinstance(nested, dict):
        return [x for value in nested.values() for x in leaves(value)]
    if isinstance(nested, (tuple, list)):
        return [x for value in nested for x in leaves(value)]
    return [nested]


def rebuilt(nested: Any, ends: Iterator[Any]) -> Any:
    """The same structure with other ends, taken from `ends` in order."""
    if isinstance(nested, dict):
        pairs = [(key, rebuilt(value, ends)) for key, value in nested.items()]
        return dict(pairs) if type(nested) is dict else type(nested)(pairs)
    if isinstance(nested, (tuple, list)):
        result = [rebuilt(value, ends) for value in nested]
        if hasattr(nested, "_fields"):
            return type(nested)(*result)
        return tuple(result) if isinstance(nested, tuple) else result
    return next(ends)


def mapped(function: Callable[[Any], Any], nested: Any) -> Any:
    """The structure with `function` applied to its ends."""
    return rebuilt(nested, iter([function(x) for x in leaves(nested)]))


def tensors_of(nested: Any, what: str) -> list[Tensor]:
    """The ends, which must all be tensors; RuntimeError names `what`."""
    result = leaves(nested)
    for x in result:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"{what}: expected only tensors, got {type(x).__name__}")
    return result


def spread(prefix: Any, nested: Any, what: str) -> list[Any]:
    """An entry of `prefix` for each end of `nested`; an entry may stand for a whole subtree."""
    if isinstance(nested, (tuple, list, dict)) and isinstance(prefix, (tuple, list, dict)):
        if type(prefix) is not type(nested) or len(prefix) != len(nested):
            raise ValueError(f"{what} is not compatible with the structure of the inputs: got "
                             f"{prefix!r}")
        if isinstance(nested, dict):
            pairs = [(prefix[key], nested[key]) for key in nested]
        else:
            pairs = list(zip(prefix, nested, strict=True))
        return [entry for single, below in pairs for entry in spread(single, below, what)]
    if isinstance(prefix, (tuple, list, dict)):
        raise ValueError(f"{what} is deeper than the inputs: got {prefix!r}")
    return [prefix] * len(leaves(nested))
