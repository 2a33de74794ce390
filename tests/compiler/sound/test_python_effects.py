"""What a step does in Python beside tensors happens on every call: logs and objects must agree."""

from __future__ import annotations

import atexit
import collections
import io
import itertools
import logging
import random
import threading
import time
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn

from .scenario import Scene, compare

WHEN = (("now", 4), ("default", 8))
SCENES: dict[str, Callable[[], Scene]] = {}


def scene(make: Callable[[list], Any]) -> Callable[[list], Any]:
    """Registers what gives an action on a loss, which may write to a log."""

    def build() -> Scene:
        log: list[Any] = []
        action = make(log)
        weight = torch.ones(3, requires_grad=True)

        def step(x):
            loss = (x * weight).sum()
            result = action(loss)
            return loss.detach() if result is None else (loss.detach(), result)

        return Scene(step, log=log)

    SCENES[make.__name__.replace("_", " ")] = build
    return make


@scene
def a_list_of_numbers(log):
    return lambda loss: log.append(1)


@scene
def a_list_of_losses(log):
    return lambda loss: log.append(loss.item())


@scene
def a_count(log):
    log.append(0)

    def action(loss):
        log[0] += 1

    return action


@scene
def a_count_of_an_object(log):
    counter = types.SimpleNamespace(count=0)
    log.append(counter.__dict__)

    def action(loss):
        counter.count += 1

    return action


@scene
def a_nonlocal_count(log):
    count = 0

    def action(loss):
        nonlocal count
        count += 1
        log[:] = [count]

    return action


@scene
def a_count_that_decides(log):
    count = 0

    def action(loss):
        nonlocal count
        count += 1
        return loss * 2 if count % 3 == 0 else loss * 3

    return action


@scene
def a_counter(log):
    counter = collections.Counter()
    log.append(counter)
    return lambda loss: counter.update(["step"])


@scene
def a_ring(log):
    ring = collections.deque(maxlen=3)
    log.append(ring)
    return lambda loss: ring.append(len(ring))


@scene
def a_set(log):
    seen: set = set()
    log.append(seen)
    return lambda loss: seen.add(len(seen))


@scene
def an_iterator(log):
    numbers = iter(range(100))
    return lambda loss: loss * next(numbers)


@scene
def a_generator(log):
    def numbers():
        for i in range(100):
            log.append(i)
            yield float(i)

    values = numbers()
    return lambda loss: loss * next(values)


@scene
def a_cycle(log):
    values = itertools.cycle([1.0, 2.0, 3.0])
    return lambda loss: loss * next(values)


@scene
def a_count_of_itertools(log):
    values = itertools.count()
    return lambda loss: log.append(next(values))


@scene
def a_text_stream(log):
    stream = io.StringIO()

    def action(loss):
        stream.write("x")
        log[:] = [stream.getvalue()]

    return action


@scene
def print_to_a_stream(log):
    class Stream:
        def write(self, text):
            log.append(text)

    return lambda loss: print("step", file=Stream())


@scene
def print_of_a_loss_every_third_step(log):
    class Stream:
        def write(self, text):
            log.append(text[:6])

    count = itertools.count()

    def action(loss):
        if next(count) % 3 == 0:
            print(f"{loss.item():.2f}", file=Stream())

    return action


@scene
def a_log(log):
    class Handler(logging.Handler):
        def emit(self, record):
            log.append(record.getMessage())

    logger = logging.Logger("step")
    logger.addHandler(Handler())
    return lambda loss: logger.info("step %d", 3)


@scene
def a_log_whose_level_hides_it(log):
    class Handler(logging.Handler):
        def emit(self, record):
            log.append(record.getMessage())

    logger = logging.Logger("step", logging.WARNING)
    logger.addHandler(Handler())
    calls = itertools.count()

    def action(loss):
        logger.info("hidden")
        if next(calls) == 6:
            logger.setLevel(logging.DEBUG)

    return action


