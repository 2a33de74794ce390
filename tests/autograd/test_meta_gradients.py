"""Gradients of meta tensors are meta tensors: the first cotangent is on the output's device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

LOSSES: dict[str, Callable[[Any], Any]] = {
    "sum": lambda w: w.sum(),
    "sum of one axis": lambda w: w.sum((0, 1), keepdim=True),
    "mean of a product": lambda w: (w.sin() * w).mean(),
    "a second use": lambda w: (w + w).sum(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_on_the_meta_device(name: str) -> None:
    w = torch.ones(3, 2, device="meta", requires_grad=True)
    assert torch.autograd.grad(LOSSES[name](w), w)[0].is_meta
    for _ in range(2):
        LOSSES[name](w).backward()
        assert w.grad.is_meta and w.grad.shape == (3, 2)
