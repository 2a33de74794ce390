"""Functions that a context of the library decorates: steps that call them are proved, and what the
decorated functions read and change counts as in any function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn

DECORATORS: dict[str, Callable[[], Any]] = {
    "no_grad": lambda: torch.no_grad(),
    "no_grad without a call": lambda: torch.no_grad,
    "enable_grad": lambda: torch.enable_grad(),
    "inference_mode": lambda: torch.inference_mode(),
    "set_grad_enabled": lambda: torch.set_grad_enabled(False),
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "record_function": lambda: torch.profiler.record_function("part"),
    "two of them": lambda: lambda f: torch.no_grad()(torch.autocast("cpu")(f)),
}


class Ema:
    """A moving average of parameters, as programs write it."""

    def __init__(self, net: nn.Module) -> None:
        self.decay, self.updates = 0.5, 0
        self.means = [p.detach().clone() for p in net.parameters()]

    @torch.no_grad()
    def update(self, net: nn.Module) -> None:
        self.updates += 1
        for mean, p in zip(self.means, net.parameters(), strict=True):
            mean.mul_(self.decay).add_(p, alpha=1 - self.decay)


def _run(step: Callable, change: Callable[[], Any] | None, is_compiled: bool) -> list[Any]:
    call = torch.compile(step, options={"mode": "now"}) if is_compiled else step
    values = []
    for i in range(12):
        if i == 7 and change is not None:
            change()
        values.append([x.tolist() if isinstance(x, torch.Tensor) else x for x in call()])
    if is_compiled and change is None:
        assert "proved harmless" in call.explain(), call.explain()
    return values


def _compare(build: Callable[[], tuple[Callable, Callable | None]]) -> None:
    eager, compiled = (_run(*build(), is_compiled) for is_compiled in (False, True))
    assert eager == compiled


@pytest.mark.parametrize("name", DECORATORS)
@pytest.mark.parametrize("takes_tensors", [False, True])
def test_a_step_that_calls_a_decorated_function_is_proved(name: str, takes_tensors: bool) -> None:
    def build() -> tuple[Callable, None]:
        total, w = torch.zeros(3), torch.ones(3, requires_grad=True)

        @DECORATORS[name]()
        def add(x: Any = None) -> None:
            y = (w if x is None else x) * 2
            total.add_(y.detach(), alpha=2 if y.requires_grad else 1)

        def step() -> Any:
            add(w) if takes_tensors else add()
            return (w * total).sum(), total.clone()

        return step, None

    _compare(build)


def test_a_moving_average_is_proved_and_counts() -> None:
    averages = []

    def build() -> tuple[Callable, None]:
        torch.manual_seed(0)
        net = nn.Linear(3, 2)
        optimizer, ema, x = torch.optim.SGD(net.parameters(), 0.1), Ema(net), torch.ones(4, 3)
        averages.append(ema)

        def step() -> Any:
            optimizer.zero_grad()
            net(x).square().sum().backward()
            nn.utils.clip_grad_value_(net.parameters(), 0.5)
            optimizer.step()
            ema.update(net)
            return tuple(mean.clone() for mean in ema.means)

        return step, None

    _compare(build)
    assert [ema.updates for ema in averages] == [12, 12]


def _change_a_global_of_the_function() -> tuple[Callable, Callable]:
    rates = [2.0]

    @torch.no_grad()
    def scale(x: torch.Tensor) -> torch.Tensor:
        return x * rates[0]

    return lambda: (scale(torch.ones(2)),), lambda: rates.__setitem__(0, 5.0)


def _change_the_mode_of_the_context() -> tuple[Callable, Callable]:
    context = torch.set_grad_enabled(False)
    w = torch.ones(2, requires_grad=True)

    @context
    def scale() -> torch.Tensor:
        return w * 2

    return lambda: (scale().requires_grad,), lambda: setattr(context, "mode", True)


def _change_the_defaults_of_the_function() -> tuple[Callable, Callable]:
    def scale(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
        return x * by

    wrapper = torch.no_grad()(scale)
    return lambda: (wrapper(torch.ones(2)),), lambda: setattr(scale, "__defaults__", (7.0,))


def _change_the_code_of_the_function() -> tuple[Callable, Callable]:
    def scale(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def other(x: torch.Tensor) -> torch.Tensor:
        return x * 7

    wrapper = torch.inference_mode()(scale)
    return (lambda: (wrapper(torch.ones(2)),),
            lambda: setattr(scale, "__code__", other.__code__))


def _change_the_method_of_the_class() -> tuple[Callable, Callable]:
    class Scale:
        @torch.no_grad()
        def run(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    scale = Scale()
    return (lambda: (scale.run(torch.ones(2)),),
            lambda: setattr(Scale, "run", lambda self, x: x * 7))


def _count_in_a_context_of_the_program() -> tuple[Callable, Callable]:
    entered = []

    class Counting(torch.no_grad):
        def __enter__(self) -> None:
            entered.append(len(entered))
            super().__enter__()

    @Counting()
    def scale(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    return lambda: (scale(torch.ones(2)), len(entered)), lambda: entered.clear()


def _raise_and_suppress() -> tuple[Callable, Callable]:
    state = {"fails": False, "failures": 0}

    @torch.no_grad()
    def scale(x: torch.Tensor) -> torch.Tensor:
        if state["fails"]:
            raise ValueError
        return x * 2

    def step() -> Any:
        try:
            return (scale(torch.ones(2)), torch.is_grad_enabled())
        except ValueError:
            state["failures"] += 1
            return (state["failures"], torch.is_grad_enabled())

    return step, lambda: state.update(fails=True)


def _answer_by_state() -> tuple[Callable, Callable]:
    answers = [None]

    @torch.no_grad()
    def answer() -> Any:
        return answers[0]

    return lambda: (torch.ones(2), answer()), lambda: answers.__setitem__(0, 4)


CHANGES = [
    _change_a_global_of_the_function, _change_the_mode_of_the_context,
    _change_the_defaults_of_the_function, _change_the_code_of_the_function,
    _change_the_method_of_the_class, _count_in_a_context_of_the_program, _raise_and_suppress,
    _answer_by_state,
]


@pytest.mark.parametrize("build", CHANGES, ids=lambda f: f.__name__.strip("_").replace("_", " "))
def test_a_change_is_seen(build: Callable) -> None:
    _compare(build)
