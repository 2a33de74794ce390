"""torch.xpu: there is no such device."""

from __future__ import annotations

__all__ = ["device_count", "is_available", "manual_seed"]


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def manual_seed(seed: int) -> None:
    """Accepted: there is no generator to seed."""
