"""Mark functions that compute an operator's result in machine code, or return None.

The compiler traces the NumPy body of an operator; there every native route returns None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def native_route(function: F) -> F:
    """Mark a function that returns None where no kernel serves its arguments."""
    function.is_native_route = True  # type: ignore[attr-defined]
    return function
