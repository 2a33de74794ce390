"""annotate: set the type of a proxy's node."""

from __future__ import annotations

from typing import Any

from ._compatibility import compatibility
from .proxy import Proxy

__all__ = ["annotate"]


@compatibility(is_backward_compatible=False)
def annotate(val: Any, type: Any) -> Any:
    """Return `val`; set its node's type if it is a proxy. RuntimeError if it already has one."""
    if isinstance(val, Proxy):
        if val.node.type:
            raise RuntimeError(
                f"Tried to annotate a value that already had a type on it! Existing type is "
                f"{val.node.type} and new type is {type}. This could happen if you tried to "
                "annotate a function parameter value (in which case you should use the type slot "
                "on the function signature) or you called annotate on the same value twice"
            )
        val.node.type = type
    return val
