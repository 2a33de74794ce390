"""Python that acts beside the operators of a step: NumPy on the same memory, threads, generators,
results computed later, errors that depend on values."""

from __future__ import annotations

import collections
import ctypes
import functools
import sys
import threading
import types
import unittest.mock
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn

from .scenario import Scene, compare

SCENES: dict[str, Callable[[], Scene]] = {}


def scene(make: Callable[[], Scene]) -> Callable[[], Scene]:
    """Add a scene to the table."""
    SCENES[make.__name__] = make
    return make


def vector() -> tuple[torch.Tensor]:
    return (torch.randn(3),)


@scene
def an_array_of_a_tensor_is_read_between_writes() -> Scene:
    total = torch.zeros(3)
    array = total.numpy()

    def step(x: Any) -> Any:
        total.add_(x)
        first = float(array[0])
        total.mul_(2)
        return x * first + float(array.sum())

    return Scene(step, lambda: array.fill(1), vector, [total])


@scene
def an_array_of_a_tensor_is_written_between_operators() -> Scene:
    array = np.ones(3, np.float32)
    shared, count = torch.from_numpy(array), [0]

    def step(x: Any) -> Any:
        before = shared * x
        count[0] += 1
        array[:] = count[0]
        after = shared * x
        array[0] = 7
        return before, after

    return Scene(step, lambda: count.__setitem__(0, 40), vector, [shared])


@scene
def memory_is_read_by_its_address() -> Scene:
    total = torch.zeros(3)

    def step(x: Any) -> Any:
        total.add_(x)
        memory = ctypes.cast(total.data_ptr(), ctypes.POINTER(ctypes.c_float))
        first = memory[0]
        memory[1] = 3.0
        return x * first + total

    return Scene(step, lambda: total.zero_(), vector, [total])


@scene
def a_buffer_is_written_between_operators() -> Scene:
    buffer = bytearray(np.ones(3, np.float32).tobytes())
    shared = torch.frombuffer(buffer, dtype=torch.float32)

    def step(x: Any) -> Any:
        before = shared + x
        buffer[3] = 0x40
        after = shared + x
        shared.zero_().add_(1)
        return before, after, buffer[3]

    return Scene(step, lambda: buffer.__setitem__(7, 0x41), vector, [shared])


@scene
def errors_that_depend_on_values_are_caught() -> Scene:
    log: list[Any] = []
    count = [0]
    attempts: list[Callable[[Any, int], Any]] = [
        lambda x, i: x[torch.tensor([0, i % 5])],
        lambda x, i: torch.linalg.cholesky(torch.diag(x + i - 4)),
        lambda x, i: F.nll_loss(x[None], torch.tensor([i % 4])),
        lambda x, i: torch.arange(3) // torch.tensor(i % 3),
        lambda x, i: F.one_hot(torch.tensor([i % 4]), 3),
    ]

    def step(x: Any) -> Any:
        results = []
        count[0] += 1
        for number, attempt in enumerate(attempts):
            try:
                results.append(attempt(x, count[0]).sum())
            except (RuntimeError, IndexError) as error:
                log.append((number, type(error).__name__, str(error)[:80]))
        return results

    return Scene(step, log.clear, lambda: (torch.tensor([1.0, 2.0, 3.0]),), log=log)


@scene
def a_step_raises_after_its_writes() -> Scene:
    total, log = torch.zeros(3), [0]

    def step(x: Any) -> Any:
        total.add_(x)
        log[0] += 1
        if log[0] % 3 == 0:
            raise ValueError(f"call {log[0]}")
        total.mul_(2)
        return x * 2

    return Scene(step, lambda: log.__setitem__(0, 20), vector, [total], log)


@scene
def results_are_computed_by_the_caller() -> Scene:
    table, weight, log = [1.0, 2.0], torch.ones(3), []

    def step(x: Any) -> Any:
        later = (x * k + weight for k in table)
        weight.add_(1)
        log.append(lambda: x * weight)
        return [*later, len(log), log[-2:][0]()]

    return Scene(step, lambda: table.append(5.0), vector, [weight])


@scene
def a_generator_is_suspended_between_calls() -> Scene:
    weight = torch.ones(3)

    def run() -> Iterator[Any]:
        total, x = torch.zeros(3), torch.zeros(3)
        while True:
            total = total + x * weight
            weight.mul_(1.1)
            x = yield total * 2

    running: Any = run()
    next(running)
    return Scene(lambda x: running.send(x) + weight, lambda: weight.fill_(2), vector, [weight])


