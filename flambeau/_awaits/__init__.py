"""torch._awaits: values computed when they are first read."""

from __future__ import annotations

from collections.abc import Callable
from types import GenericAlias
from typing import Any

from ..tensor.absent import make_absent_getattr

__all__ = ["Await"]

__getattr__ = make_absent_getattr(__name__)

_UNSET: Any = object()


class _Await:
    """A delayed call. Its result's attributes are read through it, which runs the call.

    >>> delayed = torch.jit._awaitable(torch.add, torch.ones(2), 1)
    >>> delayed.shape, torch.jit._awaitable_wait(delayed)
    (torch.Size([2]), tensor([2., 2.]))
    """

    def __class_getitem__(cls, item: Any) -> Any:
        """Await[T], in annotations."""
        return GenericAlias(cls, item)

    def __init__(self, function: Callable[..., Any] | None, arguments: tuple[Any, ...],
                 result: Any = _UNSET) -> None:
        self._function, self._arguments, self._result = function, arguments, result

    def fn(self) -> Callable[..., Any] | None:
        """Return the delayed function."""
        return self._function

    def args(self) -> tuple[Any, ...]:
        """Return its arguments."""
        return self._arguments

    def is_nowait(self) -> bool:
        """Return whether the value was there from the start."""
        return self._function is None

    def wait(self) -> Any:
        """Return the result, calling the function unless that has happened."""
        if self._result is _UNSET:
            assert self._function is not None
            self._result = self._function(*self._arguments)
        return self._result

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return getattr(self.wait(), name)


Await = _Await
