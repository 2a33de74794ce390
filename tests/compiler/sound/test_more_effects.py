"""What a step does beside its result: files, output, time, threads, contexts, generators."""

from __future__ import annotations

import collections
import contextlib
import contextvars
import functools
import itertools
import json
import logging
import os
import queue
import random
import sys
import threading
import time
import types
import warnings

import numpy as np
import pytest

import flambeau as torch

from .scenario import compare
from .state_scenes import MOSTLY_SLOW, Scenes

SCENES = Scenes()
scene = SCENES.add_action


@scene
def text_to_stdout(log):
    class Out:
        def write(self, text):
            log.append(text)

        def flush(self):
            pass

    def action(loss):
        with contextlib.redirect_stdout(Out()):
            sys.stdout.write("a")

    return action


@scene
def print_to_an_object(log):
    out = types.SimpleNamespace(write=log.append)
    return lambda loss: print("a", file=out)


@scene
def a_file(log):
    import tempfile

    path = tempfile.mktemp()

    def action(loss):
        with open(path, "a") as file:
            file.write("a")
        log.append(os.path.getsize(path))

    return action


@scene
def a_file_descriptor(log):
    read, write = os.pipe()

    def action(loss):
        os.write(write, b"a")

    def change():
        log.append(len(os.read(read, 100)))

    return action, change


@scene
def json_of_a_loss(log):
    return lambda loss: log.append(json.dumps({"loss": round(loss.item(), 3)}))


@scene
def a_log_of_the_root(log):
    class Handler(logging.Handler):
        def emit(self, record):
            log.append(record.getMessage())

    logger = logging.getLogger("scene of a step")
    logger.handlers = [Handler()]
    logger.setLevel(logging.INFO)
    return lambda loss: logger.info("step %d", 3)


@scene
def a_log_whose_level_changes(log):
    class Handler(logging.Handler):
        def emit(self, record):
            log.append(record.getMessage())

    logger = logging.getLogger("another scene of a step")
    logger.handlers = [Handler()]
    logger.setLevel(logging.WARNING)
    return (lambda loss: logger.info("step")), lambda: logger.setLevel(logging.INFO)


@scene
def is_enabled_for(log):
    logger = logging.getLogger("a third scene of a step")
    logger.setLevel(logging.WARNING)
    return ((lambda loss: 1 if logger.isEnabledFor(logging.INFO) else 0),
            lambda: logger.setLevel(logging.INFO))


@scene
def warnings_turned_to_errors(log):
    def action(loss):
        warnings.warn("careful", stacklevel=1)

    def change():
        before = warnings.filters[:]
        warnings.simplefilter("error")
        return lambda: warnings.filters.__setitem__(slice(None), before)

    return action, change


@scene
def a_perf_counter(log):
    start = time.perf_counter()
    return lambda loss: log.append(time.perf_counter() > start)


@scene
def a_sleep(log):
    calls = []
    sleep = time.sleep

    def action(loss):
        before = time.monotonic()
        sleep(0.002)
        calls.append(1)
        log.append(time.monotonic() - before > 0.001)

    return action


@scene
def a_python_random_seed(log):
    random.seed(0)
    return lambda loss: random.random()


@scene
def a_random_object(log):
    generator = random.Random(0)
    return lambda loss: generator.choice([1, 2, 3, 4])


@scene
def a_numpy_generator(log):
    generator = np.random.default_rng(0)
    return lambda loss: float(generator.random())


@scene
def a_uuid(log):
    import uuid

    seen = set()

    def action(loss):
        seen.add(uuid.uuid4())
        log.append(len(seen))

    return action


@scene
def a_context_variable_set(log):
    variable = contextvars.ContextVar("scene", default=0)

    def action(loss):
        variable.set(variable.get() + 1)
        return variable.get()

    return action


@scene
def a_context_variable_read(log):
    variable = contextvars.ContextVar("scene", default=1.0)
    return (lambda loss: loss.detach() * variable.get()), lambda: variable.set(3.0) is None


@scene
def an_environment_variable(log):
    def change():
        os.environ["FLAMBEAU_SCENE"] = "3"
        return lambda: os.environ.pop("FLAMBEAU_SCENE") and None

    return lambda loss: loss.detach() * float(os.environ.get("FLAMBEAU_SCENE", "1")), change


@scene
def an_environment_variable_written(log):
    def action(loss):
        os.environ["FLAMBEAU_SCENE"] = str(int(os.environ.get("FLAMBEAU_SCENE", "0")) + 1)
        return os.environ["FLAMBEAU_SCENE"]

    os.environ.pop("FLAMBEAU_SCENE", None)
    return action


@scene
def a_thread_that_is_joined(log):
    def action(loss):
        thread = threading.Thread(target=log.append, args=(1,))
        thread.start()
        thread.join()

    return action


@scene
def the_name_of_the_thread(log):
    def change():
        before = threading.current_thread().name
        threading.current_thread().name = "other"
        return lambda: setattr(threading.current_thread(), "name", before)

    return lambda loss: threading.current_thread().name, change


@scene
def a_queue(log):
    items = queue.Queue()

    def action(loss):
        items.put(1)
        return items.qsize()

    return action


