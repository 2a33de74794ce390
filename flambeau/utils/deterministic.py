"""torch.utils.deterministic: settings of deterministic mode besides algorithm choice."""

from __future__ import annotations

import sys
from types import ModuleType

from ..tensor.ambient import note_change
from ..tensor.determinism import Filling


class _Settings(ModuleType):
    """Module class that validates its setting."""

    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether deterministic mode fills new memory with NaN or the largest integer."""
        return Filling.enabled

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise RuntimeError(f"expected a bool, but got {type(mode).__name__}")
        Filling.enabled = mode
        note_change()


sys.modules[__name__].__class__ = _Settings
