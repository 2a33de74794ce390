"""torch.utils._mode_utils: a context that bypasses `__torch_dispatch__`, and equal modes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..ops.interception.torch_dispatch import without_dispatch as no_dispatch

__all__ = ["all_same_mode", "no_dispatch"]


def all_same_mode(modes: Iterable[Any]) -> bool:
    """Return whether all modes are the same object.

    >>> from flambeau.utils._mode_utils import all_same_mode
    >>> all_same_mode([None, None]), all_same_mode([None, 1])
    (True, False)
    """
    first, *rest = modes
    return all(mode is first for mode in rest)
