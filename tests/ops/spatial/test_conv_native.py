"""Convolutions of large arrays: machine code gives what NumPy gives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau.native.runtime import eager_kernels
from flambeau.native.runtime import background_jit
from flambeau.native.jit.kernel_function import compile_kernel
from flambeau.native.codegen.conv.direct_blocking import Unsupported
from flambeau.ops.spatial import conv_kernel_choice, conv_native
from flambeau.ops.native import matmul, static_shape_kernels


@pytest.fixture
def requests(monkeypatch) -> list:
    """Kernels are made at once; the list fills with the keys of those that were used."""
    used: list = []
    known: dict = {}

    def at_once(key, builder: Callable, weight: float = 1, at_once: bool = False):
        used.append(key)
        if key not in known:
            try:
                known[key] = compile_kernel(builder())
            except Unsupported:
                known[key] = None
        return known[key]

    monkeypatch.setattr(background_jit, "request_kernel", at_once)
    monkeypatch.setattr(static_shape_kernels, "_calls", background_jit.CallCounts(1024, False))
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


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("case", ["padded", "strided", "grouped", "one axis"])
def test_new_shapes_take_the_kernels_that_are_there(requests, monkeypatch, case, last) -> None:
    """Numbers and sizes of images that no call had before; none gets a kernel of its own."""
    x_shape, w_shape, settings = CONVOLUTIONS[case]
    if last and len(x_shape) != 4:
        pytest.skip("channels_last is for images")
    rng = np.random.default_rng(6)
    weight, bias = (rng.normal(size=s).astype(np.float32) for s in (w_shape, w_shape[:1]))
    convolve = F.conv1d if len(x_shape) == 3 else F.conv2d
    for count, more in ((8, 0), (3, 0), (19, 1), (5, 12)):
        shape = (count, x_shape[1], *(n + more for n in x_shape[2:]))
        x = rng.normal(size=shape).astype(np.float32)
        results = []
        for least in (1, 1 << 62):
            monkeypatch.setattr(conv_native, "MIN_CONV_MULTIPLICATIONS", least)
            function = lambda x, w, b: convolve(x, w, b, **settings)  # noqa: E731
            results.append(gradients(function, x, weight, bias, last=last))
        for actual, right in zip(*results, strict=True):
            np.testing.assert_allclose(actual, right, 1e-4, 1e-4 * np.abs(right).max())
    assert {key[0] for key in requests} <= {"any convolution", "in order"}
    assert len({key for key in requests if key[0] != "in order"}) == 2


def test_shapes_that_come_often_get_kernels_of_their_own(requests, monkeypatch) -> None:
    """From a certain call on, and only where that saves something."""
    monkeypatch.setattr(conv_kernel_choice, "CONV_CALLS_BEFORE_COMPILING", 3)
    monkeypatch.setattr(conv_kernel_choice, "CONV_CALLS_BEFORE_USE", 6)
    rng = np.random.default_rng(7)
    square, wide = (rng.normal(size=(32, 32, n, n)).astype(np.float32) for n in (3, 5))
    x = rng.normal(size=(4, 32, 24, 24)).astype(np.float32)
    for weight, last in ((square, False), (wide, False), (wide, True)):
        first, used = None, []
        for _ in range(conv_kernel_choice.CONV_CALLS_BEFORE_USE + 1):
            requests.clear()
            results = gradients(lambda x, w: F.conv2d(x, w, padding=1), x, weight, last=last)
            used.append({key[0] for key in requests})
            first = results if first is None else first
            for actual, right in zip(results, first, strict=True):
                np.testing.assert_allclose(actual, right, 1e-3, 1e-4 * np.abs(right).max())
        for call, kinds in enumerate(used, 1):
            own = call == conv_kernel_choice.CONV_CALLS_BEFORE_COMPILING \
                or call >= conv_kernel_choice.CONV_CALLS_BEFORE_USE
            assert ("convolution" in kinds) == (own and (last or weight is square))


def test_depthwise_results_have_the_layout_of_their_images(requests, monkeypatch) -> None:
    """Channels innermost in, channels innermost out, and the same numbers."""
    rng, is_contiguous = np.random.default_rng(6), []
    for count, size, stride, dilation in ((8, 3, 1, 1), (3, 5, 2, 1), (5, 2, 3, 2), (2, 1, 2, 1)):
        weight = rng.normal(size=(32, 1, size, 3)).astype(np.float32)
        x = rng.normal(size=(count, 32, 20, 22 + count)).astype(np.float32)
        bias = rng.normal(size=32).astype(np.float32)

        def work(x, w, b, stride=stride, dilation=dilation):
            y = F.conv2d(x, w, b, stride, 2, dilation, 32)
            is_contiguous.append(y.is_contiguous(memory_format=flambeau.channels_last))
            return y

        results = []
        for least in (1, 1 << 62):
            monkeypatch.setattr(conv_native, "MIN_CONV_MULTIPLICATIONS", least)
            results.append(gradients(work, x, weight, bias, last=True))
        assert is_contiguous[-2]  # by kernels
        for actual, right in zip(*results, strict=True):
            np.testing.assert_allclose(actual, right, 1e-4, 1e-4 * np.abs(right).max())
    wanted = {eager_kernels.DEPTHWISE_WINDOWS, eager_kernels.DEPTHWISE_WEIGHT}
    assert {key[0] for key in requests} >= wanted


def test_gradients_of_depthwise_images_that_give_two_each(requests, monkeypatch) -> None:
    """Two results for each channel: not of the kernels whose channels are innermost."""
    rng = np.random.default_rng(7)
    weight = rng.normal(size=(64, 1, 3, 3)).astype(np.float32)
    x = rng.normal(size=(4, 32, 15, 15)).astype(np.float32)

    def work(x, w):
        return F.conv2d(x, w, None, 2, 1, 1, 32).permute(0, 2, 3, 1)  # gradients lie as it does

    results = []
    for least in (1, 1 << 62):
        monkeypatch.setattr(conv_native, "MIN_CONV_MULTIPLICATIONS", least)
        results.append(gradients(work, x, weight, last=True))
    for actual, right in zip(*results, strict=True):
        assert actual.shape == right.shape
        np.testing.assert_allclose(actual, right, 1e-4, 1e-4 * np.abs(right).max())


def test_depthwise_kernels_take_all_shapes(requests, monkeypatch) -> None:
    x_shape, w_shape, settings = CONVOLUTIONS["depthwise"]
    rng = np.random.default_rng(6)
    keys = set()
    for count, size in ((8, 3), (8, 5), (5, 1), (11, 2)):
        weight = rng.normal(size=(*w_shape[:2], size, 3)).astype(np.float32)
        x = rng.normal(size=(count, *x_shape[1:3], 30 + count)).astype(np.float32)
        results = []
        for least in (1, 1 << 62):
            monkeypatch.setattr(conv_native, "MIN_CONV_MULTIPLICATIONS", least)
            results.append(gradients(lambda x, w: F.conv2d(x, w, **settings), x, weight))
            keys |= set(requests)
        for actual, right in zip(*results, strict=True):
            np.testing.assert_allclose(actual, right, 1e-4, 1e-4 * np.abs(right).max())
    assert len(keys) == 2  # forward and back to the input are one


@pytest.mark.parametrize("shape, outputs", [
    ((8, 64, 14, 14), 48), ((4, 96, 3, 3), 128), ((1, 32, 40, 40), 24), ((8, 32, 300), 40),
])
def test_one_tap_is_a_product(requests, monkeypatch, shape: tuple, outputs: int) -> None:
    """Of images with rows innermost, with many pixels and with few: no convolution's kernel."""
    monkeypatch.setattr(matmul, "MIN_PRODUCT_MULTIPLICATIONS", 1)
    monkeypatch.setattr(matmul, "PRODUCT_CALLS_BEFORE_USE", 2)
    monkeypatch.setattr(matmul, "_calls", background_jit.CallCounts(64, False))
    monkeypatch.setattr(matmul, "_plans", {})
    monkeypatch.setattr(matmul, "request_kernel",
                        lambda key, build: background_jit.request_kernel(key, build))
    rng = np.random.default_rng(5)
    w_shape = (outputs, shape[1], *(1,) * (len(shape) - 2))
    arrays = [rng.normal(size=s).astype(np.float32) for s in (shape, w_shape, (outputs,))]
    expected = gradients(lambda x, w, b: (
        flambeau.einsum("oc,nc...->no...", w.flatten(1), x) + b.view(-1, *w_shape[2:])
    ), *[a.astype(np.float64) for a in arrays])
    convolve = F.conv1d if len(shape) == 3 else F.conv2d
    for kernels in (0, 3):
        requests.clear()
        results = gradients(convolve, *arrays)
        assert [key[0] for key in requests] == ["product"] * kernels
        for actual, right in zip(results, expected, strict=True):
            np.testing.assert_allclose(actual, right, 1e-4, 1e-5 * np.abs(right).max())


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolution(requests, monkeypatch, case: str, last: bool) -> None:
    x_shape, w_shape, settings = CONVOLUTIONS[case]
    if last and len(x_shape) != 4:
        pytest.skip("channels_last is for images")
    rng = np.random.default_rng(5)
    arrays = [rng.normal(size=s).astype(np.float32) for s in (x_shape, w_shape, w_shape[:1])]
    convolve = F.conv1d if len(x_shape) == 3 else F.conv2d

    def work(x, w, b):
        return convolve(x, w, b, **settings)

    second = gradients(work, *arrays, last=last)
    second = gradients(work, *arrays, last=last)
    assert sum(key[0] != "in order" for key in requests) >= 3
    monkeypatch.setattr(conv_native, "MIN_CONV_MULTIPLICATIONS", 1 << 62)
    first = gradients(work, *arrays, last=last)
    for before, after in zip(first, second, strict=True):
        assert before.shape == after.shape
        np.testing.assert_allclose(after, before, 1e-4, 1e-4 * np.abs(before).max())


