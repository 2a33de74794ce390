"""worker_init_fn: an old way to give each worker its part of a pipeline."""

from __future__ import annotations

from typing import Any

from ...native.foundation.user_frames import warn

__all__ = ["worker_init_fn"]


def worker_init_fn(worker_id: Any) -> None:
    """Do nothing: DataLoader gives each worker its part."""
    warn("Usage of `backward_compatibility.worker_init_fn` is deprecated as `DataLoader` "
         "automatically applies sharding in every worker", FutureWarning)
