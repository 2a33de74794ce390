"""Backward from some of a compiled call's results: the others count as absent, not as zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn

from ..step_comparison import compiled, runs


class TwoOutputs(torch.autograd.Function):
    """Its backward is no linear function: eager mode runs it with zeros for what is absent."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2, x * 3

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        return g.clamp(min=0.5) + h.exp()


class Clipped(torch.autograd.Function):
    """A gradient that is nowhere zero."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 1

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g.clamp(min=0.5)


def _recurrent() -> Callable[..., Any]:
    torch.manual_seed(0)
    layer = nn.LSTM(3, 3)

    def step(x: Any, w: Any) -> Any:
        y, (h, c) = layer(torch.stack([x, w])[:, None])
        return y, h, c

    return step


STEPS: dict[str, Callable[..., Any]] = {
    "an infinite gradient": lambda x, w: (x.log(), x * 2, w.sqrt()),
    "each of its own": lambda x, w: (x.exp(), w.exp(), x * w),
    "a sum": lambda x, w: (lambda y: (y, y + w, y - w))(x * 2),
    "parts": lambda x, w: (x * w).split(1),
    "views": lambda x, w: (lambda y: (y[:2], y[1:], y.view(3, 1)))(x * w),
    "joined": lambda x, w: (torch.cat([x, w]), torch.stack([x, w]), torch.where(x > w, x, w)),
    "products": lambda x, w: (x @ w, torch.outer(x, w), w.softmax(0)),
    "maxima": lambda x, w: ((x * w).max(0)[0], (x * w).sort()[0], (x * w).cumsum(0)),
    "picked": lambda x, w: (x[torch.tensor([0, 0, 2])], w.gather(0, torch.tensor([1])), x * 1),
    "a decomposition": lambda x, w: torch.linalg.svd(torch.outer(x, w) + torch.eye(3)),
    "a function": lambda x, w: (*TwoOutputs.apply(x), w * 2),
    "a clipped gradient": lambda x, w: (Clipped.apply(x), x * 2, w * x),
    "recurrent": _recurrent(),
}
FOLLOWED = ("a function", "a clipped gradient")


def _gradients(step: Callable, choose: Callable[[tuple], Any], **options: Any) -> Any:
    """The leaves' gradients, rounded, or the error."""
    x = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
    w = torch.tensor([1.0, 3.0, 0.0], requires_grad=True)
    total = sum(y.sum() * (k + 2) for k, y in enumerate(choose(step(x, w))))
    if options:
        grads = torch.autograd.grad(total, (x, w), allow_unused=True, **options)
    else:
        total.backward()
        grads = (x.grad, w.grad)
    return [None if g is None else [round(v, 3) if v == v else "nan" for v in g.tolist()]
            for g in grads]


@pytest.mark.parametrize("name", STEPS)
def test_backward_from_some_results(name: str) -> None:
    step = STEPS[name]
    fast = compiled(step)
    for chosen in ((0, 1, 2), (0,), (1,), (2,), (0, 2), (0, 1, 2), (1,)):
        for _ in range(2):
            expected, actual = (_gradients(f, lambda ys: [ys[k] for k in chosen])  # noqa: B023
                                for f in (step, fast))
            assert actual == expected, chosen
    assert runs(fast) > 4 or name in FOLLOWED


def test_a_second_derivative_of_some_results() -> None:
    step = STEPS["each of its own"]
    fast = compiled(step)
    for k in (0, 1, 2):
        for _ in range(3):
            expected, actual = (_gradients(f, lambda ys: [ys[k].square()],  # noqa: B023
                                           create_graph=True) for f in (step, fast))
            assert actual == expected
    assert runs(fast) > 4


def test_an_optimizer_skips_what_no_chosen_result_depends_on() -> None:
    ends = []
    for make in (lambda f: f, compiled):
        torch.manual_seed(0)
        heads = nn.ModuleList([nn.Linear(3, 2), nn.Linear(3, 2)])
        optimizer = torch.optim.AdamW(heads.parameters(), 0.1, weight_decay=0.5)
        forward = make(lambda x, heads=heads: [head(x) for head in heads])
        for i in range(8):
            optimizer.zero_grad()
            forward(torch.ones(2, 3))[i % 2].sum().backward()
            optimizer.step()
        ends.append([p.tolist() for p in heads.parameters()])
    assert [[pytest.approx(p, rel=1e-5)] for p in ends[0][1]] == [[p] for p in ends[1][1]]
    assert ends[0][3] == pytest.approx(ends[1][3], rel=1e-5)


def _write(y: Any) -> None:
    y.mul_(3)


@pytest.mark.parametrize("shape", [lambda y: y.view(3, 1), lambda y: y[:2], lambda y: y.T])
def test_a_returned_view_is_written_before_backward(shape: Callable) -> None:
    def step(x: Any, w: Any) -> Any:
        return (shape(x * w), w * 2)

    fast = compiled(step)
    for _ in range(3):
        for change in (lambda y: None, _write):
            def choose(ys: Any, change: Callable = change) -> Any:
                change(ys[0])
                return ys
            assert _gradients(fast, choose) == _gradients(step, choose)
    assert runs(fast) > 3


def test_a_custom_backward_runs_once_for_each_backward() -> None:
    runs_of_backward = []

    class Counted(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            runs_of_backward.append(1)
            return g

    fast = compiled(lambda x: Counted.apply(x) * 2)
    for call in range(5):
        y = fast(torch.ones(2, requires_grad=True))
        assert len(runs_of_backward) == call
        y.sum().backward()
    assert len(runs_of_backward) == 5
