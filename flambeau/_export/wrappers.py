"""torch._export.wrappers: what wrapper subclasses of tensors import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["mark_subclass_constructor_exportable_experimental"]


def mark_subclass_constructor_exportable_experimental(
    constructor_subclass: Callable[..., Any],
) -> Callable[..., Any]:
    """Return the constructor of a wrapper subclass unchanged: exports record what it calls.

    Raises RuntimeError if it is not an `__init__`.
    """
    name = constructor_subclass.__name__
    if name != "__init__":
        raise RuntimeError(
            f"torch._export.wrappers.mark_constructor_exportable_experimental can only be applied "
            f"on subclass tensor.__init__But, you are adding it on {name} which is not supported."
        )
    return constructor_subclass
