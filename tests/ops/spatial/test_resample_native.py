"""Kernels that resample images agree with NumPy, which serves calls until they are compiled."""

import numpy as np
import pytest

import flambeau as torch
from flambeau.native.runtime import background_jit
from flambeau.native.runtime.background_jit import CallCounts, KernelPolicy
from flambeau.native.runtime.eager_kernels import EagerKernel
from flambeau.ops.spatial import grid_native, resample_native
from flambeau.ops.spatial.resample_native import resample_axis, take_pixels

F = torch.nn.functional
SIZES = [{"scale_factor": 2}, {"scale_factor": 0.5}, {"size": (150, 77)}]


def with_gradient(function, image):
    x = torch.from_numpy(image.copy()).requires_grad_()
    y = function(x)
    weights = np.random.default_rng(1).normal(size=tuple(y.shape)).astype(image.dtype)
    y.backward(torch.from_numpy(weights))
    return y.detach().numpy(), x.grad.numpy()


def by_both(function, image, monkeypatch):
    """(with kernels, without)."""
    with_gradient(function, image)  # asks for the kernels
    results = with_gradient(function, image)
    monkeypatch.setattr(KernelPolicy, "allowed", False)
    return zip(results, with_gradient(function, image), strict=True)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic", "area"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_interpolate(mode, sizes, monkeypatch):
    image = np.random.default_rng(0).normal(size=(2, 3, 90, 101)).astype(np.float32)
    for a, b in by_both(lambda x: F.interpolate(x, mode=mode, **sizes), image, monkeypatch):
        np.testing.assert_allclose(a, b, 1e-5, 1e-5)


request_address = EagerKernel.address
CASES = [("bilinear", "reflection", 2), ("nearest", "zeros", 2), ("bicubic", "border", 2),
         ("bilinear", "zeros", 3)]


@pytest.mark.parametrize(("mode", "padding", "axes"), CASES, ids=str)
def test_grid_sample(mode, padding, axes, monkeypatch):
    rng = np.random.default_rng(0)
    shape, count = ((3, 4, 9, 11), (7, 43)) if axes == 2 else ((3, 4, 5, 6, 7), (2, 5, 31))
    image = rng.normal(size=shape).astype(np.float32)
    coordinates = rng.uniform(-1.9, 1.9, (3, *count, axes)).astype(np.float32)

    def sampled(x):
        points = torch.from_numpy(coordinates).requires_grad_()
        y = F.grid_sample(x, points, mode, padding, False)
        (gradient,) = torch.autograd.grad(y.square().sum(), points, retain_graph=True)
        gradients.append(gradient.numpy())
        return y

    gradients = []
    for a, b in by_both(sampled, image, monkeypatch):
        np.testing.assert_allclose(a, b, 1e-4, 1e-5)
    np.testing.assert_allclose(gradients[1], gradients[2], 1e-3, 1e-3)
    assert (gradients[1] != 0).any() == (mode != "nearest")


def test_points_that_fill_no_block(monkeypatch):
    """Their gradients come from two calls: whole blocks, and what is left."""
    rng = np.random.default_rng(0)
    image = rng.normal(size=(1, 3, 20, 20)).astype(np.float32)
    points = torch.from_numpy(rng.uniform(-1.2, 1.2, (1, 17, 19, 2)).astype(np.float32))
    for a, b in by_both(
        lambda x: F.grid_sample(x, points, align_corners=True), image, monkeypatch
    ):
        np.testing.assert_allclose(a, b, 1e-4, 1e-5)


@pytest.mark.parametrize("axis", [1, 2])
def test_a_place_below_zero_counts_nothing(axis):
    x = np.full((3, 100, 200), np.inf, np.float32)
    places = np.full((2, 150), -1)
    places[0, ::2] = np.arange(75)
    x[(slice(None),) * axis + (slice(75),)] = 2
    weights = np.full(places.shape, 0.5, np.float32)
    for tap_weights in (weights, None):
        resample_axis(x, axis, places, tap_weights, False)
        y = resample_axis(x, axis, places, tap_weights, False)
        assert y is not None
        wanted = 2 if tap_weights is None else 1
        np.testing.assert_array_equal(y.take(np.arange(0, 150, 2), axis), wanted)
        np.testing.assert_array_equal(y.take(np.arange(1, 150, 2), axis), 0)


def test_pixels_are_those_at_the_places():
    rng = np.random.default_rng(0)
    x, places = rng.normal(size=(2, 5, 700)), rng.integers(0, 700, (2, 4000))
    take_pixels(x, places)
    y = take_pixels(x, places)
    assert y is not None
    np.testing.assert_array_equal(y, np.take_along_axis(x, places[:, None, :], 2))


@pytest.mark.parametrize("function", [
    lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    lambda x: F.grid_sample(x, torch.linspace(-1.1, 1.1, 24).reshape(1, 3, 4, 2),
                            align_corners=False),
], ids=["interpolate", "grid_sample"])
def test_small_images_use_kernels_after_many_calls(function, monkeypatch) -> None:
    monkeypatch.setattr(background_jit, "CALLS_BEFORE_COMPILING", 2)
    monkeypatch.setattr(background_jit, "CALLS_BEFORE_USE", 5)
    for module in (resample_native, grid_native):
        monkeypatch.setattr(module, "_small_calls", CallCounts(8))
    addresses = []
    monkeypatch.setattr(EagerKernel, "address", lambda self, *settings: addresses.append(
        address := request_address(self, *settings)) or address)
    image = np.random.default_rng(0).normal(size=(1, 2, 5, 6)).astype(np.float32)
    results = [with_gradient(function, image) for _ in range(8)]
    assert any(addresses)
    for y, gradient in results[1:]:
        np.testing.assert_allclose(y, results[0][0], 1e-5, 1e-6)
        np.testing.assert_allclose(gradient, results[0][1], 1e-5, 1e-5)
