"""Numbers that a step takes out of tensors: programs give them where they are only handed on."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn

NET: Any = None
OPTIMIZER: Any = None


def train(x: Any, y: Any) -> Any:
    OPTIMIZER.zero_grad()
    loss = (NET(x) - y).square().mean()
    loss.backward()
    OPTIMIZER.step()
    return loss


def returned(x: Any, y: Any) -> Any:
    return train(x, y).item()


def before_the_update(x: Any, y: Any) -> Any:
    OPTIMIZER.zero_grad()
    out = NET(x)
    loss = (out - y).square().mean()
    value = loss.item()
    weight = NET.weight.sum().item()
    loss.backward()
    OPTIMIZER.step()
    return {"loss": value, "right": ((out > y).sum().item(), weight), "y": out.detach()}


def with_arithmetic(x: Any, y: Any) -> Any:
    loss = train(x, y)
    right = (NET(x) > y).sum().item()
    return loss.item() * x.size(0), right / y.numel(), -right, 1 - right, (0.5 + right) * 2


def over_parts(x: Any, y: Any) -> Any:
    total, count = 0.0, 0
    for a, b in zip(x.chunk(2), y.chunk(2), strict=True):
        total += train(a, b).item()
        count += len(a)
    return total / count


def of_what_changes_later(x: Any, y: Any) -> Any:
    total = train(x, y).detach().clone()
    first = total.item()
    total += 1
    return first, total.item()


def nothing_else(x: Any, y: Any) -> Any:
    loss = train(x, y)
    loss.item()
    return loss


def as_floats(x: Any, y: Any) -> Any:
    loss = train(x, y)
    value = float(loss)
    return {"loss": value, "sums": (float(x.sum()), loss.item())}


def float_with_arithmetic(x: Any, y: Any) -> Any:
    return float(train(x, y)) * 2


def through_a_function(x: Any, y: Any) -> Any:
    def scaled(value: float) -> float:
        return value * 2

    return [scaled(part.item()) for part in train(x, y).expand(3)], len(x)


def rounded(x: Any, y: Any) -> Any:
    return round(train(x, y).item(), 3)


def through_functions_of_python(x: Any, y: Any) -> Any:
    loss, low = train(x, y).item(), x.min().item()
    return abs(low), min(loss, 0.25, low), max(loss, 1), max([low, loss]), round(-loss, 2) * 3


def joined(x: Any, y: Any) -> Any:
    loss = train(x, y).item()
    pair, tail, first, last = (loss, 2), (1, "x"), [0.0], [loss]
    return pair + tail, first + last, {"a": 1, "b": 2} | {"b": loss}


HANDED_ON = [returned, as_floats, before_the_update, with_arithmetic, over_parts,
             of_what_changes_later, nothing_else, float_with_arithmetic, through_a_function,
             rounded, through_functions_of_python, joined]


def is_finite(x: Any, y: Any) -> Any:
    value = train(x, y).item()
    return value if math.isfinite(value) else 0.0


def branches(x: Any, y: Any) -> Any:
    value = train(x, y).item()
    if value > 1e9:
        return 0.0
    return value


def as_a_truth(x: Any, y: Any) -> Any:
    value = train(x, y).item()
    return 1 if value else 2


def into_text(x: Any, y: Any) -> Any:
    return f"{train(x, y).item():.3f}"


def rounded_to_an_integer(x: Any, y: Any) -> Any:
    return round(train(x, y).item())


def as_a_divisor(x: Any, y: Any) -> Any:
    return 1 / train(x, y).item()


def with_a_tensor(x: Any, y: Any) -> Any:
    loss = train(x, y)
    return loss * loss.item()


def with_a_tensor_before(x: Any, y: Any) -> Any:
    loss = train(x, y)
    total = torch.zeros(())
    total += loss.item()
    return total, x.sum() - loss.item(), loss.item() / x.sum()


def with_numpy(x: Any, y: Any) -> Any:
    return np.float64(2) * train(x, y).item()


def as_a_key(x: Any, y: Any) -> Any:
    return {train(x, y).item(): 1}


def through_a_closure(x: Any, y: Any) -> Any:
    value = train(x, y).item()

    def big() -> bool:
        return value > 0.5

    return value, big()


def through_locals(x: Any, y: Any) -> Any:
    value = train(x, y).item()
    return dict(locals())["value"] * 2, value


USED = [is_finite, branches, as_a_truth, into_text, rounded_to_an_integer, as_a_divisor,
        with_a_tensor, with_a_tensor_before, with_numpy, as_a_key,
        through_a_closure, through_locals]


def results(step: Callable, calls: int = 8) -> list[Any]:
    global NET, OPTIMIZER
    torch.manual_seed(0)
    NET = nn.Linear(6, 3)
    OPTIMIZER = torch.optim.SGD(NET.parameters(), lr=0.05)
    return [step(torch.randn(4, 6), torch.randn(4, 3)) for _ in range(calls)]


def same(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    if isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for first, second in zip(a, b, strict=True):
            same(first, second)
    elif isinstance(a, dict):
        same(list(a), list(b))
        same(list(a.values()), list(b.values()))
    elif isinstance(a, torch.Tensor):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)
    elif isinstance(a, str) or a is None:
        assert a == b
    else:
        assert a == pytest.approx(b, rel=1e-5)


@pytest.mark.parametrize("step", HANDED_ON, ids=lambda f: f.__name__)
def test_what_is_handed_on_is_compiled(step: Callable) -> None:
    compiled = torch.compile(step, mode="now", fullgraph=True)
    same(results(compiled), results(step))
    assert len(compiled._programs) == 1


@pytest.mark.parametrize("step", USED, ids=lambda f: f.__name__)
def test_what_is_looked_at_keeps_its_python(step: Callable) -> None:
    """With the values of eager mode in every call, the recorded ones too."""
    compiled = torch.compile(step, mode="now")
    same(results(compiled), results(step))
    assert not compiled._programs
    told = compiled.explain()
    assert "its Python runs on every call, because" in told
    assert f"{__file__}:" in told


def test_methods_and_decorators() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.net = nn.Linear(6, 3)

        @torch.compile(mode="now", fullgraph=True)
        def evaluate(self, x: Any) -> float:
            with torch.no_grad():
                return self.net(x).mean().item()

    trainer = Trainer()
    for _ in range(5):
        x = torch.randn(4, 6)
        assert trainer.evaluate(x) == pytest.approx(trainer.net(x).mean().item(), rel=1e-5)


def test_numbers_are_handed_on_where_there_is_no_source() -> None:
    space: dict[str, Any] = {}
    exec("def step(x):\n    return x.sum().item()", space)
    step = torch.compile(space["step"], mode="now")
    for _ in range(5):
        assert step(torch.ones(3)) == 3
    assert step._programs


# ------------------------------------------------------------------- put where Python keeps it

LOSSES: list[Any] = []
TOTAL = 0.0


class Meter:
    """Keeps numbers in all the ways."""

    def __init__(self) -> None:
        self.total, self.count, self.last = 0.0, 0, None
        self.history: dict[str, list[float]] = {"loss": []}
        self.sums = {"loss": 0.0}

    def added(self, x: Any, y: Any) -> Any:
        loss = train(x, y)
        self.total += loss.item() * x.size(0)
        self.count += (NET(x) > y).sum().item()
        return loss

    def noted(self, x: Any, y: Any) -> Any:
        loss = train(x, y)
        value = loss.item()
        self.last = value
        return loss, value

    def appended(self, x: Any, y: Any) -> Any:
        loss = train(x, y)
        self.history["loss"].append(loss.item())
        return loss

    def in_a_dict(self, x: Any, y: Any) -> Any:
        self.sums["loss"] += train(x, y).item()

    def twice(self, x: Any, y: Any) -> Any:
        for a, b in zip(x.chunk(2), y.chunk(2), strict=True):
            self.total += train(a, b).item()

    def average(self) -> float:
        return self.total / max(self.count, 1)

    def looked_at(self, x: Any, y: Any) -> Any:
        self.total += train(x, y).item()
        return x * 2 if self.total > 3 else x

    def looked_at_elsewhere(self, x: Any, y: Any) -> Any:
        self.total += train(x, y).item()
        return x * self.average()

    def of_two_minds(self, x: Any, y: Any) -> Any:
        value = train(x, y).item()
        self.total += value
        self.last = value

    def state(self) -> Any:
        return self.total, self.count, self.last, self.history, self.sums


def into_a_list(x: Any, y: Any) -> Any:
    loss = train(x, y)
    LOSSES.append(loss.item())
    return loss


def into_a_global(x: Any, y: Any) -> Any:
    global TOTAL
    TOTAL += train(x, y).item()


@pytest.mark.parametrize("name", ["added", "noted", "appended", "in_a_dict", "twice",
                                  "of_two_minds"])
def test_numbers_are_put_where_the_step_puts_them(name: str) -> None:
    first, second = Meter(), Meter()
    compiled = torch.compile(getattr(first, name), mode="now", fullgraph=True)
    same(results(compiled), results(getattr(second, name)))
    same(first.state(), second.state())
    assert len(compiled._programs) == 1
    assert compiled._programs[0].calls == 6


@pytest.mark.parametrize("name", ["looked_at", "looked_at_elsewhere"])
def test_numbers_that_the_step_looks_at_again_keep_its_python(name: str) -> None:
    first, second = Meter(), Meter()
    compiled = torch.compile(getattr(first, name), mode="now")
    actual = results(compiled)
    assert "its Python runs on every call" in compiled.explain()
    same(actual, results(getattr(second, name)))
    same(first.state(), second.state())
    assert not compiled._programs


def test_lists_and_names_outside() -> None:
    global TOTAL
    compiled = torch.compile(into_a_list, mode="now", fullgraph=True)
    results(compiled)
    losses = LOSSES.copy()
    LOSSES.clear()
    results(into_a_list)
    same(losses, LOSSES)
    compiled = torch.compile(into_a_global, mode="now", fullgraph=True)
    TOTAL = 0.0
    results(compiled)
    losses, TOTAL = TOTAL, 0.0
    results(into_a_global)
    assert losses == pytest.approx(TOTAL)
    assert compiled._programs


def test_numbers_in_an_object_of_a_library_s_class() -> None:
    namespace = argparse.Namespace(total=0.0)

    def step(x: Any, y: Any) -> None:
        namespace.total += train(x, y).item()

    compiled = torch.compile(step, mode="now")
    results(compiled)
    total, namespace.total = namespace.total, 0.0
    results(step)
    assert total == pytest.approx(namespace.total)
    assert compiled._programs


def test_an_error_after_a_number_leaves_plain_numbers() -> None:
    class Sums:
        total = 0.0
        fails = False

    sums = Sums()
    sums.total = 0.0

    def step(x: Any) -> None:
        sums.total += x.sum().item()
        if sums.fails:
            raise KeyError

    compiled = torch.compile(step, mode="now")
    compiled(torch.ones(3))
    sums.fails = True
    with pytest.raises(KeyError):
        compiled(torch.ones(3))
    assert type(sums.total) is float
    assert sums.total == 6


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("follow", [False, True])
def test_a_division_by_zero_stops_where_the_eager_step_stops(follow):
    def observe(options):
        weight, log = torch.ones(2, requires_grad=True), []
        optimizer = torch.optim.SGD([weight], lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = (x * weight).sum()
            log.append(1.0 / loss.item())
            loss.backward()
            optimizer.step()

        run = step if options is None else torch.compile(step, options={"mode": "now", **options})
        for call in range(6):
            try:
                run(torch.zeros(2) if call == 4 else torch.ones(2))
            except ZeroDivisionError:
                log.append((weight.tolist(), weight.grad))
        return log

    assert observe({"follow": follow})[4:5] == observe(None)[4:5]
