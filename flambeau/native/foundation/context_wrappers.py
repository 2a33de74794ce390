"""Functions that run another one within a context: what `@torch.no_grad()` and other contexts of
the library return when they decorate.

The proof of a step looks through them: the function inside runs as in a `with` block.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any
from weakref import WeakKeyDictionary

_WRAPPED: WeakKeyDictionary[Any, tuple[Any, Callable]] = WeakKeyDictionary()
_CODES: set[CodeType] = set()


def note_wrapper(wrapper: Any, context: Any, function: Callable) -> Any:
    """Note that a wrapper does nothing but call `function` within `context`; return the wrapper."""
    _WRAPPED[wrapper] = context, function
    _CODES.add(wrapper.__code__)
    return wrapper


def look_through(function: Any) -> tuple[Any, Callable] | None:
    """Return the context and the function of a wrapper; None for any other function."""
    return _WRAPPED.get(function)


def is_wrapper_code(code: CodeType) -> bool:
    """Whether frames of this code are wrappers."""
    return code in _CODES
