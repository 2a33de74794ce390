"""A compiled function is called by its caller's frame: nothing of the compiler lies between."""

from __future__ import annotations

import _thread
import functools
import gc
import inspect
import sys
import threading
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import flambeau as torch
from flambeau.compiler.driver.compiled_function import Compiled
from flambeau.compiler.driver.optimized_module import OptimizedModule
from flambeau.native.runtime import frameless_call

WAYS = {
    "default": {}, "now": {"mode": "now"}, "eager": {"mode": "now", "follow": False},
    "followed": {"mode": "now", "follow": True},
}
CALLS = 8

pytestmark = [pytest.mark.parametrize("way", WAYS), pytest.mark.filterwarnings("ignore")]


def _compile(function: Any, way: str) -> Any:
    return torch.compile(function, options=WAYS[way])


def _list_frames(skip: int = 1) -> list[tuple[str, str]]:
    frame, result = sys._getframe(skip), []
    while frame is not None and frame.f_code.co_filename == __file__:
        result.append(frame.f_code.co_name)
        frame = frame.f_back
    return result


def test_the_frame_above_is_the_caller_s(way: str) -> None:
    seen = []

    def step(x: torch.Tensor) -> torch.Tensor:
        seen.append((sys._getframe(1).f_code.co_name, sys._getframe(1).f_locals["mark"]))
        return x * 2

    def caller(mark: int) -> torch.Tensor:
        return compiled(torch.full((3,), float(mark)))

    compiled = _compile(step, way)
    assert [caller(i)[0].item() for i in range(CALLS)] == [2 * i for i in range(CALLS)]
    assert seen == [("caller", i) for i in range(CALLS)]


