"""Gradients where a formula meets NaN, an infinity, a kink or a signed zero, as PyTorch's are."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau

NAN, INF = math.nan, math.inf
CASES = {
    "elu": (lambda m, x: m.nn.functional.elu(x), [NAN, 0.0], [1.0, 1.0]),
    "elu, alpha": (lambda m, x: m.nn.functional.elu(x, 3.0), [NAN, 0.0, 1.0], [1.0, 3.0, 1.0]),
    "hardtanh": (lambda m, x: m.nn.functional.hardtanh(x), [NAN, 1.0, 0.5], [1.0, 0.0, 1.0]),
    "relu6": (lambda m, x: m.nn.functional.relu6(x), [NAN, 6.0, 0.0], [1.0, 0.0, 0.0]),
    "hardswish": (lambda m, x: m.nn.functional.hardswish(x), [NAN, -3.0, 3.0], [1.0, 0.0, 1.0]),
    "hardsigmoid": (lambda m, x: m.nn.functional.hardsigmoid(x), [NAN, 3.0], [0.0, 0.0]),
    "logit": (lambda m, x: m.logit(x), [-0.0, 0.0, 1.0, 2.0], [INF, INF, INF, NAN]),
    "amax": (lambda m, x: x.amax(), [NAN, 1.0], [NAN, NAN]),
    "max": (lambda m, x: x.max(), [NAN, 1.0], [1.0, 0.0]),
    "logsumexp": (lambda m, x: x.logsumexp(0), [INF, 1.0], [NAN, 0.0]),
    "logsumexp of none": (lambda m, x: x.logsumexp(0), [-INF, -INF], [NAN, NAN]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("library", ["flambeau", pytest.param("torch", marks=pytest.mark.parity)])
def test_gradients(name: str, library: str) -> None:
    function, values, expected = CASES[name]
    module = flambeau if library == "flambeau" else pytest.importorskip("torch")
    x = module.tensor(values, requires_grad=True)
    function(module, x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.array(expected, "f"))
