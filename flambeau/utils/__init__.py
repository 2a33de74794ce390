"""torch.utils: loading of data, checkpointing of activations."""

from __future__ import annotations

from . import checkpoint, data

__all__ = ["checkpoint", "data"]
