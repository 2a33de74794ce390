"""Losses, norms and pools of large tensors: kernels give what NumPy gives before they are there."""

import numpy as np
import pytest

import flambeau as torch

F = torch.nn.functional
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 400)) * 20
T = RNG.random((300, 400))
T[0, 0], X[0, 0] = 1, -200  # whose exp overflows
LOSS = np.log1p(np.exp(-np.abs(X))) + np.maximum(X, 0) - X * T
TOP = X.max(0)
IMAGE = RNG.normal(size=(4, 8, 64, 48))
CASES = {
    "bce": (lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction="none"), (X, T), LOSS),
    "logsumexp": (lambda x: x.logsumexp(0), (X,), np.log(np.exp(X - TOP).sum(0)) + TOP),
    "normalize": (F.normalize, (X,), X / np.sqrt((X * X).sum(1, keepdims=True))),
    "pool": (lambda x: F.adaptive_avg_pool2d(x, (16, 8)), (IMAGE,),
             IMAGE.reshape(4, 8, 16, 4, 8, 6).mean((3, 5))),
    "wide pool": (lambda x: F.adaptive_avg_pool2d(x, 2), (IMAGE,),
                  IMAGE.reshape(4, 8, 2, 32, 2, 24).mean((3, 5))),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
def test_large(name, dtype):
    function, arrays, wanted = CASES[name]
    tolerance = 2e-5 if dtype is np.float32 else 1e-12
    for _ in range(2):
        y = function(*[torch.from_numpy(a.astype(dtype)) for a in arrays])
        np.testing.assert_allclose(y.numpy(), wanted, tolerance, tolerance)
