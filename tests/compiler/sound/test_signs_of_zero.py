"""Zeros keep their signs: compiled calls give those of eager calls, which are PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F

_NEGATIVE = {  # of -0.0: a maximum or minimum leaves it
    "relu": F.relu, "relu6": F.relu6, "elu": F.elu, "selu": F.selu, "celu": F.celu,
    "clamp": lambda x: x.clamp(0, 1), "clamp above": lambda x: x.clamp(-1, 0),
    "clamp_min": lambda x: x.clamp_min(0), "clamp_max": lambda x: x.clamp_max(0),
    "hardtanh": F.hardtanh, "relu_": lambda x: x.clone().relu_(),
    "nn.ReLU": lambda x: torch.nn.ReLU()(x),
}
_POSITIVE = {  # a sum begins at 0.0
    "cumsum": lambda x: x.cumsum(0), "cumsum of rows": lambda x: x[:, None].cumsum(1),
    "avg_pool": lambda x: F.avg_pool1d(x[None], 1), "avg_pool of 3": lambda x: F.avg_pool2d(
        x[None, None, :, None].expand(1, 1, len(x), 3), (1, 3))[0, 0],
    "adaptive_avg_pool": lambda x: F.adaptive_avg_pool1d(x[None], len(x)),
    "sum": lambda x: x[:, None].sum(1), "mean": lambda x: x[:, None].mean(1),
    "nansum": lambda x: x[:, None].nansum(1), "sum of all": lambda x: x[:1].sum().expand(len(x)),
    "sum of two axes": lambda x: x[None, :, None].sum((0, 2)),
}


@pytest.mark.parametrize("count", [1, 11, 2000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", [*_NEGATIVE, *_POSITIVE])
def test_signs_of_zero(name: str, dtype: torch.dtype, count: int) -> None:
    function = _NEGATIVE.get(name) or _POSITIVE[name]
    x = torch.full((count,), -0.0, dtype=dtype)
    compiled = torch.compile(lambda x: function(x), mode="now")
    for call in (function, compiled, compiled):
        y = call(x).numpy()
        assert not y.any()
        assert (np.signbit(y) == (name in _NEGATIVE)).all()


@pytest.mark.parametrize("count", [1, 11, 2000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("function", [torch.fmax, torch.fmin])
def test_equal_zeros_are_the_first(function: Any, dtype: torch.dtype, count: int) -> None:
    zeros = torch.zeros(count, dtype=dtype)
    compiled = torch.compile(lambda x, y: function(x, y), mode="now")
    for call in (function, compiled, compiled):
        assert np.signbit(call(-zeros, zeros).numpy()).all()
        assert not np.signbit(call(zeros, -zeros).numpy()).any()


def test_the_gradient_of_a_running_sum_of_one_is_its_cotangent() -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        x.cumsum(0).backward(torch.full((1, 3), -0.0))
        return x.grad

    compiled = torch.compile(step, mode="now")
    for call in (step, compiled, compiled):
        assert np.signbit(call(torch.ones(1, 3)).numpy()).all()


def test_running_sums_of_nothing() -> None:
    for shape in ((0,), (0, 5), (5, 0)):
        assert torch.zeros(shape).cumsum(0).shape == shape
