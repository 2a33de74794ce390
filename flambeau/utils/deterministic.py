"""torch.utils.deterministic: what deterministic algorithms do beyond their results."""

from __future__ import annotations

import sys
from types import ModuleType


class _Settings(ModuleType):
    """The module, whose setting is checked."""

    _fill = True

    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether deterministic mode fills new memory with NaN or the largest integer.

        Remembered only: torch.empty of flambeau fills nothing.
        """
        return self._fill

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise RuntimeError(f"expected a bool, but got {type(mode).__name__}")
        self.__dict__["_fill"] = mode


sys.modules[__name__].__class__ = _Settings
