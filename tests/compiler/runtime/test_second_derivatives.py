"""Second derivatives of losses are compiled like the first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(6, 5), (3, 5, 4)])
@pytest.mark.parametrize("weighted", [False, True])
def test_of_cross_entropy(reduction: str, shape: tuple[int, ...], weighted: bool) -> None:
    torch.manual_seed(0)
    weight = torch.rand(5) if weighted else None

    def step(x: Any, target: Any) -> Any:
        x = x.detach().requires_grad_(True)
        y = F.cross_entropy(x, target, weight, ignore_index=1, reduction=reduction)
        (g,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
        (h,) = torch.autograd.grad((g * g).sum(), x)
        return h

    compiled = torch.compile(step, mode="now", fullgraph=True)
    for _ in range(5):
        x, target = torch.randn(shape), torch.randint(0, 5, (shape[0], *shape[2:]))
        actual, expected = compiled(x, target), step(x, target)
        np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)
