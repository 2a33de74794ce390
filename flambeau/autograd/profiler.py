"""torch.autograd.profiler: labels for parts of a program; profiles are not there yet."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..tensor.absent import lacking

__all__ = ["record_function"]

_NAMES = ("EventList", "FunctionEvent", "emit_itt", "emit_nvtx", "load_nvprof", "profile")

__getattr__ = lacking(__name__, _NAMES)


class record_function:
    """A label for what is done within, or in a function; without a profile it does nothing.

    >>> with torch.profiler.record_function("forward"):
    ...     torch.ones(2).sum()
    tensor(2.)
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args

    def __enter__(self) -> record_function:
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def labelled(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return labelled
