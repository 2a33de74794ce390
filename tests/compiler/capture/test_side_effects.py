"""What a step does in Python: programs store what it stored, count, and let schedulers go on; a
step that does anything else keeps its Python, and says what."""

from __future__ import annotations

import random
import time
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch

CALLS = 7
LOG: list[torch.Tensor] = []
LAST: Any = None
COUNT = 0


class Meter:
    """An object of the user's."""

    total = 0

    def __init__(self) -> None:
        self.count, self.seen, self.history = 0, None, []

    def add(self) -> None:
        self.count += 1


class Slotted:
    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


METER = Meter()
SPACE = types.SimpleNamespace(count=0)


def trained(seed: int = 0) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    net = torch.nn.Linear(4, 2)
    return net, torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)


def told(step: Callable, *args: Any) -> str:
    """Calls it some times; the warning that it gives, or what it says of itself."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(CALLS):
            step(*args)
    return " ".join([*(str(warning.message) for warning in caught), step.explain()])


def runs(step: Any) -> int:
    return sum(program.calls for program in step._programs)


# -------------------------------------------------------------------------------- schedulers


@pytest.mark.parametrize("make", [
    lambda opt: torch.optim.lr_scheduler.StepLR(opt, 2, 0.5),
    lambda opt: torch.optim.lr_scheduler.OneCycleLR(opt, 0.1, total_steps=40),
    lambda opt: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, 3),
    lambda opt: torch.optim.lr_scheduler.SequentialLR(opt, [
        torch.optim.lr_scheduler.LinearLR(opt, 0.1, total_iters=3),
        torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)], [3]),
])
def test_schedulers_inside_of_the_step_go_on(make: Callable) -> None:
    results = []
    for compiled in (False, True):
        net, opt = trained()
        scheduler = make(opt)

        def step(x: torch.Tensor, net=net, opt=opt, scheduler=scheduler) -> torch.Tensor:
            opt.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            opt.step()
            scheduler.step()
            return loss

        run = torch.compile(step, mode="now") if compiled else step
        torch.manual_seed(1)
        losses = [run(torch.randn(3, 4)).item() for _ in range(12)]
        results.append((losses, opt.param_groups[0]["lr"], scheduler.state_dict()))
        if compiled:
            assert runs(run) >= 8
    (losses, rate, state), (others, other_rate, other_state) = results
    assert losses == pytest.approx(others, rel=1e-5)
    assert rate == other_rate
    plain = {key: value for key, value in state.items() if isinstance(value, (int, float))}
    assert plain == {key: other_state[key] for key in plain}


def test_a_scheduler_before_its_optimizer_leaves_the_step_eager() -> None:
    net, opt = trained()
    scheduler = torch.optim.lr_scheduler.ExponentialLR(opt, 0.5)

    @torch.compile(mode="now")
    def step(x: torch.Tensor) -> torch.Tensor:
        opt.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        scheduler.step()
        opt.step()
        return loss

    assert "scheduler steps before its optimizer" in told(step, torch.ones(3, 4))
    assert scheduler.last_epoch == CALLS


# ------------------------------------------------------------------------------ kept tensors


def test_tensors_appended_to_a_list_are_appended_by_programs() -> None:
    LOG.clear()

    @torch.compile(mode="now")
    def step(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        LOG.append(y.sum())
        LOG.extend([y, y + 1])
        return y

    for i in range(CALLS):
        step(torch.full((3,), float(i)))
    assert runs(step) == CALLS - 2
    assert len(LOG) == 3 * CALLS
    assert [entry.item() for entry in LOG[::3]] == [6.0 * i for i in range(CALLS)]
    assert [entry[0].item() for entry in LOG[2::3]] == [2.0 * i + 1 for i in range(CALLS)]


def test_tensors_put_into_names_attributes_and_dicts() -> None:
    meter, table, cell = Meter(), {}, None

    @torch.compile(mode="now")
    def step(x: torch.Tensor) -> torch.Tensor:
        nonlocal cell
        global LAST
        y = x + 1
        cell, LAST, meter.seen = y * 2, (y, {"more": y * 3}), y * 4
        table["five"] = y * 5
        return y

    for i in range(CALLS):
        step(torch.full((2,), float(i)))
    assert runs(step) >= CALLS - 4
    assert cell is not None
    assert LAST is not None
    values = [cell, LAST[0], LAST[1]["more"], meter.seen, table["five"]]
    assert [entry[0].item() for entry in values] == [CALLS * k for k in (2, 1, 3, 4, 5)]


def test_an_attribute_of_a_module() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.features = torch.nn.Linear(3, 3), None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.features = self.linear(x).tanh()
            return self.features.sum()

    net = Net()
    fast = torch.compile(net, mode="now")
    for i in range(CALLS):
        x = torch.full((2, 3), float(i))
        net.zero_grad()
        fast(x).backward()
        expected = net.linear(x).tanh()
        torch.testing.assert_close(net.features, expected)
        gradient = net.linear.weight.grad.clone()
        net.zero_grad()
        expected.sum().backward()
        torch.testing.assert_close(gradient, net.linear.weight.grad)
    assert runs(fast._compiled) >= 3


def test_what_is_kept_and_read_again_leaves_the_step_eager() -> None:
    state = {"h": torch.zeros(2)}

    @torch.compile(mode="now")
    def step(x: torch.Tensor) -> torch.Tensor:
        state["h"] = state["h"] * 0.5 + x
        return state["h"] * 2

    expected = torch.zeros(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(CALLS):
            y = step(torch.ones(2))
            expected = expected * 0.5 + 1
            torch.testing.assert_close(y, expected * 2)


# ---------------------------------------------------------------------------- other changes


def count_global(x: torch.Tensor) -> torch.Tensor:
    global COUNT
    COUNT += 1
    return x + 1


def count_attribute(x: torch.Tensor) -> torch.Tensor:
    METER.count += 1
    return x + 1


def count_by_method(x: torch.Tensor) -> torch.Tensor:
    METER.add()
    return x + 1


def count_of_class(x: torch.Tensor) -> torch.Tensor:
    Meter.total += 1
    return x + 1


def count_in_namespace(x: torch.Tensor) -> torch.Tensor:
    SPACE.count += 1
    return x + 1


def keep_a_number(x: torch.Tensor) -> torch.Tensor:
    METER.history.append(1.0)
    return x + 1


def on_function(x: torch.Tensor) -> torch.Tensor:
    on_function.calls = getattr(on_function, "calls", 0) + 1
    return x + 1


def take_away(x: torch.Tensor) -> torch.Tensor:
    if METER.history:
        METER.history.pop()
    return x + 1


COUNTED = [
    (count_global, lambda: COUNT), (count_attribute, lambda: METER.count),
    (count_by_method, lambda: METER.count), (count_in_namespace, lambda: SPACE.count),
    (keep_a_number, lambda: len(METER.history)),
    (on_function, lambda: getattr(on_function, "calls", 0)),
]


@pytest.mark.parametrize(("step", "count"), COUNTED)
def test_programs_count(step: Any, count: Callable) -> None:
    before = count()
    fast = torch.compile(step, mode="now", fullgraph=True)
    told(fast, torch.ones(2))
    assert count() - before == CALLS
    assert runs(fast) == CALLS - 2


@pytest.mark.parametrize(("step", "why", "count"), [
    (count_of_class, "runs code", lambda: Meter.total),
    (take_away, "list.pop writes to a list from outside the step", lambda: 20 - len(METER.history)),
])
def test_other_changes_keep_the_step_s_python(step: Any, why: str, count: Callable) -> None:
    if step is take_away:
        METER.history[:] = [0] * 20
    before = count()
    assert why in told(torch.compile(step, mode="now"), torch.ones(2))
    assert count() - before == CALLS


def test_a_counter_may_be_reset_and_become_another_type() -> None:
    METER.count = 0
    fast = torch.compile(count_attribute, mode="now")
    for value, after in ((0, 1), (5, 6), (0.5, 1.5), (True, 2)):
        for _ in range(4):
            METER.count = value
            fast(torch.ones(2))
            assert METER.count == after
            assert type(METER.count) is type(after)
    METER.count = "text"
    with pytest.raises(TypeError):
        fast(torch.ones(2))


def test_a_value_is_stored_on_each_call() -> None:
    """Even where it was there when the call was recorded."""
    meter = Meter()

    @torch.compile(mode="now", fullgraph=True)
    def step(x: torch.Tensor) -> torch.Tensor:
        meter.seen = True
        return x + 1

    for _ in range(CALLS):
        meter.seen = False
        step(torch.ones(2))
        assert meter.seen is True
    assert runs(step) > 0


def test_the_line_is_said() -> None:
    line = count_of_class.__code__.co_firstlineno + 1
    message = told(torch.compile(count_of_class, mode="now"), torch.ones(2))
    assert f"test_side_effects.py:{line})" in message


def test_counters_in_slots_closures_arguments_and_modules() -> None:
    slotted, calls, argument = Slotted(), 0, {"n": 0}

    def in_slots(x: torch.Tensor) -> torch.Tensor:
        slotted.count += 1
        return x + 1

    def in_closure(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return x + 1

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0
            self.register_buffer("mean", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x + 1

    class Average(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.mean = 0.5 * self.mean + x
            return x + 1

    net, average = Net(), Average()
    x = torch.ones(2)
    assert "writing Slotted.count runs code" in told(torch.compile(in_slots, mode="now"), x)
    for step in (in_closure, net):
        told(torch.compile(step, mode="now"), x)
    told(torch.compile(average, mode="now"), x)
    assert (slotted.count, calls, net.calls) == (CALLS, CALLS, CALLS)
    torch.testing.assert_close(average.mean, torch.full((2,), 2 - 0.5 ** (CALLS - 1)))
    assert argument == {"n": 0}


def test_a_learning_rate_set_by_hand_inside_of_the_step() -> None:
    net, opt = trained()

    def step(x: torch.Tensor) -> torch.Tensor:
        opt.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        opt.step()
        opt.param_groups[0]["lr"] *= 0.5
        return loss

    message = told(torch.compile(step, mode="now"), torch.ones(3, 4))
    assert "changes the settings of an optimizer" in message
    assert opt.param_groups[0]["lr"] == 0.01 * 0.5**CALLS


def test_a_number_that_is_another_at_each_call_is_not_frozen() -> None:
    @torch.compile(mode="now")
    def step(x: torch.Tensor) -> tuple:
        return x + 1, time.perf_counter()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = [step(torch.ones(2))[1] for _ in range(CALLS)]
    assert len(set(results)) == CALLS


def test_lists_and_dicts_of_the_step_itself_do_not_matter() -> None:
    @torch.compile(mode="now")
    def step(x: torch.Tensor) -> dict:
        parts: list[torch.Tensor] = []
        counts = {"n": 0}
        for k in range(3):
            parts.append(x * k)
            counts["n"] += 1
        return {"sum": sum(parts[1:], parts[0]), **counts}

    for _ in range(CALLS):
        assert step(torch.ones(2))["n"] == 3
    assert runs(step) >= 3


@pytest.mark.parametrize("change", [
    lambda batch: batch.update(y=batch["x"] * 2),
    lambda batch: batch["rest"].append(batch["x"] * 2),
    lambda batch: batch.pop("rest"),
])
def test_an_argument_that_the_step_changes_keeps_its_python(change: Callable) -> None:
    def step(batch: dict[str, Any]) -> torch.Tensor:
        change(batch)
        return batch["x"] + 1

    fast = torch.compile(step, mode="now")
    for i in range(5):
        actual, wanted = ({"x": torch.full((2,), float(i)), "rest": []} for _ in range(2))
        assert fast(actual).tolist() == step(wanted).tolist()
        assert str(actual) == str(wanted)
    assert "its Python runs on every call" in fast.explain()


GENERATOR = np.random.default_rng(0)
pythons = random.Random(0)
from_python = pythons.random


@pytest.mark.parametrize("draw", [
    lambda: random.random(), lambda: np.random.rand(), lambda: GENERATOR.random(), from_python,
    lambda: pythons.gauss(0, 1),
], ids=["random", "numpy", "Generator", "bound", "Random"])
def test_a_step_that_draws_numbers_of_pythons_stays_eager(draw: Callable) -> None:
    """Even where the draws of the first calls led to the same."""

    def step(x: torch.Tensor) -> torch.Tensor:
        return x if draw() < 2 else x * 2

    assert "its Python runs on every call" in told(torch.compile(step, mode="now"), torch.ones(2))


def test_generators_that_a_step_only_reaches_do_not_matter() -> None:
    def step(x: torch.Tensor, draw: bool = False) -> torch.Tensor:
        return x * GENERATOR.random() * random.random() if draw else x * 2

    fast = torch.compile(step, mode="now")
    for i in range(6):
        GENERATOR.random()
        random.random()
        assert fast(torch.full((2,), float(i))).tolist() == [2 * i] * 2
    assert runs(fast) >= 3
