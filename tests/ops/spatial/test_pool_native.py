"""Pooling of large arrays: machine code, of any size, gives what NumPy gives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau.native.runtime import background_jit
from flambeau.native.runtime.background_jit import CallCounts
from flambeau.native.jit.kernel_function import compile_kernel
from flambeau.ops.spatial.pooling import pool_native


@pytest.fixture
def requests(monkeypatch) -> list:
    """Kernels are made at once, for small arrays too; the keys of those that were used."""
    used: list = []
    known: dict = {}

    def at_once(key, builder: Callable, exact: bool = False, weight: float = 1):
        used.append(key)
        if key not in known:
            known[key] = compile_kernel(builder())
        return known[key]

    monkeypatch.setattr(background_jit, "request_kernel", at_once)
    monkeypatch.setattr(pool_native, "MIN_POOLED_ELEMENTS", 1)
    # Below that size NumPy pools, however many calls other tests have made.
    monkeypatch.setattr(pool_native, "_small_calls", CallCounts(0))
    return used


def gradients(function: Callable, x: np.ndarray, last: bool) -> list[np.ndarray]:
    """The result, and the gradient of a sum that weighs its elements."""
    tensor = flambeau.tensor(x).requires_grad_()
    leaf = tensor
    if last:
        layout = {4: flambeau.channels_last, 5: flambeau.channels_last_3d}[x.ndim]
        leaf = tensor.contiguous(memory_format=layout)
    y = function(leaf)
    weights = flambeau.linspace(-1, 1, y.numel(), dtype=y.dtype).reshape(y.shape)
    (y * weights).sum().backward()
    return [y.detach().numpy(), tensor.grad.numpy()]


def agrees(monkeypatch, function: Callable, x: np.ndarray, last: bool = False) -> None:
    """Machine code and NumPy give the same."""
    results = gradients(function, x, last)
    with monkeypatch.context() as context:
        context.setattr(pool_native, "MIN_POOLED_ELEMENTS", 1 << 62)
        right = gradients(function, x, last)
    near = 1e-4 if x.dtype == np.float32 else 1e-12
    for first, second in zip(results, right, strict=True):
        assert first.shape == second.shape
        np.testing.assert_allclose(first, second, near, near)


def pooling(name: str, *settings, **named) -> Callable:
    return lambda x: getattr(F, name)(x, *settings, **named)


SHAPES = {
    1: ((2, 3, 7), (1, 1, 1), (3, 257)),
    2: ((2, 3, 1, 1), (3, 5, 7, 11), (2, 17, 8, 6), (19, 13), (1, 2, 33, 2), (0, 3, 5, 5)),
    3: ((2, 3, 4, 5, 6), (1, 1, 1, 1, 7)),
}
WINDOWS = ((1, 1, 0), (2, 2, 0), (2, 2, 1), (3, 2, 1), (3, 1, 1), (5, 3, 2), (4, 1, 2), (2, 5, 1))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_windows(requests, monkeypatch, n: int, kind: type) -> None:
    rng = np.random.default_rng(6)
    for shape in SHAPES[n]:
        shape = (2, *shape) if len(shape) < n + 1 else shape
        x = rng.integers(0, 50, shape).astype(kind)
        for window in WINDOWS:
            if any(m + 2 * window[2] < window[0] for m in shape[-n:]):
                continue
            for last in (False, True)[: 1 + (len(shape) > 3 and len(shape) == n + 2)]:
                for ceil in (False, True):
                    agrees(monkeypatch, pooling(f"max_pool{n}d", *window, ceil_mode=ceil), x, last)
                    for padded in (False, True):
                        if n == 3 and min(shape[-n:]) < window[0]:
                            continue  # refused, whatever the padding
                        agrees(monkeypatch, pooling(f"avg_pool{n}d", *window, ceil, padded),
                               x, last)
    assert requests


@pytest.mark.parametrize("n", [1, 2, 3])
def test_even_windows(requests, monkeypatch, n: int) -> None:
    rng = np.random.default_rng(7)
    for shape in SHAPES[n]:
        shape = (2, *shape) if len(shape) < n + 1 else shape
        x = rng.normal(size=shape).astype(np.float32)
        for count in (1, 2, 3, 7, 12):
            for last in (False, True)[: 1 + (len(shape) > 3 and len(shape) == n + 2)]:
                agrees(monkeypatch, pooling(f"adaptive_avg_pool{n}d", count), x, last)
                if 0 not in shape:
                    agrees(monkeypatch, pooling(f"adaptive_max_pool{n}d", count), x, last)


def test_dilation_and_other_divisors(requests, monkeypatch) -> None:
    x = np.random.default_rng(8).normal(size=(2, 3, 14, 15)).astype(np.float32)
    for dilation in (2, 3):
        agrees(monkeypatch, pooling("max_pool2d", 3, 2, 1, dilation), x)
        agrees(monkeypatch, pooling("max_pool2d", (2, 4), (1, 3), (1, 2), dilation), x, True)
    agrees(monkeypatch, pooling("avg_pool2d", 3, 2, 1, divisor_override=5), x)
    agrees(monkeypatch, pooling("lp_pool2d", 2, 3), x)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_places(requests, monkeypatch, n: int) -> None:
    """Of equal maxima the first counts; of several NaN the last, as in PyTorch."""
    x = np.random.default_rng(9).integers(0, 4, (2, 3, *(9,) * n)).astype(np.float32)
    name = f"max_pool{n}d"
    for spoilt in (False, True):
        if spoilt:
            x[0, 0] = np.nan
        for window in ((2, 2, 0), (3, 2, 1), (3, 1, 1), (4, 3, 2)):
            results = []
            for least in (1, 1 << 62):
                monkeypatch.setattr(pool_native, "MIN_POOLED_ELEMENTS", least)
                y, places = getattr(F, name)(flambeau.tensor(x), *window, return_indices=True)
                results.append((y.numpy(), places.numpy()))
            for first, second in zip(*results, strict=True):
                np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_tangents_of_maxima(requests, monkeypatch, n: int) -> None:
    """Of equal maxima the first one's tangent counts."""
    rng = np.random.default_rng(9)
    x = flambeau.tensor(rng.integers(0, 4, (2, 3, *(9,) * n)).astype(np.float32))
    t = flambeau.tensor(rng.normal(size=x.shape).astype(np.float32))
    pool = getattr(F, f"max_pool{n}d")
    for window in ((2, 2, 0), (3, 2, 1), (3, 1, 1), (4, 3, 2)):
        _, places = pool(x, *window, return_indices=True)
        expected = t.flatten(2).gather(2, places.flatten(2)).reshape(places.shape)
        for least in (1, 1 << 62):
            monkeypatch.setattr(pool_native, "MIN_POOLED_ELEMENTS", least)
            pushed = flambeau.func.jvp(lambda x, w=window: pool(x, *w), (x,), (t,))[1]
            np.testing.assert_array_equal(pushed.numpy(), expected.numpy())


