"""torch.ao.quantization.fx.utils: the nodes that a rule applies to, and new names."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple


class NodeInfo(NamedTuple):
    """The nodes of a kind that call one function, method or module."""

    op: str
    target: Any


def find_free_name(model: Any, prefix: str) -> str:
    """The first of prefix0, prefix1 and so on that is no attribute."""
    stem = prefix.replace(".", "_")
    return next(name for name in (f"{stem}{i}" for i in count()) if not hasattr(model, name))


def get_new_attr_name_with_prefix(prefix: str) -> Callable[[Any], str]:
    """Return `find_free_name` for a prefix, as a function of a module."""
    return lambda module: find_free_name(module, prefix)
