"""torch.autograd.profiler_legacy: the profile under its old name, as in PyTorch."""

from __future__ import annotations

from typing import Any

from . import profiler

__all__ = ["profile"]


class profile(profiler.profile):
    """DEPRECATED: use torch.profiler instead.

    >>> with torch.autograd.profiler_legacy.profile() as prof:
    ...     y = torch.ones(2) + 1
    >>> "aten::add" in [event.key for event in prof.key_averages()]
    True
    """

    is_legacy = True

    def __init__(self, enabled: bool = True, **options: Any) -> None:
        super().__init__(enabled, **options)