@pytest.mark.parametrize("last", [False, True])
def test_all_shapes_take_the_same_kernels(requests, last: bool) -> None:
    rng = np.random.default_rng(10)
    for count in range(2, 30):
        x = rng.normal(size=(count % 3 + 1, count, count + 3, 2 * count)).astype(np.float32)
        for kernel, stride in ((2, 2), (3, 2), (2 + count % 3, 2)):
            gradients(pooling("max_pool2d", kernel, stride, 1), x, last)
            gradients(pooling("avg_pool2d", kernel, stride, 1), x, last)
        gradients(pooling("adaptive_avg_pool2d", 1 + count % 5), x, last)
    assert len(set(requests)) <= 6


@pytest.mark.parametrize("kind", [flambeau.float16, flambeau.bfloat16])
def test_half_precision(requests, monkeypatch, kind) -> None:
    x = flambeau.randn(2, 3, 14, 15).to(kind)
    for work in (pooling("max_pool2d", 3, 2, 1), pooling("avg_pool2d", 3, 2, 1),
                 pooling("adaptive_avg_pool2d", 5)):
        results = []
        for least in (1, 1 << 62):
            monkeypatch.setattr(pool_native, "MIN_POOLED_ELEMENTS", least)
            tensor = x.clone().requires_grad_()
            y = work(tensor)
            y.sum().backward()
            results.append((y, tensor.grad))
        for first, second in zip(*results, strict=True):
            assert first.dtype == second.dtype == kind
            assert flambeau.allclose(first.float(), second.float(), 1e-2, 1e-2)
    assert requests


def test_small_arrays_use_a_kernel_after_many_calls(requests, monkeypatch) -> None:
    monkeypatch.setattr(pool_native, "MIN_POOLED_ELEMENTS", 1 << 62)
    monkeypatch.setattr(pool_native, "_small_calls", CallCounts(8))
    monkeypatch.setattr(background_jit, "CALLS_BEFORE_COMPILING", 2)
    monkeypatch.setattr(background_jit, "CALLS_BEFORE_USE", 5)
    x, used = flambeau.randn(1, 2, 6, 6), []
    for _ in range(8):
        F.max_pool2d(x, 2)
        used.append(len(requests))
    assert used == [0, 0, 1, 1, 1, 2, 3, 4]


@pytest.mark.parametrize("kernel", [2, 7])
def test_a_window_that_is_the_image(requests, monkeypatch, kernel: int) -> None:
    x = np.random.default_rng(11).normal(size=(300, 70, kernel, kernel)).astype(np.float32)
    agrees(monkeypatch, pooling("avg_pool2d", kernel), x)


def test_unpooling(requests) -> None:
    """Large ones by a kernel, small ones by NumPy; both refuse places outside of the image."""
    for images in (1, 64):
        x = flambeau.rand(images, 3, 14, 16)
        y, places = F.max_pool2d(x, 2, return_indices=True)
        y.requires_grad_()
        for _ in range(3):
            back = F.max_unpool2d(y, places, 2)
            assert flambeau.equal(F.max_pool2d(back, 2), y)
            assert int((back != 0).sum()) == y.numel()
            y.grad = None
            (back * flambeau.arange(14 * 16.0).reshape(14, 16)).sum().backward()
            assert flambeau.equal(y.grad, places.float())
        for wrong in (-1, 14 * 16):
            bad = places.clone()
            bad[0, 1, 2, 3] = wrong
            with pytest.raises(RuntimeError, match=f"invalid max index: {wrong}"):
                F.max_unpool2d(y, bad, 2)
