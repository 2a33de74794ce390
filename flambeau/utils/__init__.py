"""torch.utils: loading of data, checkpointing of activations."""

from __future__ import annotations

from . import data

__all__ = ["data"]