@scene
def a_warning(log):
    def action(loss):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            warnings.warn("look", stacklevel=1)
        log.append(len(seen))

    return action


@scene
def a_clock(log):
    begin = time.monotonic()
    return lambda loss: log.append(time.monotonic() >= begin)


@scene
def a_random_number(log):
    generator = random.Random(3)
    return lambda loss: loss * generator.random()


@scene
def a_random_choice_of_the_process(log):
    def action(loss):
        if not log:
            random.seed(5)
        log.append(0)
        return loss * random.choice([1.0, 2.0, 3.0])

    return action


@scene
def a_random_number_of_numpy(log):
    generator = np.random.default_rng(3)
    return lambda loss: loss * float(generator.random())


@scene
def a_condition_on_a_loss(log):
    return lambda loss: loss * 2 if loss.item() > 0 else loss * 3


@scene
def a_condition_on_a_tensor(log):
    return lambda loss: loss * 2 if loss > 0 else loss * 3


@scene
def a_loop_over_values(log):
    return lambda loss: [v > 0 for v in loss.view(1).tolist()]


@scene
def the_greater_of_two(log):
    return lambda loss: loss * 2 if max(loss, -loss) is loss else loss * 3


@scene
def a_loss_in_an_object_that_decides(log):
    class Best:
        def __init__(self, loss):
            self.loss = loss

        def __bool__(self):
            return self.loss.item() > 0

    return lambda loss: loss * 2 if Best(loss) else loss * 3


@scene
def losses_that_are_sorted(log):
    return lambda loss: sorted([loss.item(), 0.0])[0]


@scene
def a_running_mean(log):
    meter = types.SimpleNamespace(total=0.0, count=0)
    log.append(meter.__dict__)

    def action(loss):
        meter.total += loss.item()
        meter.count += 1

    return action


@scene
def the_best_loss(log):
    best = [float("inf")]

    def action(loss):
        if loss.item() < best[0]:  # noqa: PLR1730
            best[0] = loss.item()
        log[:] = best

    return action


@scene
def a_lock(log):
    lock = threading.Lock()

    def action(loss):
        with lock:
            log.append(1)

    return action


@scene
def a_thread(log):
    def action(loss):
        thread = threading.Thread(target=log.append, args=(1,))
        thread.start()
        thread.join()

    return action


@scene
def an_exception_now_and_then(log):
    count = itertools.count()

    def action(loss):
        if next(count) % 4 == 3:
            raise ValueError("stop")

    return action


@scene
def an_exception_that_is_caught(log):
    def action(loss):
        try:
            raise KeyError("missing")
        except KeyError as error:
            log.append(str(error))

    return action


@scene
def a_property_with_an_effect(log):
    class Sly:
        @property
        def factor(self):
            log.append(1)
            return 2.0

    sly = Sly()
    return lambda loss: loss * sly.factor


@scene
def a_getattr_with_an_effect(log):
    class Sly:
        def __getattr__(self, name):
            log.append(name)
            return 2.0

    sly = Sly()
    return lambda loss: loss * sly.factor


@scene
def a_truth_with_an_effect(log):
    class Sly:
        def __bool__(self):
            log.append(1)
            return True

    sly = Sly()
    return lambda loss: loss if sly else -loss


@scene
def a_key_with_an_effect(log):
    return lambda loss: sorted([2, 1], key=lambda v: log.append(v) or v) and None


@scene
def a_c_function_called_by_map(log):
    return lambda loss: list(map(log.append, [1, 2])) and None


@scene
def a_default_that_grows(log):
    def action(loss, seen=[]):  # noqa: B006
        seen.append(1)
        log[:] = [len(seen)]

    action.__defaults__[0].clear()
    return action


@scene
def an_attribute_of_a_function(log):
    def action(loss):
        action.calls += 1
        log[:] = [action.calls]

    action.calls = 0
    return action


@scene
def a_write_through_a_dict(log):
    options = types.SimpleNamespace(flag=False)

    def action(loss):
        options.__dict__["flag"] = not options.flag
        return loss if options.flag else -loss

    return action


