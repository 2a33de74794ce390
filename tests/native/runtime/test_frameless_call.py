"""Frameless calls in machine code: results, errors, and references, as in Python."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest

from flambeau.native.runtime.frameless_call import (
    DIRECT, MISS, StepError, Steps, call_in_python, install,
)


def _add(a: int, b: int = 0) -> int:
    return a + b


class _Target:
    """Serves odd numbers, calls even ones directly, and others in steps."""

    def __init__(self, function: Callable = _add) -> None:
        self._flambeau_function = function
        self.log: list[Any] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return call_in_python(self, args, kwargs)

    def _flambeau_serve(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        if args[0].__class__ is not int:
            return MISS
        return -args[0] if args[0] % 2 else DIRECT

    def _flambeau_steps(self, args: tuple, kwargs: dict[str, Any]) -> Steps:
        total = 0
        for part in args[0]:
            try:
                total += yield self._flambeau_function, (part,), kwargs
            except StepError as error:
                self.log.append(type(error.error))
                raise
            finally:
                self.log.append(part)
        return total


class _Native(_Target):
    pass


install(_Native)
both = pytest.mark.parametrize("kind", [_Target, _Native])


def test_machine_code_is_installed() -> None:
    assert type(_Native.__call__).__name__ == "method_descriptor"
    assert _Native.__call__.__text_signature__ == "($self, /, *args, **kwargs)"


@both
def test_the_three_ways(kind: type[_Target]) -> None:
    target = kind()
    assert [target(3), target(4), target(4, b=5), target(4, 6)] == [-3, 4, 9, 10]
    assert target([1, 2, 3]) == 6 and target([1, 2, 3], b=1) == 9 and target([]) == 0
    assert target.log == [1, 2, 3] * 2


@both
@pytest.mark.parametrize("error", [ValueError, StopIteration, GeneratorExit, KeyboardInterrupt])
def test_errors_of_the_function(kind: type[_Target], error: type[BaseException]) -> None:
    raised = error("no")

    def function(a: int) -> int:
        if a == 2:
            raise raised
        return a

    target = kind(function)
    for argument in (2, [1, 2, 3]):
        with pytest.raises(error, match="no") as caught:
            target(argument)
        assert caught.value is raised
        assert raised.__context__ is None
    assert target.log == [1, error, 2]


@both
@pytest.mark.parametrize("place", ["serve", "before", "after", "handler", "function"])
def test_errors_of_the_steps(kind: type[_Target], place: str) -> None:
    class Broken(kind):  # type: ignore[valid-type, misc]
        def _flambeau_serve(self, args: tuple, kwargs: dict[str, Any]) -> Any:
            if place == "serve":
                raise OSError(place)
            return DIRECT if place == "function" else MISS

        def _flambeau_steps(self, args: tuple, kwargs: dict[str, Any]) -> Steps:
            if place == "before":
                raise OSError(place)
            try:
                result = yield self._flambeau_function, args, kwargs
            except BaseException:
                raise OSError(place) from None
            raise OSError(place)
            return result

    def fail(a: int) -> int:
        raise ValueError("first")

    target = Broken(fail if place == "handler" else _add)
    if place == "function":
        del target._flambeau_function
        with pytest.raises(AttributeError, match="_flambeau_function"):
            target(1)
        return
    with pytest.raises(OSError, match=place) as caught:
        target(1)
    if place == "handler":
        assert isinstance(caught.value.__context__, ValueError)


@both
def test_references_are_released(kind: type[_Target]) -> None:
    class Item:
        pass

    def function(a: Any, b: Any = None) -> Any:
        if b is fails:
            raise ValueError("no")
        return a

    fails, item, target = object(), Item(), kind(function)
    watched = (None, item, fails, function, target, MISS, DIRECT, *target.__dict__)
    gc.collect()
    before = [sys.getrefcount(x) for x in watched[1:]]
    for i in range(300):
        target(2, b=item)
        target([2, 4], b=item) if i % 2 else target(3)
        for argument in (2, [2]):
            with pytest.raises(ValueError, match="no"):
                target(argument, b=fails)
    target.log.clear()
    gc.collect()
    after = [sys.getrefcount(x) for x in watched[1:]]
    assert max(abs(a - b) for a, b in zip(before, after, strict=True)) <= 1


def test_a_deep_recursion_ends_in_an_error() -> None:
    def recurse(a: int) -> int:
        return target(a)

    target = _Native(recurse)
    with pytest.raises(RecursionError):
        target(2)
    with pytest.raises(RecursionError):
        target([2])
