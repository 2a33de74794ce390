"""Trees of nested tuples, lists and dictionaries: list their leaves in order, or replace them.

Subclasses count as their base class. Rebuilt trees keep the container classes, named tuples and
ordered dictionaries included.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

Kinds = type | tuple[type, ...]


def get_leaves(tree: Any) -> list[Any]:
    """Return the leaves in order: [1, 2, 3] for `{"b": 1, "a": (2, 3)}`."""
    result: list[Any] = []
    _collect(tree, object, (), result)
    return result


def collect_leaves(kinds: Kinds, tree: Any) -> list[Any]:
    """Return the leaves of the given class or classes, which may be containers themselves."""
    result: list[Any] = []
    _collect(tree, kinds, kinds, result)
    return result


def _collect(tree: Any, kinds: Kinds, closed: Kinds, result: list[Any]) -> None:
    """Append the leaves of some kinds, without descending into objects of a `closed` class."""
    kind = type(tree)  # isinstance would run the code of a class that computes `__class__`
    if issubclass(kind, closed):
        result.append(tree)
    elif issubclass(kind, (tuple, list)):
        for part in tree:
            _collect(part, kinds, closed, result)
    elif issubclass(kind, dict):
        for part in tree.values():
            _collect(part, kinds, closed, result)
    elif issubclass(kind, kinds):
        result.append(tree)


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """Return the tree with each leaf replaced by function(leaf)."""
    if isinstance(tree, (tuple, list)):
        return with_parts(tree, [map_leaves(function, part) for part in tree])
    if isinstance(tree, dict):
        return with_parts(tree, [map_leaves(function, part) for part in tree.values()])
    return function(tree)


def map_leaves_of(kinds: Kinds, function: Callable[[Any], Any], tree: Any) -> Any:
    """Return the tree with each leaf of the given class or classes, which may be containers
    themselves, replaced by function(leaf)."""
    if isinstance(tree, kinds):
        return function(tree)
    if isinstance(tree, (tuple, list)):
        return with_parts(tree, [map_leaves_of(kinds, function, part) for part in tree])
    if isinstance(tree, dict):
        parts = [map_leaves_of(kinds, function, part) for part in tree.values()]
        return with_parts(tree, parts)
    return tree


def get_first_leaf(tree: Any) -> Any:
    """Return the first leaf, or the empty container in its place."""
    while isinstance(tree, (tuple, list, dict)) and tree:
        tree = next(iter(tree.values() if isinstance(tree, dict) else tree))
    return tree


def describe(leaf_text: Callable[[Any], str], tree: Any) -> str:
    """Return the tree as text: `(a, b)` for tuples and lists, `{'key': c}` for dictionaries."""
    if isinstance(tree, (tuple, list)):
        return f"({', '.join([describe(leaf_text, part) for part in tree])})"
    if isinstance(tree, dict):
        pairs = [f"{key!r}: {describe(leaf_text, part)}" for key, part in tree.items()]
        return f"{{{', '.join(pairs)}}}"
    return leaf_text(tree)


def with_parts(container: Any, parts: Sequence[Any]) -> Any:
    """Return a container of the same class and keys with other parts."""
    kind = container.__class__
    if kind is tuple or kind is list:
        return kind(parts)
    if not isinstance(container, dict):
        return kind(*parts) if hasattr(container, "_fields") else kind(parts)
    if kind is dict:
        return dict(zip(container, parts, strict=True))
    result = copy.copy(container)  # an OrderedDict or a defaultdict, with its attributes
    for key, part in zip(container, parts, strict=True):
        result[key] = part
    return result
