"""Wrapper of every IterDataPipe's `__iter__`: reset the pipe, invalidate earlier iterators, count
samples, and name the pipe in errors and profiles."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Generator, Iterator
from enum import Enum
from typing import Any

from ....autograd import profiler

_FEEDBACK = (
    "\nFor feedback regarding this single iterator per IterDataPipe constraint, feel free to "
    "comment on this issue: https://github.com/pytorch/data/issues/45."
)


class _SnapshotState(Enum):
    """A pipe's state between snapshots: `Restored` is not reset by the next `iter()`."""

    NotStarted = 0
    Restored = 1
    Iterating = 2


def describe_arguments(pipe: Any) -> str:
    """Return `name=value` of the attributes named like the constructor's parameters."""
    parameters = inspect.signature(type(pipe)).parameters
    return ", ".join(
        f"{name}={value.__name__ if inspect.isfunction(value) else repr(value)}"
        for name, value in inspect.getmembers(pipe) if name in parameters
    )


def _describe(pipe: Any) -> str:
    return f"{type(pipe).__name__}({describe_arguments(pipe)})"


def _check_iterator_valid(pipe: Any, iterator_id: int) -> None:
    """Raise RuntimeError if a later iterator of the same pipe has invalidated this one."""
    if getattr(pipe, "_is_child_datapipe", False) is True:
        if not hasattr(pipe, "_check_valid_iterator_id"):
            raise RuntimeError("ChildDataPipe must have method `_check_valid_iterator_id`.")
        if not pipe._check_valid_iterator_id(iterator_id):
            raise RuntimeError(
                "This iterator has been invalidated, because a new iterator has been created from "
                f"one of the ChildDataPipes of {_describe(pipe.main_datapipe)}." + _FEEDBACK
            )
    elif pipe._valid_iterator_id != iterator_id:
        raise RuntimeError(
            "This iterator has been invalidated because another iterator has been created from "
            f"the same IterDataPipe: {_describe(pipe)}\nThis may be caused by multiple references "
            "to the same IterDataPipe. We recommend using `.fork()` if that is necessary."
            + _FEEDBACK
        )


def _begin(pipe: Any) -> int:
    """Reset the pipe for a new iterator and return the iterator's number."""
    if getattr(pipe, "_is_child_datapipe", False) is True:
        if not hasattr(pipe, "_set_main_datapipe_valid_iterator_id"):
            raise RuntimeError(
                "ChildDataPipe must have method `_set_main_datapipe_valid_iterator_id`."
            )
        pipe._set_main_datapipe_valid_iterator_id()
    else:
        last = pipe._valid_iterator_id
        pipe._valid_iterator_id = 0 if last is None else last + 1
        pipe.reset()
    return pipe._valid_iterator_id


def _profile(pipe: Any, enabled: bool) -> contextlib.AbstractContextManager[Any]:
    if not enabled:
        return contextlib.nullcontext()
    name = _describe(pipe).replace("IterDataPipe", "").replace("MapDataPipe", "")
    return profiler.record_function(name)


class _CountingIterator:
    """Wrapper of an iterator returned by an `__iter__` without `yield`; checks at each step."""

    def __init__(self, iterator: Any, pipe: Any, iterator_id: int, has_own_next: bool) -> None:
        self.iterator, self.datapipe, self.iterator_id = iterator, pipe, iterator_id
        self._profiles = profiler._is_profiler_enabled
        self._counts = not (iterator is pipe and has_own_next)  # the pipe's __next__ counts itself

    def __iter__(self) -> _CountingIterator:
        return self

    def __next__(self) -> Any:
        with _profile(self.datapipe, self._profiles):
            _check_iterator_valid(self.datapipe, self.iterator_id)
            sample = next(self.iterator)
            if self._counts:
                self.datapipe._number_of_samples_yielded += 1
            return sample

    def __getattr__(self, name: str) -> Any:
        return getattr(self.iterator, name)


def _take_fast_forward(pipe: Any) -> Iterator[Any] | None:
    """Return, once, the iterator that restoring a snapshot has advanced to its position."""
    iterator, pipe._fast_forward_iterator = pipe._fast_forward_iterator, None
    return iterator


def _name_pipe(error: Exception, pipe: Any) -> None:
    """Add the pipe that raised an error to the error's message."""
    origin = f"thrown by __iter__ of {type(pipe).__name__}({describe_arguments(pipe)})"
    if not error.args or not isinstance(error.args[0], str):
        error.args = (f"\nThis exception is {origin}",)
    elif not any(phrase in error.args[0] for phrase in (
        "thrown by __iter__ of", "single iterator per IterDataPipe constraint"
    )):
        error.args = (f"{error.args[0]}\nThis exception is {origin}", *error.args[1:])


def _hook_generator(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def iterate(*args: Any, **kwargs: Any) -> Generator[Any, Any, None]:
        pipe, samples = args[0], function(*args, **kwargs)
        forwarded = _take_fast_forward(pipe)
        if forwarded is not None:
            pipe._snapshot_state = _SnapshotState.Iterating
            yield from forwarded
            return
        iterator_id = _begin(pipe)
        profiles = profiler._is_profiler_enabled
        request = None
        try:
            while True:
                with _profile(pipe, profiles):
                    _check_iterator_valid(pipe, iterator_id)
                    sample = samples.send(request)
                pipe._number_of_samples_yielded += 1
                request = yield sample
        except StopIteration:
            return
        except Exception as error:
            _name_pipe(error, pipe)
            raise

    return iterate


def _hook_next(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def step(*args: Any, **kwargs: Any) -> Any:
        with _profile(args[0], profiler._is_profiler_enabled):
            sample = function(*args, **kwargs)
        args[0]._number_of_samples_yielded += 1
        return sample

    return step


def _hook_plain(function: Callable[..., Any], has_own_next: bool) -> Callable[..., Any]:
    @functools.wraps(function)
    def iterate(*args: Any, **kwargs: Any) -> Any:
        pipe, iterator = args[0], function(*args, **kwargs)
        pipe._snapshot_state = _SnapshotState.Iterating
        forwarded = _take_fast_forward(pipe)
        if forwarded is not None:
            return forwarded
        return _CountingIterator(iterator, pipe, _begin(pipe), has_own_next)

    return iterate


def hook_iterator(namespace: dict[str, Any]) -> None:
    """Wrap `__iter__`, and `__next__` if there is one, of a class under construction."""
    function = namespace["__iter__"]
    if inspect.isgeneratorfunction(function):
        namespace["__iter__"] = _hook_generator(function)
        return
    if "__next__" in namespace:
        namespace["__next__"] = _hook_next(namespace["__next__"])
    namespace["__iter__"] = _hook_plain(function, "__next__" in namespace)