def test_gradient_that_is_one_number(requests) -> None:
    """A sum's gradient is one number seen everywhere: strides of 0."""
    x, w = flambeau.ones(8, 16, 20, 20), flambeau.ones(32, 16, 3, 3, requires_grad=True)
    for _ in range(2):
        w.grad = None
        F.conv2d(x, w).sum().backward()
    assert requests
    assert w.grad.eq(8 * 18 * 18).all()


@pytest.mark.parametrize("groups", [1, 2, 32])
@pytest.mark.parametrize("transposed", [False, True])
def test_the_first_convolution_rounds_as_later_ones(
    transposed: bool, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for table in ("_ready", "_compiling"):
        monkeypatch.setattr(background_jit, table, {})
    generator = np.random.default_rng(0)
    x = flambeau.tensor(generator.standard_normal((2, 32, 24, 24), np.float32))
    w = flambeau.tensor(generator.standard_normal((32, 32 // groups, 3, 3), np.float32))

    def convolve() -> list[np.ndarray]:
        leaves = [x.clone().requires_grad_(), w.clone().requires_grad_()]
        y = (F.conv_transpose2d if transposed else F.conv2d)(*leaves, groups=groups)
        y.backward(y.detach())
        return [y.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves)]

    for first, later in zip(convolve(), convolve(), strict=True):
        np.testing.assert_array_equal(first, later)


def test_small_grouped_convolutions_take_kernels(requests) -> None:
    """NumPy takes a product for each group: 20 ms for the gradient of this one."""
    x = flambeau.ones(4, 96, 4, 4, requires_grad=True)
    w = flambeau.ones(96, 1, 5, 5)
    F.conv2d(x, w, stride=2, padding=2, groups=96).sum().backward()
    assert [key[0] for key in requests] == ["depthwise"] * 2
    assert x.grad[0, 0].tolist() == [[4, 4, 4, 2], [4, 4, 4, 2], [4, 4, 4, 2], [2, 2, 2, 1]]
