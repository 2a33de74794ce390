"""torch.ao.quantization.fx.utils: the nodes that a rule applies to, and new names."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple


class NodeInfo(NamedTuple):
    """The nodes of a kind that call one function, method or module."""

    op: str
    target: Any


def get_new_attr_name_with_prefix(prefix: str) -> Callable[[Any], str]:
    """Return a function that finds an attribute's name that a module does not have yet.

    The name is the prefix, with "_" for ".", and a number.
    """
    stem = prefix.replace(".", "_")

    def find_name(module: Any) -> str:
        return next(name for name in (f"{stem}{i}" for i in count()) if not hasattr(module, name))

    return find_name
