"""An exception caught in one process or thread and raised again in another."""

from __future__ import annotations

import sys
import traceback
from types import TracebackType
from typing import Any, NoReturn

__all__ = ["ExceptionWrapper", "KeyErrorMessage"]

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType]


class KeyErrorMessage(str):
    """Text that KeyError prints verbatim instead of as its `repr`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return self


class ExceptionWrapper:
    """A picklable record of the exception being handled: its type, and its traceback as text.

    `where` describes where it was raised: "in DataLoader worker process 0". `note` is added to the
    exception that `reraise` raises.

    >>> try:
    ...     1 / 0
    ... except ZeroDivisionError:
    ...     wrapper = ExceptionWrapper(where="in a thread")
    >>> try:
    ...     wrapper.reraise()
    ... except ZeroDivisionError as error:
    ...     print(str(error).partition(".")[0])
    Caught ZeroDivisionError in a thread
    """

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        exc_info = sys.exc_info() if exc_info is None else exc_info
        self.exc_type: type[BaseException] = exc_info[0]
        self.exc_msg = "".join(traceback.format_exception(*exc_info))
        self.where = where
        self.note: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the type by name if it can be looked up, else as a new RuntimeError subclass."""
        error_type = self.exc_type
        module = sys.modules.get(error_type.__module__)
        is_importable = getattr(module, error_type.__qualname__, None) is error_type
        return _rebuild, (error_type if is_importable else None, error_type.__name__, self.exc_msg,
                          self.where,
                          self.note)

    def reraise(self) -> NoReturn:
        """Raise an exception of the original type whose message contains the original traceback.

        Raises RuntimeError with that message if the type cannot be constructed from a string.
        """
        name = self.exc_type.__name__
        message = f"Caught {name} {self.where}.\nOriginal {self.exc_msg}"
        error = self._error(message)
        if self.note is not None:
            error.add_note(self.note)
        raise error from None

    def _error(self, message: str) -> BaseException:
        error_type: Any = self.exc_type
        if error_type is KeyError:
            return KeyError(KeyErrorMessage(message))
        try:
            error: BaseException = (
                error_type(message=message)
                if getattr(error_type, "message", None) else error_type(message)
            )
        except Exception:
            return RuntimeError(message)
        return error


def _rebuild(
    error_type: type[BaseException] | None, name: str, message: str, where: str, note: str | None
) -> ExceptionWrapper:
    wrapper = ExceptionWrapper((RuntimeError, RuntimeError(), None), where)
    wrapper.exc_type = error_type if error_type is not None else type(name, (RuntimeError,), {})
    wrapper.exc_msg, wrapper.note = message, note
    return wrapper
