"""torch.utils: loading of data, checkpointing of activations."""

from __future__ import annotations

from ..nn.swap import swap_tensors
from . import checkpoint, data

__all__ = ["checkpoint", "data", "swap_tensors"]
