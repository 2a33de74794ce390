"""torch.special: what the operators publish under that name."""

from __future__ import annotations

from typing import Any

from .ops.core.registry import PUBLIC

globals().update(PUBLIC.get("special", {}))
__all__ = sorted(PUBLIC.get("special", {}))


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"module 'torch.special' has no attribute '{name}': flambeau does not have it yet"
    )