@scene
def a_semaphore(log):
    semaphore = threading.Semaphore(5)
    return lambda loss: semaphore.acquire(blocking=False)


@scene
def an_event(log):
    event = threading.Event()
    return (lambda loss: 1 if event.is_set() else 0), event.set


@scene
def an_itertools_cycle(log):
    values = itertools.cycle([1, 2, 3])
    return lambda loss: loss.detach() * next(values)


@scene
def an_itertools_count_in_zip(log):
    numbers = itertools.count()
    return lambda loss: [n for n, _ in zip(numbers, range(2), strict=False)]


@scene
def an_itertools_chain(log):
    values = [1.0, 2.0]
    return ((lambda loss: sum(itertools.chain(values, [3.0]))), lambda: values.append(5.0))


@scene
def an_itertools_product(log):
    values = [1.0, 2.0]
    return ((lambda loss: sum(a * b for a, b in itertools.product(values, values))),
            lambda: values.append(5.0))


@scene
def an_islice_of_an_iterator(log):
    values = iter(range(100))
    return lambda loss: list(itertools.islice(values, 2))


@scene
def a_map_from_outside(log):
    values = map(float, range(100))
    return lambda loss: loss.detach() * next(values)


@scene
def an_iterator_over_a_list(log):
    values = iter([1.0] * 5 + [2.0] * 50)
    return lambda loss: loss.detach() * next(values)


@scene
def an_iterator_with_a_default(log):
    values = iter([1.0, 2.0])
    return lambda loss: loss.detach() * next(values, 7.0)


@scene
def a_generator_that_is_sent_to(log):
    def running():
        total = 0
        while True:
            total += yield total

    generator = running()
    next(generator)
    return lambda loss: generator.send(1)


@scene
def a_generator_closed_in_the_step(log):
    def values():
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    def action(loss):
        for value in values():
            return value
        return None

    return action


@scene
def a_class_with_next(log):
    class Numbers:
        at = 0

        def __next__(self):
            self.at += 1
            return self.at

    numbers = Numbers()
    return lambda loss: next(numbers)


@scene
def a_context_manager_with_effects(log):
    @contextlib.contextmanager
    def block():
        log.append("in")
        try:
            yield
        finally:
            log.append("out")

    def action(loss):
        with block():
            pass

    return action


@scene
def an_exit_stack(log):
    def action(loss):
        with contextlib.ExitStack() as stack:
            stack.callback(log.append, 1)

    return action


@scene
def suppressed(log):
    table = {"a": 1.0}

    def action(loss):
        with contextlib.suppress(KeyError):
            return loss.detach() * table["b"]
        return None

    return action, lambda: table.update(b=2.0)


@scene
def an_exception_raised(log):
    box = types.SimpleNamespace(limit=100)

    def action(loss):
        if box.limit < 10:
            raise ValueError("too low")

    return action, lambda: setattr(box, "limit", 1)


@scene
def an_exception_of_an_operator(log):
    box = types.SimpleNamespace(at=1)
    table = torch.arange(3.0)
    return (lambda loss: table[box.at] * 1), lambda: setattr(box, "at", 7)


@scene
def an_exception_that_depends_on_values(log):
    indices, table = torch.tensor([0, 1]), torch.arange(3.0)
    return (lambda loss: table[indices] * 2), lambda: indices.fill_(9) is None


@scene
def a_finally(log):
    def action(loss):
        try:
            return loss.detach() * 2
        finally:
            log.append(1)

    return action


@scene
def an_exception_with_a_counter(log):
    counts = collections.Counter()

    def action(loss):
        try:
            raise KeyError("a")
        except KeyError as error:
            counts[str(error)] += 1
        return counts["'a'"]

    return action


@scene
def a_traceback(log):
    def action(loss):
        try:
            raise ValueError
        except ValueError:
            log.append(sys.exc_info()[2].tb_lineno > 0)

    return action


@scene
def a_cache_that_is_cleared(log):
    box = types.SimpleNamespace(value=1.0)

    @functools.lru_cache
    def scale(x):
        log.append("computed")
        return box.value

    def change():
        box.value = 2.0
        scale.cache_clear()

    return (lambda loss: loss.detach() * scale(1)), change


@scene
def the_statistics_of_a_cache(log):
    @functools.lru_cache
    def scale(x):
        return x

    def action(loss):
        scale(1)
        return scale.cache_info().hits

    return action


@scene
def a_partial_whose_function_changes(log):
    def scale(a, b):
        return a * b

    part = functools.partial(scale, 2.0)

    def other(a, b):
        return a + b

    return (lambda loss: loss.detach() * part(3.0)), lambda: setattr(
        scale, "__code__", other.__code__)


@scene
def a_partial_set_anew(log):
    part = functools.partial(pow, 2.0)
    return (lambda loss: loss.detach() * part(3.0)), lambda: part.__setstate__(
        (pow, (3.0,), {}, {}))


@pytest.mark.parametrize(("mode", "change_at"), MOSTLY_SLOW)
@pytest.mark.parametrize("name", SCENES)
def test_what_a_step_does_beside_its_result(name, mode, change_at):
    compare(SCENES[name], mode, change_at)
