"""Flat names: convert a nested state dict to one flat dict ("model.weight") and back."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from ...tensor import Tensor
from .stateful import Stateful

Path = tuple[Any, ...]


def _iterate_entries(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _iterate_entries(inner, (*path, key))
    elif isinstance(value, (list, tuple)) and _has_tensors(value):
        for i, inner in enumerate(value):
            yield from _iterate_entries(inner, (*path, i))
    else:
        yield path, value


def _has_tensors(values: Any) -> bool:
    return any(
        isinstance(x, Tensor)
        or (isinstance(x, (list, tuple)) and _has_tensors(x))
        or (isinstance(x, Mapping) and _has_tensors(list(x.values())))
        for x in values
    )


def flatten(state_dict: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Path]]:
    """Return ({flat name: value}, {flat name: path}). Stateful objects give their state dicts."""
    plain = {
        key: value.state_dict() if isinstance(value, Stateful) else value
        for key, value in state_dict.items()
    }
    flat: dict[str, Any] = {}
    paths: dict[str, Path] = {}
    for path, value in _iterate_entries(plain, ()):
        name = ".".join(map(str, path))
        if name in flat:
            raise ValueError(f"duplicated flatten key {name}")
        flat[name], paths[name] = value, path
    return flat, paths


def set_element(state_dict: Any, path: Path, value: Any) -> None:
    """Set the value at a path; create containers: dicts for keys that are strings, else lists."""
    for key, following in itertools.pairwise(path):
        if isinstance(state_dict, list):
            _lengthen(state_dict, key)
        absent = key not in state_dict if isinstance(state_dict, Mapping) \
            else state_dict[key] is None
        if absent:
            state_dict[key] = {} if isinstance(following, str) else []
        state_dict = state_dict[key]
    if isinstance(state_dict, list):
        _lengthen(state_dict, path[-1])
    state_dict[path[-1]] = value


def _lengthen(values: list[Any], index: int) -> None:
    values.extend([None] * (index + 1 - len(values)))
