"""Backward through a compiled call with a batch of cotangents, as Jacobians compute it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch

W = torch.linspace(-1, 1, 3).requires_grad_()


def alone(x: torch.Tensor) -> torch.Tensor:
    return (x * W).sin() * 2


def pair(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return (x * W).sin(), (x * x).cumsum(0)


def pull_back(step: Callable[..., Any]) -> Any:
    results, vjp = torch.func.vjp(step, torch.ones(3))
    basis = torch.eye(3)
    return torch.vmap(vjp)((basis, basis) if isinstance(results, tuple) else basis)


USES: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "jacrev": lambda step: torch.func.jacrev(step)(torch.ones(3)),
    "vjp": pull_back,
    "jacobian": lambda step: torch.autograd.functional.jacobian(
        step, torch.ones(3), vectorize=True),
}


def leaves(result: Any) -> list[torch.Tensor]:
    """The tensors of nested tuples."""
    if isinstance(result, torch.Tensor):
        return [result]
    return [leaf for part in result for leaf in leaves(part)]


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
@pytest.mark.parametrize("function", [alone, pair])
def test_jacobians_of_a_compiled_call(
    function: Callable[..., Any], use: Callable[[Callable[..., Any]], Any]
) -> None:
    expected = leaves(use(function))
    step = torch.compile(function, mode="now")
    for _ in range(4):
        actual = leaves(use(step))
        assert len(actual) == len(expected)
        for a, b in zip(actual, expected, strict=True):
            assert a.shape == b.shape and a.requires_grad == b.requires_grad
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5)


def test_a_function_that_changed_since_the_call_is_refused() -> None:
    factor = [2.0]
    step = torch.compile(lambda x: (x * W).sin() * factor[0], mode="now")
    for _ in range(3):
        _, vjp = torch.func.vjp(step, torch.ones(3))
    factor[0] = 3.0
    with pytest.raises(RuntimeError, match="it has changed since the call"):
        torch.vmap(vjp)(torch.eye(3))
