"""Steps that use objects of the interpreter and the standard library, which change in between."""

from __future__ import annotations

import array
import collections
import contextvars
import ctypes
import enum
import functools
import logging
import mmap
import operator
import random
import signal
import string
import struct
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn

from .scenario import Scene, collect

SCENES: dict[str, Callable[[], Scene]] = {}
scene = collect(SCENES)


@scene
def memory_of_other_libraries() -> Scene:
    number, floats = ctypes.c_double(1.0), array.array("d", [1.0, 2.0])
    pages, packed = mmap.mmap(-1, 16), bytearray(struct.pack("<fi", 1.5, 2))
    view = memoryview(packed)

    def step(x: Any) -> Any:
        a, n = struct.unpack("<fi", packed)
        return x * number.value + floats[0] + pages[0] + a * n + view[0]

    def change() -> None:
        number.value, floats[0], pages[0] = 3.0, 7.0, 5
        struct.pack_into("<f", packed, 0, 4.0)

    return Scene(step, change)


@scene
def numbers_of_other_classes() -> Scene:
    config = types.SimpleNamespace(d=Decimal("1.1"), f=Fraction(1, 3), t=datetime(2020, 1, 1))

    def step(x: Any) -> Any:
        return x * float(config.d / 3) + float(config.f) * config.f.numerator + config.t.day

    def change() -> None:
        config.d += 1
        config.f += Fraction(1, 6)
        config.t += timedelta(days=1)

    return Scene(step, change)


@scene
def equal_numbers_of_other_kinds() -> Scene:
    config = types.SimpleNamespace(k=1)

    def step(x: Any) -> Any:
        return torch.arange(3) + config.k, x * config.k

    return Scene(step, lambda: setattr(config, "k", True))


@scene
def a_zero_that_becomes_negative() -> Scene:
    config = types.SimpleNamespace(k=0.0)
    return Scene(lambda x: 1 / (x.abs() * config.k), lambda: setattr(config, "k", -0.0))


@scene
def a_text_that_equals_everything() -> Scene:
    class Any_(str):
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            return True

    config = types.SimpleNamespace(kind="a")
    return Scene(lambda x: x * 2 if config.kind == "b" else x,
                 lambda: setattr(config, "kind", Any_("a")))


@scene
def single_dispatch() -> Scene:
    @functools.singledispatch
    def scale(value: Any) -> float:
        return 1.0

    scale.register(int, lambda value: 2.0)
    return Scene(lambda x: x * scale(3) + scale("a"),
                 lambda: scale.register(str, lambda value: 5.0) and None)


@scene
def structural_patterns() -> Scene:
    batch: dict[str, Any] = {"kind": "a", "scale": 2}

    def step(x: Any) -> Any:
        match batch:
            case {"kind": "a", "scale": scale}:
                return x * scale
            case {"parts": [first, *rest]}:
                return x * first + len(rest)
        return x

    def change() -> None:
        batch.clear()
        batch["parts"] = [3, 4, 5]

    return Scene(step, change)


@scene
def groups_of_exceptions() -> Scene:
    calls: list[int] = []

    def step(x: Any) -> Any:
        calls.append(len(calls))
        try:
            if len(calls) % 3 == 0:
                raise ExceptionGroup("two", [ValueError(1), TypeError(2)])
            return x
        except* ValueError:
            x = x * 2
        except* TypeError:
            x = x + 1
        return x

    return Scene(step, calls.clear, log=[calls])


@scene
def a_generator_that_is_sent_to_and_thrown_into() -> Scene:
    def average() -> Iterator[float]:
        total = count = 0
        while True:
            try:
                value = yield total / count if count else 0.0
            except ValueError:
                total = count = 0
                continue
            total, count = total + value, count + 1

    running = average()
    next(running)
    sent = [1.0]

    def step(x: Any) -> Any:
        return x * running.send(sent[0])

    def change() -> None:
        running.throw(ValueError)
        sent[0] = 4.0

    return Scene(step, change)


@scene
def a_context_variable_that_is_set() -> Scene:
    variable = contextvars.ContextVar("variable", default=1.0)

    def step(x: Any) -> Any:
        token = variable.set(variable.get() + 1)
        y = x * variable.get()
        if variable.get() > 4:
            variable.reset(token)
        return y

    return Scene(step, lambda: variable.set(0.5) and None)


