"""Zeros keep their signs: compiled calls give those of eager calls, which are PyTorch's."""

from __future__ import annotations

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
