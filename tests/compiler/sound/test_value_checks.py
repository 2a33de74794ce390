"""Checks of values that eager calls make: a compiled step makes them too, and where one fails the
call runs eagerly, from the state that the call before left.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F
from tests.compiler.sound.scenario import Scene, compare

distributions = torch.distributions


def _normal() -> Scene:
    """A scale that becomes negative, between two writes; draws before and after the check."""
    total, scale = torch.zeros(4), torch.ones(4)

    def step(x: torch.Tensor) -> tuple:
        total.add_(torch.rand(4))
        normal = distributions.Normal(x, scale)
        total.add_(1)
        return normal.rsample(), normal.log_prob(x + 1), torch.rand(2)

    return Scene(step, lambda: scale.neg_(), lambda: (torch.randn(4),), [total, scale])


def _sample_outside() -> Scene:
    """A value outside of a support, which another value of the step decides."""
    limit = torch.tensor(1.0)

    def step(x: torch.Tensor) -> torch.Tensor:
        return distributions.Uniform(torch.zeros(4), limit.expand(4)).log_prob(x.sigmoid())

    return Scene(step, lambda: limit.fill_(0.4), lambda: (torch.randn(4),), [limit])


def _binary() -> Scene:
    """Probabilities of a model whose last layer changes, with momentum."""
    net = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    scale = torch.ones(())

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.binary_cross_entropy(net(x).sigmoid() * scale, y)
        loss.backward()
        optimizer.step()
        return loss

    return Scene(step, lambda: scale.fill_(3.0),
                 lambda: (torch.randn(4, 3), torch.ones(4, 1)), [*net.parameters()])


def _index() -> Scene:
    """Indices that the step computes."""
    table = nn.Embedding(4, 3)
    optimizer = torch.optim.Adam(table.parameters())
    shift = torch.zeros((), dtype=torch.int64)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        scores = x.exp().log().tanh().sin().cos().softmax(1)
        for _ in range(40):
            scores = scores * 1.5
        loss = table(scores.argmax(1) + shift).pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss

    return Scene(step, lambda: shift.fill_(9), lambda: (torch.rand(5, 4) + 1,),
                 [*table.parameters()])


def _statistics() -> Scene:
    """Running statistics are written by what the check depends on."""
    norm, scale = nn.BatchNorm1d(3), torch.ones(3)

    def step(x: torch.Tensor) -> torch.Tensor:
        y = norm(x)
        return distributions.Normal(y, y.abs() * scale + 1).rsample().sum()

    return Scene(step, lambda: scale.fill_(-9.0), lambda: (torch.randn(4, 3),),
                 [*norm.parameters(), *norm.buffers(), scale])


def _gradient_outside() -> Scene:
    """The loss goes back outside of the step, so that there are two programs."""
    weight, scale, grads = torch.ones(3, requires_grad=True), torch.ones(3), []

    def step(x: torch.Tensor) -> torch.Tensor:
        return -distributions.Normal(weight, scale).log_prob(x).sum()

    def arguments() -> tuple:
        grads.append(None if weight.grad is None else weight.grad.clone())
        return (torch.randn(3),)

    return Scene(step, lambda: scale.neg_(), arguments, [weight], grads)


SCENES = [_normal, _sample_outside, _binary, _index, _statistics, _gradient_outside]


@pytest.mark.parametrize("make", SCENES)
def test_a_check_that_fails_leaves_what_eager_leaves(make):
    compare(make, "now", 4)


def test_programs_built_in_the_background_check_too():
    compare(_statistics, "default", 8)


def test_the_error_is_that_of_the_eager_call():
    step = torch.compile(lambda x: distributions.Normal(x, x).log_prob(x), mode="now",
                         backend="evaluate")
    for _ in range(3):
        step(torch.ones(2))
    with pytest.raises(ValueError, match="Expected parameter scale .* GreaterThan") as caught:
        step(-torch.ones(2))
    assert caught.value.__context__ is None


def test_the_python_of_a_step_with_checks_is_skipped():
    def step(x: torch.Tensor) -> torch.Tensor:
        return F.binary_cross_entropy(x, x)

    compiled = torch.compile(step, mode="now")
    for _ in range(4):
        compiled(torch.full((4,), 0.5))
    assert "Python is skipped" in compiled.explain()


def test_a_check_may_come_last():
    """Nothing is written after it: what a run has counted must not be taken for a whole run."""
    weight = torch.ones(2, requires_grad=True)
    weight.grad = torch.ones(2)

    def step(x: torch.Tensor) -> torch.Tensor:
        weight.grad = None
        return F.binary_cross_entropy(x, x)

    compiled = torch.compile(step, mode="now")
    for _ in range(4):
        weight.grad = torch.ones(2)
        compiled(torch.full((4,), 0.5))
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        compiled(torch.full((4,), 2.0))
    assert weight.grad is None


def test_draws_go_back_to_where_the_call_began():
    scale = torch.ones(2)

    def step() -> torch.Tensor:
        first = torch.rand(2)
        return first + distributions.Normal(torch.zeros(2), scale).rsample()

    def numbers(step) -> np.ndarray:
        scale.fill_(1)
        torch.manual_seed(3)
        for _ in range(4):
            step()
        scale.fill_(-1)
        with pytest.raises(ValueError, match="scale"):
            step()
        return torch.rand(3).numpy()

    np.testing.assert_array_equal(numbers(torch.compile(step, mode="now")), numbers(step))


def _follow(make) -> Scene:
    """A scene whose Python runs on every call, and logs what it has reached."""
    scene = make()
    inner = scene.step

    def step(*args: torch.Tensor) -> torch.Tensor:
        scene.log.append("begin")
        result = inner(*args)
        scene.log.append("end")
        return result

    return Scene(step, scene.change, scene.arguments, scene.state, scene.log)


def _label() -> Scene:
    """A label from outside, in a step that has more to do behind the loss."""
    net, labels = nn.Linear(3, 4), torch.tensor([0, 1, 3])
    optimizer = torch.optim.Adam(net.parameters())

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(net(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return Scene(step, lambda: labels.fill_(7), lambda: (torch.randn(3, 3),), [*net.parameters()])


def _rows() -> Scene:
    table, index, total = nn.Embedding(4, 3), torch.tensor([0, 3]), torch.zeros(2, 3)

    def step(x: torch.Tensor) -> torch.Tensor:
        total.add_(1)
        y = table(index).gather(1, index[:, None]) * x
        total.add_(y)
        return y

    return Scene(step, lambda: index.fill_(4), lambda: (torch.ones(()),), [total])


def _sequences() -> Scene:
    """Labels and lengths of sequences, of which the step finds out more than their range."""
    net, labels, lengths = nn.Linear(3, 4), torch.tensor([[1, 2], [3, 1]]), torch.tensor([2, 1])

    def step(x: torch.Tensor) -> torch.Tensor:
        scores = net(x).log_softmax(2)
        loss = F.ctc_loss(scores, labels, (5, 5), lengths)
        with torch.no_grad():
            net.bias.add_(loss)
        return loss

    return Scene(step, lambda: labels.fill_(7), lambda: (torch.randn(5, 2, 3),),
                 [*net.parameters()])


def _lengths() -> Scene:
    scene, lengths = _sequences(), torch.tensor([5, 5])
    scores = torch.zeros(5, 2, 4).log_softmax(2)

    def step(x: torch.Tensor) -> torch.Tensor:
        return F.ctc_loss(scores, torch.tensor([[1, 2], [3, 1]]), lengths, (2, 1)) + x.sum()

    return Scene(step, lambda: lengths.fill_(6), scene.arguments, [])


@pytest.mark.parametrize("make", [_binary, _index, _label, _rows, _sequences, _lengths])
def test_followed_calls_raise_at_the_operator(make):
    compare(lambda: _follow(make), "now", 6)


def test_a_deferred_call_raises_at_the_operator():
    compare(lambda: _follow(_label), "now", 1)


def _assign(t: torch.Tensor, i: torch.Tensor) -> None:
    t[i] = 5.0


def _assign_pairs(t: torch.Tensor, i: torch.Tensor) -> None:
    t[torch.tensor([0, 1]), i] = 5.0


def _invert(t: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    t.add_(1)
    return torch.linalg.inv(torch.eye(2) * (i < 3))


# What writes or reads at positions, one of which is 3 in the end: outside of three columns.
PLACES = {
    "assign": lambda t, i: _assign(t.t(), i),
    "assign pairs": _assign_pairs,
    "read pairs": lambda t, i: t[torch.tensor([0, 1]), i] + 1,
    "scatter": lambda t, i: t.scatter_(1, i[:, None], torch.ones(2, 1)).sum(),
    "index_fill": lambda t, i: t.index_fill_(1, i, 2.0).sum(),
    "index_copy": lambda t, i: t.index_copy_(1, i, torch.ones(4, 2)).sum(),
    "index_add": lambda t, i: t.index_add_(1, i, torch.ones(4, 2)).sum(),
    "put": lambda t, i: t.put_(i * 4, torch.ones(2)).sum(),
    "invert": _invert,
}


@pytest.mark.parametrize("name", PLACES)
def test_proved_steps_raise_for_what_eager_refuses(name):
    seen = []
    for compiled in (False, True):
        table = torch.zeros(4, 3)

        def step(i: torch.Tensor, table: torch.Tensor = table) -> object:
            return PLACES[name](table, i)

        call = torch.compile(step, mode="now", backend="evaluate") if compiled else step
        for _ in range(4):
            call(torch.tensor([0, 2]))
        with pytest.raises((IndexError, RuntimeError)) as caught:
            call(torch.tensor([0, 3]))
        seen.append((str(caught.value), table.tolist(), table._version))
    assert seen[0] == seen[1]


def test_followed_calls_raise_where_a_matrix_is_singular():
    def singular() -> Scene:
        matrix, weight = torch.eye(3), nn.Parameter(torch.ones(3))
        optimizer = torch.optim.SGD([weight], lr=0.1)

        def step(x: torch.Tensor) -> torch.Tensor:
            loss = torch.linalg.solve(matrix, x * weight).sum()
            loss.backward()
            optimizer.step()
            return loss

        return _follow(lambda: Scene(step, matrix.zero_, lambda: (torch.ones(3),), [weight]))

    compare(singular, "now", 6)


@pytest.mark.parametrize("operations", [3, 90])
def test_an_index_computed_by_many_operators(operations: int) -> None:
    def run(is_compiled: bool) -> list[Any]:
        w, seen = torch.zeros(2), []

        def step(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
            for k in range(operations):
                i = (i * 3 + k) % 1009
            w.add_(1)
            return x[i % 7] * 2

        function = torch.compile(step, options={"mode": "now"}) if is_compiled else step
        for start in range(12):
            try:
                seen.append(function(torch.arange(3.0), torch.tensor([start])).tolist())
            except IndexError as error:
                seen.append((str(error), w.tolist(), w._version))
        return seen

    expected = run(False)
    assert {type(item) for item in expected} == {list, tuple}
    assert run(True) == expected
