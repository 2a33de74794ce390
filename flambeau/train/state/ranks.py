"""Several processes that train together: what each has measured becomes one number, and only the
first of them writes files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def _distributed() -> Any:
    """torch.distributed where it is in use by more than one process, else None."""
    module: Any = sys.modules.get("flambeau.distributed")
    if module is None or not module.is_initialized() or module.get_world_size() == 1:
        return None
    return module


def writes_files() -> bool:
    """Whether this process is the one that writes checkpoints and logs."""
    module = _distributed()
    return module is None or module.get_rank() == 0


def gathered(state: Callable[[], Any]) -> list[Any] | None:
    """The states of all processes by rank; None where there is only this one. All must call it."""
    module = _distributed()
    if module is None:
        return None
    states = [None] * module.get_world_size()
    module.all_gather_object(states, state())
    return states
