"""Refuse identity comparisons of tensors, as sets, dicts and `in` make them."""

from __future__ import annotations

from typing import Any

from ...tensor.tensor import Tensor
from .provenance import Kind, NotProvedError, Provenance

SEARCHING_METHODS = frozenset((
    "index", "count", "remove", "get", "setdefault", "pop", "add", "discard", "__contains__",
    "issubset", "union", "intersection", "difference", "update",
))
_CONTAINERS = (list, tuple, dict, set, frozenset)


def refuse_tensors(*operands: Provenance) -> None:
    """Refuse to search containers for tensors: no guard covers tensors' identity there."""
    if any(map(_holds_tensor, operands)):
        raise NotProvedError("it asks whether a container holds a tensor")


def _holds_tensor(p: Provenance) -> bool:
    if p.kind is Kind.TENSOR or any(map(_holds_tensor, p.items or ())):
        return True
    parts = p.parts.values() if isinstance(p.parts, dict) else p.parts or ()
    return any(map(_holds_tensor, parts)) or _has_tensor(p.value)


def _has_tensor(x: Any) -> bool:
    if isinstance(x, dict):
        return any(map(_has_tensor, x.keys()))
    if isinstance(x, _CONTAINERS):
        return any(map(_has_tensor, x))
    return isinstance(x, Tensor)