@scene
def another_thread_reads_and_writes() -> Scene:
    total, log = torch.zeros(3), []

    def step(x: Any) -> Any:
        total.add_(x)
        twice = total * 2

        def look() -> None:
            log.append((total.sum().item(), twice.sum().item()))
            total.mul_(0.5)

        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        return total * 2 + twice

    return Scene(step, lambda: total.zero_(), vector, [total], log)


@scene
def an_intermediate_result_dies() -> Scene:
    log: list[Any] = []

    def step(x: Any) -> Any:
        twice = x * 2
        alive = weakref.ref(twice, lambda _: log.append("dead"))
        result = twice + 1
        del twice
        log.append(alive() is None)
        return result

    return Scene(step, log.clear, vector, log=log)


@scene
def a_mock_inside_the_step() -> Scene:
    net, options = nn.Sequential(nn.Linear(3, 3), nn.Tanh()), {"on": True}

    def step(x: Any) -> Any:
        if not options["on"]:
            return net(x).detach()
        with unittest.mock.patch.object(net[1], "forward", torch.relu):
            inside = net(x).detach()
        return inside, net(x).detach()

    return Scene(step, lambda: options.update(on=False))


@scene
def a_mock_is_state() -> Scene:
    mock, log = unittest.mock.MagicMock(), []
    mock.scale = 2.0

    def step(x: Any) -> Any:
        mock.note(1, key=2)
        log.append(mock.note.call_count)
        return x * mock.scale

    return Scene(step, lambda: setattr(mock, "scale", 3.0), vector, log=log)


@scene
def a_new_lambda_in_each_call() -> Scene:
    count = [0]

    def arguments() -> tuple:
        count[0] += 1
        k = count[0] % 4
        return (torch.randn(3), lambda x: x * k,
                functools.partial(torch.add, alpha=1, other=float(count[0] // 3)))

    return Scene(lambda x, f, g: f(x) + g(x), arguments=arguments)


@scene
def keys_that_compare_by_their_own_code() -> Scene:
    class Key:
        def __init__(self, value: int) -> None:
            self.value = value

        def __hash__(self) -> int:
            log.append("hash")
            return hash(self.value)

        def __eq__(self, other: object) -> bool:
            log.append("eq")
            return self.value == getattr(other, "value", None)

    log: list[str] = []
    stored, asked = Key(1), Key(1)
    table = {stored: 2.0}

    def change() -> None:
        asked.value = 2

    return Scene(lambda x: x * table.get(asked, 5.0), change, vector, log=log)


@scene
def a_handled_exception_around_the_call() -> Scene:
    def step(x: Any) -> Any:
        kind = sys.exc_info()[0]
        return x * (2.0 if kind is None else 3.0)

    return Scene(step, arguments=vector)


@scene
def sixty_objects() -> Scene:
    objects = [types.SimpleNamespace(v=float(i)) for i in range(60)]
    return Scene(lambda x: x * sum(o.v for o in objects),
                 lambda: setattr(objects[59], "v", -1.0), vector)


@scene
def a_least_recently_used_cache() -> Scene:
    cache: Any = collections.OrderedDict()
    limit, count = [3], [0]

    def step(x: Any) -> Any:
        count[0] += 5
        key = count[0] % 4
        if key in cache:
            cache.move_to_end(key)
        else:
            cache[key] = x.sum()
            while len(cache) > limit[0]:
                cache.popitem(last=False)
        return x + cache[key], list(cache)

    return Scene(step, lambda: limit.__setitem__(0, 2), vector)


@scene
def caught_groups_of_exceptions() -> Scene:
    log, bad = [], []

    def step(x: Any) -> Any:
        try:
            if bad:
                raise ExceptionGroup("group", [ValueError("v"), TypeError("t")])
            x = x * 2
        except* ValueError as error:
            log.append(len(error.exceptions))
            x = x * 3
        except* TypeError as error:
            log.append(str(error))
        return x

    return Scene(step, lambda: bad.append(1), vector, log=log)


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize(("mode", "at"), [("now", 4), ("default", 8)])
def test_a_compiled_step_does_what_its_python_does(name: str, mode: str, at: int) -> None:
    compare(SCENES[name], mode, at)
