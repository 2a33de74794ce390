"""Results that a factory made and that have a graph since the step wrote to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

from .scenario import collect

STEPS: dict[str, Callable[[Any], Any]] = {}
_step = collect(STEPS)


@_step
def a_row(x: Any) -> Any:
    result = torch.zeros(3, 3)
    result[0] = x[0]
    return result


@_step
def a_sum(x: Any) -> Any:
    result = torch.zeros(3, 3)
    result += x
    return result


@_step
def a_product(x: Any) -> Any:
    return torch.ones(3, 3).mul_(x)


@_step
def a_copy(x: Any) -> Any:
    return torch.zeros_like(x).copy_(x * 2)


@_step
def empty_memory(x: Any) -> Any:
    result = torch.empty(3, 3)
    result.copy_(x * 2)
    return result


@_step
def new_zeros(x: Any) -> Any:
    result = x.new_zeros(3, 3)
    result[:, 0] = x[:, 0]
    return result


@_step
def numbers(x: Any) -> Any:
    return torch.tensor([1.0, 2.0, 3.0]).add_(x[0])


@_step
def rows_at_indices(x: Any) -> Any:
    return torch.zeros(3).index_add_(0, torch.tensor([0, 1, 1]), x[0])


@_step
def scattered(x: Any) -> Any:
    return torch.zeros(3, 3).scatter_(1, torch.tensor([[0], [1], [2]]), x)


@_step
def thrice(x: Any) -> Any:
    result = torch.zeros(3, 3)
    result.copy_(x)
    return result, result, result[1:]


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("follow", [False, True])
def test_backward_from_the_result(name: str, follow: bool) -> None:
    step = STEPS[name]
    compiled = torch.compile(step, options={"mode": "now", "follow": follow})
    for seed in range(6):
        seen = []
        for function in (step, compiled):
            x = torch.randn(3, 3, generator=torch.Generator().manual_seed(seed)).requires_grad_()
            result = function(x)
            parts = result if isinstance(result, tuple) else (result,)
            assert all(part.requires_grad for part in parts)
            sum((part * part).sum() for part in parts).backward()
            seen.append(x.grad)
        assert torch.allclose(*seen)
