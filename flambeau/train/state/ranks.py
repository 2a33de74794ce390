"""Distributed training: metrics are merged across processes, and only the first process writes
files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def _find_distributed() -> Any:
    """Return torch.distributed if more than one process uses it, else None."""
    module: Any = sys.modules.get("flambeau.distributed")
    if module is None or not module.is_initialized() or module.get_world_size() == 1:
        return None
    return module


def writes_files() -> bool:
    """Whether this process writes checkpoints and logs."""
    module = _find_distributed()
    return module is None or module.get_rank() == 0


def gather(state: Callable[[], Any]) -> list[Any] | None:
    """Gather the states of all processes by rank; None for a single process. All must call it."""
    module = _find_distributed()
    if module is None:
        return None
    states = [None] * module.get_world_size()
    module.all_gather_object(states, state())
    return states
