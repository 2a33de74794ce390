"""torch.fft: what the operators publish under that name."""

from __future__ import annotations

from typing import Any

from .ops.core.registry import PUBLIC

globals().update(PUBLIC.get("fft", {}))
__all__ = sorted(PUBLIC.get("fft", {}))


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"module 'torch.fft' has no attribute '{name}': flambeau does not have it yet"
    )
