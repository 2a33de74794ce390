"""NumPy's warnings about inf and nan: none for flambeau's own arithmetic, as PyTorch gives none.

A filter of the warnings module does not last: pytest and `catch_warnings` replace it. So NumPy
logs these events to an object, which warns unless flambeau computed them.
"""

from __future__ import annotations

import os
import sys
import warnings
from types import CodeType, FrameType

import numpy as np

from .user_frames import is_own_file

_DEFAULT = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep


class NumpyEvents:
    """Where NumPy logs divisions by zero, overflows and invalid values."""

    def __init__(self) -> None:
        self.is_own: dict[CodeType, bool | None] = {}  # None: NumPy's Python code, for its caller

    def write(self, text: str) -> None:
        """Give NumPy's warning, at the line at which NumPy would, unless it is flambeau's."""
        frame = sys._getframe(1)
        if self._computes_for_flambeau(frame):
            return
        names = frame.f_globals
        warnings.warn_explicit(
            text.removeprefix("Warning: ").rstrip(), RuntimeWarning, frame.f_code.co_filename,
            frame.f_lineno, module=names.get("__name__", "<unknown>"),
            registry=names.setdefault("__warningregistry__", {}),
        )

    def _computes_for_flambeau(self, frame: FrameType | None) -> bool:
        while frame is not None:
            code = frame.f_code
            if code not in self.is_own:
                of_numpy = code.co_filename.startswith((_NUMPY, "<__array_function__"))
                self.is_own[code] = None if of_numpy else is_own_file(code.co_filename)
            own = self.is_own[code]
            if own is not None:
                return own
            frame = frame.f_back
        return False


def listen() -> None:
    """Take NumPy's events in this thread, unless the program has chosen what happens to them."""
    if np.geterr() == _DEFAULT and np.geterrcall() is None:
        np.seterrcall(NumpyEvents())
        np.seterr(divide="log", over="log", invalid="log")
