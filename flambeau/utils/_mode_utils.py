"""torch.utils._mode_utils: a context that bypasses `__torch_dispatch__`."""

from __future__ import annotations

from ..ops.interception.torch_dispatch import without_dispatch as no_dispatch

__all__ = ["no_dispatch"]
