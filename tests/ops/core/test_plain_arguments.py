"""Plain arguments: a 0-d tensor stands for a number, as PyTorch's argument parser takes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "elu": lambda torch, x, n: torch.nn.functional.elu(x, n),
    "leaky_relu": lambda torch, x, n: torch.nn.functional.leaky_relu(x, n),
    "softplus": lambda torch, x, n: torch.nn.functional.softplus(x, n),
    "add": lambda torch, x, n: torch.add(x, x, alpha=n),
    "addcmul": lambda torch, x, n: torch.addcmul(x, x, x, value=n),
    "lerp": lambda torch, x, n: torch.lerp(x, -x, n),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_tensor_without_axes_stands_for_a_number(torch: Any, name: str) -> None:
    for size in (5, 40_000):
        x = torch.linspace(-2, 2, size)
        result = CALLS[name](torch, x, torch.tensor(0.5))
        assert torch.equal(result, CALLS[name](torch, x, 0.5))
