"""Convolutions of volumes by the kernels of images, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.ops.spatial import conv_3d, conv_native

F = torch.nn.functional


def _gradients(arrays, settings, transposed):
    inputs = [torch.tensor(a, requires_grad=True) for a in arrays]
    convolve = F.conv_transpose3d if transposed else F.conv3d
    y = convolve(*inputs, **settings)
    y.pow(2).sum().backward()
    return [y.detach().numpy(), *[x.grad.numpy() for x in inputs]]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("kernel, settings", [
    ((3, 3, 3), {"padding": 1}),
    ((1, 3, 2), {"stride": (2, 1, 2)}),
    ((3, 1, 1), {"stride": 2, "padding": (1, 0, 0)}),
    ((2, 3, 3), {"dilation": (3, 1, 2), "padding": (0, 2, 1)}),
    ((3, 3, 3), {"groups": 2, "stride": (3, 1, 1)}),
    ((3, 2, 2), {"groups": 8}),
])
def test_kernels_compute_what_numpy_computes(kernel, settings, transposed, monkeypatch):
    rng = np.random.default_rng(0)
    groups = settings.get("groups", 1)
    x = rng.normal(size=(2, 8, 9, 13, 12)).astype(np.float32)
    w = rng.normal(size=(8, 8 // groups, *kernel)).astype(np.float32)
    b = rng.normal(size=8).astype(np.float32)
    calls = []
    for name in ("forward", "backward_data", "backward_weight"):
        original = getattr(conv_native, name)
        monkeypatch.setattr(conv_native, name, lambda *args, name=name, original=original: (
            calls.append(name), original(*args))[1])
    fast = _gradients((x, w, b), settings, transposed)
    assert set(calls) == {"forward", "backward_data", "backward_weight"}
    monkeypatch.setattr(conv_3d, "_has_kernels", lambda *arrays: False)
    for actual, expected in zip(fast, _gradients((x, w, b), settings, transposed), strict=True):
        assert actual.strides == expected.strides
        np.testing.assert_allclose(actual, expected, 1e-4, 1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("shape", [(0, 4, 5, 8, 8), (2, 4, 5, 8, 0)])
def test_empty_volumes(shape):
    x = torch.ones(shape, requires_grad=True)
    y = F.conv3d(x, torch.ones(4, 4, 3, 3, 3), padding=2)
    y.sum().backward()
    assert x.grad.shape == shape
