"""Trees of tensors as arguments and results of function transforms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..tensor import Tensor
from ..tensor.tree import get_leaves, map_leaves


def rebuild(nested: Any, ends: Iterator[Any]) -> Any:
    """Return the same structure with its leaves replaced by `ends`, in order."""
    return map_leaves(lambda _: next(ends), nested)


def list_tensors(nested: Any, what: str) -> list[Tensor]:
    """Return the leaves. Raise RuntimeError naming `what` if one is not a tensor."""
    result = get_leaves(nested)
    for x in result:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"{what}: expected only tensors, got {type(x).__name__}")
    return result


def spread(prefix: Any, nested: Any, what: str) -> list[Any]:
    """Return an entry of `prefix` per leaf of `nested`; one entry may cover a whole subtree.

    Raise ValueError naming `what` if the structures do not match.
    """
    if isinstance(nested, (tuple, list, dict)) and isinstance(prefix, (tuple, list, dict)):
        if type(prefix) is not type(nested) or len(prefix) != len(nested):
            raise ValueError(f"{what} is not compatible with the structure of the inputs: got "
                             f"{prefix!r}")
        if isinstance(nested, dict):
            pairs = [(prefix[key], nested[key]) for key in nested]
        else:
            pairs = list(zip(prefix, nested, strict=True))
        return [entry for subprefix, subtree in pairs for entry in spread(subprefix, subtree, what)]
    if isinstance(prefix, (tuple, list, dict)):
        raise ValueError(f"{what} is deeper than the inputs: got {prefix!r}")
    return [prefix] * len(get_leaves(nested))
