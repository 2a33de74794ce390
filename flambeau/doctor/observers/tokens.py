"""Observer of tokens: the rows that an embedding looks up."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...tensor.tensor import Tensor
from ..events import Tokens
from ..places import find_spot
from . import Observer

if TYPE_CHECKING:
    from ..session import Session


def look_up(session: Session, embedding: Callable) -> Observer:
    """Report the rows of a table that an embedding looks up."""
    names = list(inspect.signature(embedding).parameters)

    def call(original: Callable, args: tuple, kwargs: dict) -> Any:
        result = original(*args, **kwargs)
        if not session.busy and isinstance(result, Tensor):
            arguments = {**dict(zip(names, args, strict=False)), **kwargs}
            padding = arguments.get("padding_idx")
            session.emit("on_embedding", Tokens(
                arguments["input"]._array, result,
                padding if padding is None or padding >= 0 else len(arguments["weight"]) + padding,
                find_spot(),
            ))
        return result

    return call
