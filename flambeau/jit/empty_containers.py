"""The warning of `torch.jit.isinstance` for empty containers, whose elements have any type."""

from __future__ import annotations

import sys
from typing import Any

from ..native.foundation.user_frames import warn

__all__ = ["check_empty_containers"]


def check_empty_containers(obj: Any) -> None:
    """Warn that an empty list, dict or tuple has any type of elements, outside of scripts."""
    boundary = sys.modules.get(f"{__package__}.boundary")
    if type(obj) in (list, dict, tuple) and not obj and not (boundary and boundary.STATE.is_inside):
        warn(
            "The inner type of a container is lost when calling torch.jit.isinstance in eager "
            "mode. For example, List[int] would become list and therefore falsely return True for "
            "List[float] or List[str].")
