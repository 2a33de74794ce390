"""SciPy's special functions by name, imported when the first of them is needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache


@cache
def get_special_function(name: str) -> Callable:
    """Return the scipy.special function of this name."""
    import scipy.special

    return getattr(scipy.special, name)
