"""Operators: one block each, in one file a family. `ops.NAME` is torch.NAME for every public name.

The families register themselves on import; `PUBLIC` then holds what users see, by namespace.
"""

from __future__ import annotations

from typing import Any

from . import (  # noqa: F401
    arithmetic, bitwise, compare, conversion, creation, index, join, logical, random, reduce,
    selection, view,
)  # fmt: skip
from .registry import OPERATORS, PUBLIC


def __getattr__(name: str) -> Any:
    try:
        return PUBLIC["torch"][name]
    except KeyError:
        raise AttributeError(f"module 'flambeau.ops' has no attribute '{name}'") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *PUBLIC["torch"]})


__all__ = ["OPERATORS", "PUBLIC"]
