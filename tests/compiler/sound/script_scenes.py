"""Idioms of real training scripts: the Python around a step's mathematics."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import functools
import io
import itertools
import random
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn

from .followed_scenes import data, training
from .loop_scenes import SCENES, descend, scene, scene_around
from .scenario import Scene

__all__ = ["SCENES"]

@scene
def a_progress_bar() -> Scene:
    class Bar:
        def __init__(self, items: Any, file: Any) -> None:
            self.items, self.file, self.n, self.start = items, file, 0, time.perf_counter()

        def __iter__(self) -> Iterator[Any]:
            for item in self.items:
                yield item
                self.n += 1
                self.file.write(f"\r{self.n}/{len(self.items)}")

        def set_postfix(self, **values: Any) -> None:
            self.file.write(str(values))

    net, opt = training()
    file = io.StringIO()

    def step(x: Any, y: Any) -> Any:
        bar = Bar(range(2), file)
        for _ in bar:
            loss = descend(net, opt, x, y)
            bar.set_postfix(loss=f"{loss.item():.3f}")
        return loss, len(file.getvalue())

    return Scene(step, arguments=data, state=[*net.parameters()])


@scene
def a_profiler_around_it() -> Scene:
    spans: list[str] = []

    @contextlib.contextmanager
    def span(name: str) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            spans.append(f"{name} {time.perf_counter() >= begun}")

    net, opt = training()

    def step(x: Any, y: Any) -> Any:
        with span("forward"), torch.autograd.profiler.record_function("forward"):
            loss = F.cross_entropy(net(x), y)
        with span("backward"):
            opt.zero_grad()
            loss.backward()
        with span("update"):
            opt.step()
        return loss

    return Scene(step, arguments=data, state=[*net.parameters()], log=spans)


@scene
def a_config_that_is_mutated() -> Scene:
    @dataclasses.dataclass
    class Config:
        scale: float = 1.0
        steps: int = 0
        names: list[str] = dataclasses.field(default_factory=list)

    config = Config()

    def act(loss: Any, net: Any, opt: Any) -> Any:
        config.steps += 1
        if config.steps % 4 == 0:
            config.names.append(f"step {config.steps}")
            config.scale *= 0.5
        return loss * config.scale

    return scene_around(act, log=config.names, change=lambda: setattr(config, "scale", 3.0))


@scene
def a_partial_and_a_dispatch() -> Scene:
    @functools.singledispatch
    def reduce(x: Any) -> Any:
        return x

    @reduce.register
    def _(x: torch.Tensor) -> Any:
        return x.mean()

    @reduce.register
    def _(x: list) -> Any:
        return sum(map(reduce, x))

    scaled = functools.partial(torch.mul, 2.0)
    log: list[Any] = []

    def step(x: Any) -> Any:
        result = reduce([scaled(x), x * x])
        log.append(float(result))
        return result

    def change() -> None:
        reduce.register(torch.Tensor, lambda x: x.sum())

    return Scene(step, change, log=log)


@scene
def a_closure_that_is_bound_anew() -> Scene:
    scale, log = 1.0, []

    def enlarge() -> None:
        nonlocal scale
        scale += 1
        log.append(scale)

    calls = itertools.count()

    def step(x: Any) -> Any:
        y = x * scale
        if next(calls) % 4 == 3:
            enlarge()
        return y

    return Scene(step, enlarge, log=log)


@scene
def an_error_that_is_caught_and_retried() -> Scene:
    net, opt = training()
    calls = itertools.count()
    log: list[Any] = []

    def attempt(x: Any, y: Any) -> Any:
        loss = descend(net, opt, x, y)
        if next(calls) % 3 == 2:
            raise MemoryError("out of memory")
        return loss

    def step(x: Any, y: Any) -> Any:
        try:
            return attempt(x, y)
        except MemoryError as error:
            log.append(str(error))
            opt.zero_grad()
            return attempt(x[:2], y[:2])

    return Scene(step, arguments=data, state=[*net.parameters()], log=log)


@scene
def an_error_of_an_operator_in_the_middle() -> Scene:
    net, opt = training()
    calls = itertools.count()

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        if next(calls) % 4 == 3:
            net(x[:, :2])
        opt.step()
        return loss

    return Scene(step, arguments=data, state=[*net.parameters()])


@scene
def a_thread_that_logs() -> Scene:
    log: list[Any] = []

    def act(loss: Any, net: Any, opt: Any) -> None:
        value = loss.detach()
        thread = threading.Thread(target=lambda: log.append(round(float(value * 2), 4)))
        thread.start()
        thread.join()

    return scene_around(act, log=log)


@scene
def a_context_variable_with_the_step() -> Scene:
    number: Any = contextvars.ContextVar("number", default=0)
    log: list[Any] = []

    def act(loss: Any, net: Any, opt: Any) -> None:
        token = number.set(number.get() + 1)
        log.append(number.get())
        if log[-1] % 3 == 0:
            number.reset(token)

    return scene_around(act, log=log)


@scene
def tensors_that_die() -> Scene:
    log: list[Any] = []

    def act(loss: Any, net: Any, opt: Any) -> None:
        twice = loss * 2
        reference = weakref.ref(twice)
        del twice
        log.append(reference() is None)

    return scene_around(act, log=log)


@scene
def activations_from_a_hook() -> Scene:
    seen: dict[str, Any] = {}
    log: list[Any] = []
    net, opt = training()
    net[0].register_forward_hook(lambda m, i, o: seen.__setitem__("hidden", o.detach()))

    def step(x: Any, y: Any) -> Any:
        loss = descend(net, opt, x, y)
        log.append(seen["hidden"].shape)
        return loss, seen["hidden"].abs().mean()

    return Scene(step, arguments=data, state=[*net.parameters()], log=log)


@scene
def a_replay_buffer() -> Scene:
    memory: list[Any] = []
    chance = random.Random(2)
    net, opt = training()

    def step(x: Any, y: Any) -> Any:
        memory.extend(zip(x, y, strict=True))
        del memory[:-12]
        rows, labels = zip(*chance.sample(memory, 4), strict=True)
        return descend(net, opt, torch.stack(rows), torch.stack(labels))

    return Scene(step, arguments=data, state=[*net.parameters()])


@scene
def truncated_backpropagation() -> Scene:
    cell = nn.LSTMCell(3, 4)
    opt = torch.optim.SGD(cell.parameters(), lr=0.1)
    carried: list[Any] = [None]
    calls = itertools.count(1)

    def step(x: Any) -> Any:
        if carried[0] is None or next(calls) % 5 == 0:
            carried[0] = torch.zeros(4, 4), torch.zeros(4, 4)
        h, c = cell(x, carried[0])
        loss = h.square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        carried[0] = h.detach(), c.detach()
        return loss

    return Scene(step, state=[*cell.parameters()], log=carried)


@scene
def text_of_the_step() -> Scene:
    log: list[Any] = []

    def act(loss: Any, net: Any, opt: Any) -> None:
        log.append(f"{loss:.3f} {loss!r} {net[0].weight.dtype} {tuple(net[0].weight.shape)} "
                   f"{loss.grad_fn.name() if loss.grad_fn else None}")

    return scene_around(act, log=log)


@scene
def samples_by_multinomial() -> Scene:
    w = torch.randn(3, 6)

    def step(x: Any) -> Any:
        tokens = torch.zeros(4, 0, dtype=torch.long)
        for _ in range(3):
            logits = x @ w + tokens.float().sum(1, keepdim=True)
            token = torch.multinomial(logits.softmax(-1), 1)
            tokens = torch.cat([tokens, token], 1)
        return tokens

    return Scene(step)
