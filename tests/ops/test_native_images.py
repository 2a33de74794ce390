"""Convolutions and pooling of large arrays: machine code gives what NumPy gives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau.native import eager
from flambeau.native.compiled import compiled
from flambeau.ops import batches, conv_native, matmul_native


@pytest.fixture
def made(monkeypatch) -> list:
    """Kernels are made at once; the list fills with the keys of those that were used."""
    used: list = []
    known: dict = {}

    def at_once(key, builder: Callable):
        used.append(key)
        if key not in known:
            known[key] = compiled(builder())
        return known[key]

    monkeypatch.setattr(eager, "kernel_asked_for", at_once)
    monkeypatch.setattr(conv_native, "_seen", {})
    monkeypatch.setattr(batches, "_made", {})
    monkeypatch.setattr(batches, "_calls", {})
    return used


def gradients(function, *arrays, last: bool = False) -> list[np.ndarray]:
    """The result, and the gradients of a sum that weighs its elements."""
    tensors = []
    for array in arrays:
        tensor = flambeau.tensor(array)
        if last and tensor.dim() == 4:
            tensor = tensor.contiguous(memory_format=flambeau.channels_last)
        tensors.append(tensor.requires_grad_())
    y = function(*tensors)
    weights = flambeau.linspace(-1, 1, y.numel(), dtype=y.dtype).reshape(y.shape)
    (y * weights).sum().backward()
    return [y.detach().numpy(), *(t.grad.numpy() for t in tensors)]


CONVOLUTIONS = {
    "padded": ((8, 16, 20, 20), (32, 16, 3, 3), {"padding": 1}),
    "strided": ((8, 24, 21, 19), (64, 24, 3, 3), {"padding": 1, "stride": 2}),
    "grouped": ((8, 32, 20, 20), (64, 8, 3, 3), {"groups": 4, "dilation": 2}),
    "depthwise": ((8, 32, 40, 40), (64, 1, 3, 3), {"groups": 32, "padding": 1, "stride": 1}),
    "one axis": ((8, 32, 500), (64, 32, 5), {"padding": 2}),
    "one channel": ((64, 1, 28, 28), (32, 1, 5, 5), {}),
}


@pytest.mark.parametrize("case, last", [
    ("padded", False), ("strided", True), ("depthwise", False), ("one axis", False),
])  # fmt: skip
def test_other_numbers_of_images_take_the_same_kernels(made, monkeypatch, case, last) -> None:
    """Fewer and more images than the kernels are made for; a number that goes on gets its own."""
    x_shape, w_shape, settings = CONVOLUTIONS[case]
    rng = np.random.default_rng(6)
    weight, bias = (rng.normal(size=s).astype(np.float32) for s in (w_shape, w_shape[:1]))
    convolve = F.conv1d if len(x_shape) == 3 else F.conv2d

    def kernels_for(count: int) -> list[int]:
        """How many images each kernel was made for that such a call took."""
        x = rng.normal(size=(count, *x_shape[1:])).astype(np.float32)

        def results() -> list[np.ndarray]:
            function = lambda x, w, b: convolve(x, w, b, **settings)  # noqa: E731
            return gradients(function, x, weight, bias, last=last)

        made.clear()
        found, used = results(), [key[-1] for key in made if key[0] != "in order"]
        with monkeypatch.context() as without:
            without.setattr(conv_native, "_LEAST", 1 << 62)
            expected = results()
        for one, right in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, right, 1e-4, 1e-4 * np.abs(right).max())
        return used

    count = x_shape[0]
    assert kernels_for(count) == [] and kernels_for(count) == [count] * 3
    assert kernels_for(count - 3) == [count] * 3 and kernels_for(2 * count + 1) == [count] * 3
    for key in [*batches._calls]:
        batches._calls[key] = batches._PATIENT
    kernels_for(count - 3)
    assert kernels_for(count - 3) == [count - 3] * 3


@pytest.mark.parametrize("shape, outputs", [
    ((8, 64, 14, 14), 48), ((4, 96, 3, 3), 128), ((1, 32, 40, 40), 24), ((8, 32, 300), 40),
])  # fmt: skip
def test_one_tap_is_a_product(made, monkeypatch, shape: tuple, outputs: int) -> None:
    """Of images with rows innermost, with many pixels and with few: no convolution's kernel."""
    monkeypatch.setattr(matmul_native, "_LEAST", 1)
    monkeypatch.setattr(matmul_native, "_PATIENT", 1)
    monkeypatch.setattr(matmul_native, "_calls", {})
    monkeypatch.setattr(matmul_native, "_plans", {})
    monkeypatch.setattr(matmul_native, "kernel_asked_for",
                        lambda key, build: eager.kernel_asked_for(key, build))  # fmt: skip
    rng = np.random.default_rng(5)
    w_shape = (outputs, shape[1], *(1,) * (len(shape) - 2))
    arrays = [rng.normal(size=s).astype(np.float32) for s in (shape, w_shape, (outputs,))]
    expected = gradients(lambda x, w, b: (
        flambeau.einsum("oc,nc...->no...", w.flatten(1), x) + b.view(-1, *w_shape[2:])
    ), *[a.astype(np.float64) for a in arrays])  # fmt: skip
    convolve = F.conv1d if len(shape) == 3 else F.conv2d
    for kernels in (0, 3):
        made.clear()
        found = gradients(convolve, *arrays)
        assert [key[0] for key in made] == ["product"] * kernels
        for one, right in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, right, 1e-4, 1e-5 * np.abs(right).max())


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolution(made, case: str, last: bool) -> None:
    x_shape, w_shape, settings = CONVOLUTIONS[case]
    if last and len(x_shape) != 4:
        pytest.skip("channels_last is for images")
    rng = np.random.default_rng(5)
    arrays = [rng.normal(size=s).astype(np.float32) for s in (x_shape, w_shape, w_shape[:1])]
    convolve = F.conv1d if len(x_shape) == 3 else F.conv2d

    def work(x, w, b):
        return convolve(x, w, b, **settings)

    first = gradients(work, *arrays, last=last)
    assert not made
    second = gradients(work, *arrays, last=last)
    assert sum(key[0] != "in order" for key in made) == 3
    for before, after in zip(first, second, strict=True):
        assert before.shape == after.shape
        np.testing.assert_allclose(after, before, 1e-4, 1e-4 * np.abs(before).max())


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("settings", [(2, 2, 0), (3, 2, 1), (3, 3, 0)])
def test_max_pool(made, settings: tuple[int, int, int], last: bool) -> None:
    x = np.random.default_rng(6).integers(0, 50, (4, 19, 37, 41)).astype(np.float32)

    def work(x):
        return F.max_pool2d(x, *settings, ceil_mode=True)

    first = gradients(work, x, last=last)
    second = gradients(work, x, last=last)
    assert len(made) == 2
    for before, after in zip(first, second, strict=True):
        np.testing.assert_allclose(after, before, 1e-6, 1e-6)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("settings", [(2, 2, 0, True), (3, 2, 1, True), (3, 2, 1, False)])
def test_average_pool(made, settings: tuple, last: bool) -> None:
    x = np.random.default_rng(7).normal(size=(4, 19, 37, 41)).astype(np.float32)
    kernel, stride, padding, pads = settings

    def work(x):
        return F.avg_pool2d(x, kernel, stride, padding, True, pads)

    first = gradients(work, x, last=last)
    second = gradients(work, x, last=last)
    assert len(made) == 2
    for before, after in zip(first, second, strict=True):
        assert before.shape == after.shape
        np.testing.assert_allclose(after, before, 1e-5, 1e-6)


def test_gradient_that_is_one_number(made) -> None:
    """A sum's gradient is one number seen everywhere: strides of 0."""
    x, w = flambeau.ones(8, 16, 20, 20), flambeau.ones(32, 16, 3, 3, requires_grad=True)
    for _ in range(2):
        w.grad = None
        F.conv2d(x, w).sum().backward()
    assert made
    assert w.grad.eq(8 * 18 * 18).all()
