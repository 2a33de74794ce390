"""The parts of data loading, under the names that PyTorch gives them."""

from __future__ import annotations

from . import collate, fetch, worker

__all__ = ["collate", "fetch", "worker"]