@scene
def a_weak_reference_callback(log):
    class Thing:
        pass

    def action(loss):
        thing = Thing()
        reference = weakref.ref(thing, lambda _: log.append("gone"))
        del thing
        return reference() is None and None

    return action


@scene
def a_finalizer(log):
    class Thing:
        def __del__(self):
            log.append("gone")

    def action(loss):
        Thing()

    return action


@scene
def exec_of_text(log):
    return lambda loss: exec("log.append(1)", {"log": log})


@scene
def globals_of_the_module(log):
    def action(loss):
        globals()["_CALLS"] = globals().get("_CALLS", 0) + 1
        log.append(1)

    return action


@scene
def an_exit_handler(log):
    def action(loss):
        def handler():
            pass

        atexit.register(handler)
        atexit.unregister(handler)
        log.append(1)

    return action


@scene
def a_module_that_counts(log):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            log[:] = [self.calls]
            return x * 2

    net = Net()
    return lambda loss: net(loss)


@scene
def a_module_that_alternates(log):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.flag = False

        def forward(self, x):
            self.flag = not self.flag
            return x * 2 if self.flag else x * 3

    net = Net()
    return lambda loss: net(loss)


@scene
def a_hook_that_logs(log):
    net = nn.Linear(1, 1)
    net.register_forward_hook(lambda module, args, out: log.append("forward"))
    return lambda loss: net(loss.detach().view(1))


@scene
def a_tensor_hook_that_counts(log):
    weight = torch.ones(2, requires_grad=True)
    weight.register_hook(lambda g: log.append("grad"))
    return lambda loss: (weight * loss.detach()).sum().backward()


@scene
def train_and_eval(log):
    net = nn.Dropout(0.0)

    def action(loss):
        net.train(not net.training)
        log.append(net.training)
        return net(loss)

    return action


@scene
def the_result_of_an_earlier_call(log):
    earlier = [None]

    def action(loss):
        before, earlier[0] = earlier[0], loss.detach() * 2
        return before

    return action


@scene
def identities(log):
    return lambda loss: loss * 2 if id(loss) % 32 < 64 else loss


@scene
def a_warning_of_an_operator(log):
    def action(loss):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            torch.nn.functional.mse_loss(loss.view(1, 1).expand(2, 1), torch.zeros(2))
        log.append(len(seen))

    return action


@scene
def an_operator_that_warns(log):
    return lambda loss: torch.nn.functional.mse_loss(loss.detach().expand(2, 1), torch.zeros(2))


@pytest.mark.parametrize(("mode", "change_at"), WHEN)
@pytest.mark.parametrize("name", SCENES)
def test_effects_of_a_step(name: str, mode: str, change_at: int) -> None:
    compare(SCENES[name], mode, change_at)


def test_warnings_of_operators_go_on() -> None:
    step = torch.compile(
        lambda x: torch.nn.functional.mse_loss(x, torch.zeros(2)), mode="now"
    )
    for _ in range(6):
        with pytest.warns(UserWarning, match="target size"):
            step(torch.ones(2, 1))


@pytest.mark.parametrize("mode", ["now", "default"])
def test_whether_two_arguments_are_one(mode: str) -> None:
    def step(a, b):
        return a * 2 if a is b else a * 3

    fast = torch.compile(step, mode=mode)
    x, y = torch.ones(2), torch.ones(2)
    for pairs in ([(x, y)] * 5, [(x, x)] * 5, [(x, y)] * 2):
        for a, b in pairs:
            assert fast(a, b)[0] == step(a, b)[0]


@pytest.mark.parametrize("mode", ["now", "default"])
def test_whether_an_argument_is_a_tensor_outside(mode: str) -> None:
    known = torch.ones(2)

    def step(a):
        return a * 2 if a is known else a * 3

    fast = torch.compile(step, mode=mode)
    for x in [torch.ones(2) for _ in range(5)] + [known] * 3:
        assert fast(x)[0] == step(x)[0]