@pytest.mark.parametrize("look", [
    lambda: [info.function for info in inspect.stack()[1:4]],
    lambda: [entry.name for entry in traceback.extract_stack()[-4:-1]],
    lambda: sys._getframe(2).f_code.co_name,
    lambda: inspect.currentframe().f_back.f_back.f_code.co_name,
    lambda: traceback.walk_stack(None).gi_code.co_name,
    lambda: len(inspect.stack()),
])
def test_the_stack_is_that_of_an_eager_call(look: Callable[[], Any], way: str) -> None:
    seen: list[Any] = []

    def step(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        seen.append(look())
        return y + 1

    compiled = _compile(step, way)

    def call(function: Callable) -> None:
        function(torch.ones(3))

    for function in (step, *[compiled] * CALLS):
        call(function)
    assert len(seen) == CALLS + 1
    assert all(each == seen[0] for each in seen)


def test_methods_decorators_and_partials(way: str) -> None:
    seen = []

    class Model:
        def __init__(self) -> None:
            self.compiled = _compile(self.step, way)

        def step(self, x: torch.Tensor, *, scale: float = 1.0) -> torch.Tensor:
            seen.append(_list_frames(2)[0])
            return x * scale

        def train(self) -> None:
            self.compiled(torch.ones(3), scale=2.0)

        @functools.partial(torch.compile, options=WAYS[way])
        def decorated(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(_list_frames(2)[0])
            return x + 1

        def run(self) -> None:
            self.decorated(torch.ones(3))

    model = Model()
    partial = functools.partial(model.compiled, scale=3.0)

    def call_partial() -> None:
        partial(torch.ones(3))

    for _ in range(CALLS):
        model.train()
        model.run()
        call_partial()
    assert seen == ["train", "run", "call_partial"] * CALLS


def test_modules_are_called_through_frames_of_modules_only(way: str) -> None:
    seen = []

    def look() -> None:
        frames = [(f.f_code.co_filename, f.f_code.co_name)
                  for f, _ in traceback.walk_stack(sys._getframe(1))]
        seen.append([name for file, name in frames if "capture" not in file][:3])

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            look()
            return x * 2

    net = Net()
    compiled = _compile(net, way)
    for _ in range(CALLS):
        compiled(torch.ones(3))
    name = test_modules_are_called_through_frames_of_modules_only.__name__
    assert seen == [["forward", "_call_impl", name]] * len(seen)


def test_nested_compiled_functions_and_recursion(way: str) -> None:
    seen = []

    def inner(x: torch.Tensor, depth: int) -> torch.Tensor:
        seen.append(tuple(_list_frames(2)[: depth + 2]))
        return x * 2 if depth == 0 else compiled_inner(x, depth - 1) + 1

    compiled_inner = _compile(inner, way)

    def outer(x: torch.Tensor) -> torch.Tensor:
        return compiled_inner(x, 2) + 1

    compiled = _compile(outer, way)
    name = test_nested_compiled_functions_and_recursion.__name__
    for _ in range(CALLS):
        assert compiled(torch.ones(2)).tolist() == [5, 5]
    assert seen == [("outer", name), ("inner", "outer", name), ("inner", "inner")] * CALLS


def test_a_function_called_by_a_new_thread_has_no_caller(way: str) -> None:
    seen, done = [], threading.Event()

    def step(x: torch.Tensor) -> None:
        seen.append(sys._getframe().f_back)
        x.add_(1)
        done.set()

    compiled, x = _compile(step, way), torch.zeros(3)
    for _ in range(CALLS):
        done.clear()
        _thread.start_new_thread(compiled, (x,))
        assert done.wait(60)
    assert seen == [None] * CALLS


@pytest.mark.parametrize("kind", [
    ValueError, StopIteration, GeneratorExit, KeyboardInterrupt, SystemExit, MemoryError,
])
def test_exceptions_come_as_they_are(kind: type[BaseException], way: str) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        x.mul(2)
        try:
            raise LookupError("first")
        except LookupError as cause:
            raise kind("no") from cause

    compiled = _compile(step, way)
    for _ in range(CALLS):
        with pytest.raises(kind) as caught:
            compiled(torch.ones(3))
        assert caught.value.args == ("no",)
        assert isinstance(caught.value.__context__, LookupError)
        assert caught.value.__context__ is caught.value.__cause__
        names = [entry.name for entry in traceback.extract_tb(caught.value.__traceback__)]
        assert names == [test_exceptions_come_as_they_are.__name__, "step"]
        assert sys.exc_info() == (None, None, None)


def test_an_exhausted_iterator_ends_the_caller_s_loop(way: str) -> None:
    def step(batches: Iterator[torch.Tensor]) -> torch.Tensor:
        return next(batches) * 2

    compiled, results = _compile(step, way), []
    batches = iter([torch.full((2,), float(i)) for i in range(5)])
    while True:
        try:
            results.append(compiled(batches).tolist())
        except StopIteration:
            break
    assert results == [[2.0 * i] * 2 for i in range(5)]


def test_the_exception_being_handled_is_seen(way: str) -> None:
    seen = []

    def step(x: torch.Tensor) -> torch.Tensor:
        seen.append(sys.exc_info()[0])
        return x * 2

    compiled = _compile(step, way)
    for _ in range(CALLS):
        try:
            raise ValueError
        except ValueError:
            compiled(torch.ones(3))
        compiled(torch.ones(3))
    assert seen == [ValueError, None] * CALLS


def test_generators_and_contexts(way: str) -> None:
    @contextmanager
    def noted(x: torch.Tensor) -> Iterator[torch.Tensor]:
        yield x * 2

    def produce(x: torch.Tensor) -> Iterator[Any]:
        for i in range(3):
            yield x * i, sys._getframe(1).f_code.co_name

    compiled, context = _compile(produce, way), _compile(noted, way)
    for _ in range(CALLS):
        for i, (y, name) in enumerate(compiled(torch.ones(2))):
            assert y.tolist() == [i, i] and name == test_generators_and_contexts.__name__
        with context(torch.ones(2)) as y:
            assert y.tolist() == [2, 2]


def test_warnings_name_the_caller_at_every_depth(way: str) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        for depth in (1, 2, 3):
            warnings.warn(str(depth), stacklevel=depth)
        return x * 2

    def call(function: Callable) -> list[tuple[str, int]]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            function(torch.ones(3))
        return [(w.filename, w.lineno) for w in caught if w.message.args[0] in "123"]

    compiled, expected, results = _compile(step, way), None, []
    for function in (step, *[compiled] * CALLS):
        results.append(call(function))
        expected = expected or results[0]
    assert all(each == expected for each in results)


def test_nothing_stays_alive(way: str) -> None:
    class Batch:
        def __init__(self) -> None:
            self.x = torch.ones(3)

    def step(batch: Batch, fails: bool = False) -> torch.Tensor:
        y = batch.x * 2
        if fails:
            raise ValueError
        return y

    compiled, references = _compile(step, way), []
    for i in range(CALLS):
        batch = Batch()
        references.append(weakref.ref(batch))
        try:
            compiled(batch, fails=i % 3 == 2)
        except ValueError:
            pass
        del batch
    gc.collect()
    assert sum(reference() is not None for reference in references) == 0


@pytest.mark.parametrize("kind", [Compiled, OptimizedModule])
def test_calls_in_python_do_the_same(
    way: str, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return frameless_call.call_in_python(self, args, kwargs)

    monkeypatch.setattr(kind, "__call__", call)
    count = [0]

    def step(x: torch.Tensor, fails: bool = False) -> torch.Tensor:
        count[0] += 1
        if fails:
            raise StopIteration("no")
        return x * 2

    compiled = _compile(step, way)
    for i in range(CALLS):
        assert compiled(torch.full((2,), float(i)))[1].item() == 2 * i
        with pytest.raises(StopIteration, match="no"):
            compiled(torch.ones(2), fails=True)
    assert count == [2 * CALLS]
    net = _compile(torch.nn.Linear(2, 2), way)
    for _ in range(CALLS):
        assert net(torch.ones(2)).shape == (2,)
