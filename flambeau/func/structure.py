"""Trees of tensors as arguments and results of function transforms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..tensor import Tensor
from ..tensor.tree import leaves, map_leaves


def rebuild(nested: Any, ends: Iterator[Any]) -> Any:
    """The same structure with other ends, taken from `ends` in order."""
    return map_leaves(lambda _: next(ends), nested)


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
