"""torch.utils: data loading and activation checkpointing."""

from __future__ import annotations

from ..nn.swap import swap_tensors
from . import checkpoint, data

__all__ = ["checkpoint", "data", "swap_tensors"]
