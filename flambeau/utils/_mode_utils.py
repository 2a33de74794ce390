"""torch.utils._mode_utils: a region in which `__torch_dispatch__` is not asked."""

from __future__ import annotations

from ..ops.interception.torch_dispatch import without_dispatch as no_dispatch

__all__ = ["no_dispatch"]
