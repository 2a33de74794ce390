"""A compiled step's results print as eager ones do: `grad_fn` has the class name of the node that
the recorded call made, alone, next to other outputs, and once backward has freed it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn

CALLS = 5


def train() -> Callable[..., Any]:
    net = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


def forward() -> Callable[..., Any]:
    return nn.Linear(3, 2)


def two_outputs() -> Callable[..., Any]:
    net = nn.Linear(3, 2)

    def step(x: torch.Tensor) -> Any:
        y = net(x)
        return {"y": y, "sum": y.exp().sum(), "plain": x * 2}

    return step


def parts() -> Callable[..., Any]:
    net = nn.Linear(3, 4)
    return lambda x: net(x).sin().chunk(2, 1)


def show(result: Any) -> list[Any]:
    """What printing and `grad_fn` tell about the tensors of a result."""
    tensors = result.values() if isinstance(result, dict) else result
    tensors = [result] if isinstance(result, torch.Tensor) else list(tensors)
    names = [None if y.grad_fn is None else y.grad_fn.name() for y in tensors]
    return [names, [str(y).partition("grad_fn")[2] for y in tensors]]


def run(make: Callable[[], Callable[..., Any]], mode: str | None) -> list[Any]:
    torch.manual_seed(0)
    step = make() if mode is None else torch.compile(make(), mode=mode)
    return [show(step(torch.ones(4, 3))) for _ in range(CALLS)]


@pytest.mark.parametrize("make", [train, forward, two_outputs, parts])
def test_results_print_as_eager_ones(make: Callable[[], Callable[..., Any]]) -> None:
    expected = run(make, None)
    assert run(make, "now") == expected
    assert "Backward" in expected[0][1][0]


def test_gradients_of_several_outputs_meet() -> None:
    w = torch.linspace(-1, 1, 3).requires_grad_()
    seen = []
    for step in (two := lambda x: ((x * w).sin(), x.exp() * w), torch.compile(two, mode="now")):
        for _ in range(3):
            w.grad = None
            hooked: list[torch.Tensor] = []
            a, b = step(torch.ones(2, 3))
            a.register_hook(hooked.append)
            a.retain_grad()
            (a.sum() + (b * b).sum()).backward(retain_graph=True)
            b.sum().backward()
            assert w.grad is not None
            seen.append([*w.grad.tolist(), *hooked[0][0].tolist(), *a.grad[0].tolist()])
    for k in range(1, 6):
        assert seen[k] == pytest.approx(seen[0])


def test_error_names_the_node_of_an_overwritten_result() -> None:
    w = torch.ones(3, requires_grad=True)
    step = torch.compile(lambda x: (x * w).exp(), mode="now")
    for _ in range(4):
        y = step(torch.ones(3))
        loss = (y * y).sum()
        y.detach().add_(1)
        with pytest.raises(RuntimeError, match="output 0 of Exp, is at version 1"):
            loss.backward()
