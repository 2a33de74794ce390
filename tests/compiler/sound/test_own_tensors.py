"""Tensors that a step creates, gives other memory (`.data`) and trains, as attacks do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn

from .scenario import collect

Step = Callable[[Any], Any]
PROVED: dict[str, Callable[[], Step]] = {}
FOLLOWED: dict[str, Callable[[], Step]] = {}
_proved, _followed = collect(PROVED), collect(FOLLOWED)


@_proved
def an_attack_in_turns() -> Step:
    w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)

    def step(x: Any) -> Any:
        d = torch.zeros_like(x, requires_grad=True)
        for _ in range(2):
            ((x + d) * w).sum().backward()
            d.data = (d + 0.1 * d.grad.detach().sign()).clamp(-1, 1)
            d.grad.zero_()
        w.grad = None
        return x + d.detach()

    return step


@_proved
def a_view_of_the_memory_before() -> Step:
    def step(x: Any) -> Any:
        d = torch.zeros_like(x)
        view = d.view(-1)
        d.data = x * 2
        d.add_(1)
        view.add_(5)
        return d * 1, view

    return step


@_proved
def memory_of_a_result() -> Step:
    def step(x: Any) -> Any:
        d, y = torch.zeros_like(x), x * 2
        d.data = y
        d.add_(1)
        return y, d * 1

    return step


@_proved
def memory_of_the_argument() -> Step:
    def step(x: Any) -> Any:
        d = torch.zeros(3)
        d.data = x
        d.mul_(2)
        return x * 1

    return step


@_proved
def another_shape() -> Step:
    def step(x: Any) -> Any:
        d = torch.ones(2, requires_grad=True)
        d.data = x
        y = (d * 3).sum()
        y.backward()
        return d.grad, y.detach(), d.shape[0]

    return step


@_proved
def another_dtype() -> Step:
    def step(x: Any) -> Any:
        d = torch.zeros(3)
        d.data = x.double()
        return d + 1

    return step


@_proved
def other_memory_before_backward() -> Step:
    w = torch.tensor([1.0, 2.0, 3.0])

    def step(x: Any) -> Any:
        d = torch.ones_like(x, requires_grad=True)
        y = (d * d * w).sum()
        d.data = x * 3
        y.backward()
        return d.grad

    return step


@_proved
def a_layer_made_and_set() -> Step:
    def step(x: Any) -> Any:
        layer = nn.Linear(3, 1)
        layer.weight.data, layer.bias.data = torch.ones(1, 3), torch.zeros(1)
        return layer(x).detach()

    return step


@_proved
def a_gradient_alone() -> Step:
    def step(x: Any) -> Any:
        d = torch.zeros(3, requires_grad=True)
        ((x + d) ** 2).sum().backward()
        return d.grad

    return step


@_proved
def descent_on_an_own_leaf() -> Step:
    def step(x: Any) -> Any:
        d = torch.zeros(3, requires_grad=True)
        for _ in range(3):
            ((x + d) ** 2).sum().backward()
            with torch.no_grad():
                d -= 0.1 * d.grad
                d.grad = None
        return d.detach(), d.grad

    return step


@_followed
def a_tensor_that_is_returned() -> Step:
    def step(x: Any) -> Any:
        d = torch.zeros_like(x)
        d.data = x * 2
        return d

    return step


@_followed
def a_leaf_that_is_returned_with_its_gradient() -> Step:
    def step(x: Any) -> Any:
        d = torch.zeros(3, requires_grad=True)
        ((x + d) ** 2).sum().backward()
        return d, d.grad

    return step


@_followed
def a_tensor_of_before() -> Step:
    w = torch.tensor([1.0, 2.0, 3.0])

    def step(x: Any) -> Any:
        w.data = w.data * 0.9 + x * 0.1
        return w.sum()

    return step


def _list_values(result: Any) -> list[Any]:
    parts = result if isinstance(result, tuple) else (result,)
    return [(part.dtype, part.shape, part.requires_grad, part.tolist())
            if isinstance(part, torch.Tensor) else part for part in parts]


@pytest.mark.parametrize("name", [*PROVED, *FOLLOWED])
def test_steps(name: str) -> None:
    make = PROVED.get(name) or FOLLOWED[name]
    eager, compiled = make(), torch.compile(make(), options={"mode": "now", "follow": True})
    for seed in range(8):
        x = torch.randn(3, generator=torch.Generator().manual_seed(seed))
        same = x.clone()
        actual, expected = _list_values(compiled(x)), _list_values(eager(same))
        assert len(actual) == len(expected)
        for a, b in zip(actual, expected, strict=True):
            if isinstance(b, tuple):
                assert a[:3] == b[:3]
                assert a[3] == pytest.approx(b[3], rel=1e-5)
            else:
                assert a == b
        assert x.tolist() == pytest.approx(same.tolist(), rel=1e-6)
    assert ("is followed" in compiled.explain()) == (name in FOLLOWED)


def test_an_own_optimizer() -> None:
    def step(x: Any) -> Any:
        d = torch.zeros(3, requires_grad=True)
        optimizer = torch.optim.SGD([d], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            ((x - d) ** 2).sum().backward()
            optimizer.step()
        return d.detach(), d.grad

    compiled = torch.compile(step, mode="now")
    for k in range(6):
        for a, b in zip(compiled(torch.ones(3) + k), step(torch.ones(3) + k), strict=True):
            assert torch.allclose(a, b)
