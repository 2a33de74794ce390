"""torch.futures: values set by another thread."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Sequence
from types import GenericAlias
from typing import Any

from .native.foundation.public_names import class_of

__all__ = ["Future", "collect_all", "wait_all"]

_log = logging.getLogger(__name__)


def _callback_error(error: BaseException) -> RuntimeError:
    """Return PyTorch's error for a failed callback: type, message and traceback."""
    message = f"Got the following error when running the callback: {type(error).__name__}: {error}"
    # The first frame is this module's, which called the callback.
    frames = traceback.extract_tb(error.__traceback__)[1:]
    if frames:
        lines = [f"  {f.filename}({f.lineno}): {f.name}\n" for f in reversed(frames)]
        message += "\n\nAt:\n" + "".join(lines)
    return RuntimeError(message)


def _check_futures(futures: Sequence[Future | None]) -> None:
    if any(future is None for future in futures):
        raise RuntimeError("Future can't be None")


class Future:
    """A future value: `wait()` blocks until `set_result` or `set_exception` is called.

    >>> future = torch.futures.Future()
    >>> doubled = future.then(lambda done: done.value() * 2)
    >>> future.set_result(3)
    >>> doubled.wait()
    6
    """

    def __class_getitem__(cls, item: Any) -> Any:
        """Future[T], in annotations."""
        return GenericAlias(cls, item)

    def __init__(self, *, devices: Any = None) -> None:
        self._event, self._lock = threading.Event(), threading.Lock()
        self._callbacks: list[Callable[[Future], Any]] = []
        self._value: Any = None
        self._error: BaseException | None = None

    def __getstate__(self) -> Any:
        raise RuntimeError("Can not pickle torch.futures.Future")

    def done(self) -> bool:
        """Whether a value or an error is set."""
        return self._event.is_set()

    def wait(self) -> Any:
        """Block until done; return the value or raise the error."""
        self._event.wait()
        return self._taken()

    def value(self) -> Any:
        """Return the value. Raises RuntimeError if not done."""
        if not self.done():
            raise RuntimeError("Future must be completed before calling value()")
        return self._taken()

    def _taken(self) -> Any:
        if self._error is not None:
            raise self._error.with_traceback(None)  # without the frames of earlier waits
        return self._value

    def set_result(self, result: Any) -> None:
        """Set the value. Raises RuntimeError the second time."""
        self._complete(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Set an error for `wait` and `value` to raise."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {class_of(result)}, not an Exception.")
        self._complete(None, result)

    def _complete(self, value: Any, error: BaseException | None) -> None:
        with self._lock:
            if self.done():
                raise RuntimeError("Attempting to mark a completed Future as complete again. Note "
                                   "that a Future can only be marked completed once.")
            self._value, self._error = value, error
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            self._call(callback)

    def _call(self, callback: Callable[[Future], Any]) -> None:
        """Run a callback; its errors do not reach the thread that sets the value."""
        try:
            callback(self)
        except Exception as error:
            _log.error(str(_callback_error(error)))

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Call `callback(future)` when done, or immediately if already done.

        An error in `callback` is only logged.
        """
        with self._lock:
            if not self.done():
                self._callbacks.append(callback)
                return
        self._call(callback)

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """Return a future for `callback(future)`'s result, or a RuntimeError if it raises."""
        later = Future()

        def run(done: Future) -> None:
            try:
                result = callback(done)
            except Exception as error:
                later.set_exception(_callback_error(error))
            else:
                later.set_result(result)

        self.add_done_callback(run)
        return later


def collect_all(futures: Sequence[Future]) -> Future:
    """Return a future of the list of futures, done when all of them are."""
    _check_futures(futures)
    combined, remaining = Future(), len(futures)
    lock = threading.Lock()
    if not futures:
        combined.set_result([])

    def one_done(_: Future) -> None:
        nonlocal remaining
        with lock:
            remaining -= 1
            last = remaining == 0
        if last:
            combined.set_result(list(futures))

    for future in list(futures):
        future.add_done_callback(one_done)
    return combined


def wait_all(futures: Sequence[Future]) -> list[Any]:
    """Block until all are done; return their values, or raise the first error.

    >>> future = torch.futures.Future()
    >>> future.set_result(1)
    >>> torch.futures.wait_all([future])
    [1]
    """
    return [future.wait() for future in collect_all(futures).wait()]