@scene
def a_signal_handler() -> Scene:
    received: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: received.append(number))

    def step(x: Any) -> Any:
        signal.raise_signal(signal.SIGUSR1)
        return x * len(received)

    def change() -> Any:
        received.clear()
        return types.MethodType(lambda self: signal.signal(signal.SIGUSR1, before), received)

    return Scene(step, change, log=[received])


@scene
def levels_of_a_logger() -> Scene:
    records: list[tuple] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append((record.funcName, record.getMessage(), record.levelname))

    logger = logging.Logger("scene", logging.INFO)
    logger.addHandler(Handler())

    def step(x: Any) -> Any:
        logger.info("step %d", len(records))
        logger.debug("detail")
        return x * 2

    return Scene(step, lambda: logger.setLevel(logging.DEBUG), log=[records])


@scene
def a_flag_and_a_template() -> Scene:
    class Kind(enum.Flag):
        A = 1
        B = 2

    config = types.SimpleNamespace(kind=Kind.A, text=string.Template("$a"), a="3")

    def step(x: Any) -> Any:
        scale = int(config.text.substitute(a=config.a))
        return x * scale if Kind.B in config.kind else x + config.kind.value

    def change() -> None:
        config.kind |= Kind.B
        config.text.template = "1$a"

    return Scene(step, change)


@scene
def a_getter_of_dotted_names() -> Scene:
    config = types.SimpleNamespace(opt=types.SimpleNamespace(lr=1.0))
    get = operator.attrgetter("opt.lr")
    return Scene(lambda x: x * get(config), lambda: setattr(config.opt, "lr", 2.0))


@scene
def local_variables_as_a_dict() -> Scene:
    config = types.SimpleNamespace(k=2.0)

    def step(x: Any) -> Any:
        scale = config.k
        first = locals()
        y = x * scale
        second = vars()
        return y * len(first), sorted(first), first is second

    return Scene(step, lambda: setattr(config, "k", 3.0))


@scene
def local_variables_of_a_function_that_the_step_calls() -> Scene:
    def scale(x: Any) -> Any:
        variables = vars()
        y = x * len(variables)
        return y + len(vars(types.SimpleNamespace(a=1)))

    return Scene(lambda x: scale(x) * 2)


@scene
def an_object_that_a_function_named_apply_deletes() -> Scene:
    class Part:
        pass

    def apply(x: Any) -> Any:
        part = Part()
        reference = weakref.ref(part)
        y = x * 2
        del part
        return y + 1, reference() is None

    return Scene(apply)


@scene
def weak_keys() -> Scene:
    class Key:
        pass

    keys = [Key(), Key()]
    weights = weakref.WeakKeyDictionary({key: i + 1.0 for i, key in enumerate(keys)})
    return Scene(lambda x: x * sum(weights.values()) * len(weights), lambda: keys.pop() and None)


@scene
def one_value_for_each_thread() -> Scene:
    local, seen = threading.local(), []
    local.scale = 2.0

    def step(x: Any) -> Any:
        def work() -> None:
            seen.append(getattr(local, "scale", 0.0))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return x * local.scale + seen[-1]

    return Scene(step, lambda: setattr(local, "scale", 3.0), log=[seen])


@scene
def experience_that_is_sampled() -> Scene:
    memory: collections.deque = collections.deque(maxlen=6)
    net, dice = nn.Linear(3, 1), random.Random(1)
    opt = torch.optim.SGD(net.parameters(), 0.1)

    def step(state: Any) -> Any:
        memory.append((state[0], float(len(memory))))
        if len(memory) < 3:
            return None
        batch = dice.sample(list(memory), 2)
        x, y = torch.stack([s for s, _ in batch]), torch.tensor([[r] for _, r in batch])
        opt.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    return Scene(step, memory.clear, state=[*net.parameters()])


@scene
def updates_within_backward() -> Scene:
    net, order = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)), []
    updates = {p: torch.optim.SGD([p], 0.1) for p in net.parameters()}

    def update(p: Any) -> None:
        updates[p].step()
        updates[p].zero_grad()
        order.append(len(p))

    handles = [p.register_post_accumulate_grad_hook(update) for p in net.parameters()]

    def step(x: Any) -> Any:
        loss = net(x).pow(2).mean()
        loss.backward()
        return loss.detach()

    return Scene(step, lambda: handles[0].remove(), state=[*net.parameters()], log=[order])
