"""Operators that run in machine code on large arrays, beside the same by NumPy."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest

import flambeau as torch
from flambeau.native.runtime import background_jit, fast_call
from flambeau.native.runtime.background_jit import KernelPolicy
from flambeau.native.runtime.thread_pool import POOL
from flambeau.ops.native import embedding, pointwise, row_copies, transpose

F = torch.nn.functional
MODULES = (
    "native.rows", "native.pointwise", "native.embedding", "activation.softmax",
    "normalization.norm_arrays", "loss.elementwise", "reduction.scan", "indexing.index",
    "indexing.embedding", "indexing.mask",
)
THRESHOLDS = (
    "MAX_COUNTED_ROW_ELEMENTS", "MAX_NUMPY_ROW_ELEMENTS", "MAX_NUMPY_SUM_ELEMENTS",
    "MAX_NUMPY_POINTWISE_ELEMENTS", "MAX_NUMPY_COSTLY_ELEMENTS", "MAX_NUMPY_EMBEDDING_ELEMENTS",
)


@pytest.fixture(autouse=True, params=[1, 2])
def any_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """Kernels for any number of elements, on one thread and on two."""
    for name in MODULES:
        for limit in THRESHOLDS:
            monkeypatch.setattr(sys.modules[f"flambeau.ops.{name}"], limit, 0, raising=False)
    monkeypatch.setattr(pointwise, "MAX_NUMPY_CHEAP_ELEMENTS", 0)
    for name in ("creation.conversion", "core.dispatch", "core.function_writer", "core.promotion",
                 "pointwise.extrema", "pointwise.rounding"):
        monkeypatch.setattr(sys.modules[f"flambeau.ops.{name}"], "MAX_NUMPY_COSTLY_ELEMENTS", 0)
    monkeypatch.setattr(fast_call, "MAX_SINGLE_THREAD_ELEMENTS", 0)
    before = POOL.threads()
    POOL.set_threads(request.param)
    yield
    POOL.set_threads(before)


def both(monkeypatch, function):
    """What machine code gives once all kernels are there, and what NumPy does."""
    monkeypatch.setattr(KernelPolicy, "allowed", False)
    expected = function()
    monkeypatch.setattr(KernelPolicy, "allowed", True)
    for _ in range(5):  # some kernels are asked for when they come up again
        function()
        until = time.monotonic() + 120
        while background_jit._active_threads:
            assert time.monotonic() < until, "no kernel came"
            time.sleep(0.002)
    calls = []
    real, shared = pointwise.call_kernel, embedding.call_on_threads
    for name in ("native.pointwise", "native.rows", "native.embedding"):
        monkeypatch.setattr(sys.modules[f"flambeau.ops.{name}"], "call_kernel",
                            lambda *a: (calls.append(a), real(*a)))
    monkeypatch.setattr(embedding, "call_on_threads", lambda *a: (calls.append(a), shared(*a)))
    actual = function()
    assert calls, "no kernel was called"
    return actual, expected


def agree(monkeypatch, function, rtol: float = 1e-5) -> None:
    for actual, want in zip(*both(monkeypatch, function), strict=True):
        assert actual.dtype == want.dtype
        assert actual.shape == want.shape
        np.testing.assert_allclose(actual.double().numpy(), want.double().numpy(), rtol, 1e-5)


def data(*shape: int, dtype=torch.float32):
    torch.manual_seed(len(shape))
    return torch.randn(*shape, dtype=dtype)


UNARY = {
    "logsumexp": lambda x: x.logsumexp(-1), "logsumexp kept": lambda x: x.logsumexp(1, True),
    "cumsum": lambda x: x.cumsum(1), "clamp": lambda x: x.clamp(-0.5, 0.5),
    "clamp below": lambda x: x.clamp(min=0.25), "clamp above": lambda x: x.clamp(max=1),
    "masked_fill": lambda x: x.masked_fill(x > 0, 7.0),
    "masked_fill of rows": lambda x: x.masked_fill(x[0] > 0, -np.inf),
    "half": lambda x: x.half(), "bfloat16": lambda x: x.bfloat16(), "double": lambda x: x.double(),
    "from half": lambda x: x.half().float(), "from int": lambda x: x.long().float(),
    "from bool": lambda x: (x > 0).double(), "from bfloat16": lambda x: x.bfloat16().half(),
}


@pytest.mark.parametrize("shape", [(1, 1), (3, 17), (67, 130)])
@pytest.mark.parametrize("name", UNARY)
def test_of_one_tensor(name, shape, monkeypatch) -> None:
    x = data(*shape)
    agree(monkeypatch, lambda: (UNARY[name](x),))


OF_TWO = {
    "lerp": lambda x, y: torch.lerp(x, y, 0.3), "lerp near": lambda x, y: torch.lerp(x, y, 0.8),
    "addcmul": lambda x, y: torch.addcmul(x, y, x, value=0.5),
    "addcdiv": lambda x, y: torch.addcdiv(x, y, x.abs() + 1, value=-2),
    "relu6": lambda x, y: F.relu6(x * 9), "hardshrink": lambda x, y: F.hardshrink(x, 0.2),
    "threshold": lambda x, y: F.threshold(x, -0.0, 20), "sign": lambda x, y: x.sign(),
    "alpha": lambda x, y: torch.add(x, y, alpha=0.25),
    "an int added": lambda x, y: x + y.mul(9).long(), "a bool": lambda x, y: x * (y > 0),
    "two floats": lambda x, y: x - y.double(), "ints": lambda x, y: x.mul(9).long() * 3,
    "ints compared": lambda x, y: x.mul(9).long() >= y.mul(9).long(),
    "bytes": lambda x, y: x.abs().mul(99).byte() + y.abs().mul(99).byte(),
    "ints divided": lambda x, y: x.mul(9).int() / 7,
    "turned": lambda x, y: x * y.t(), "turned first": lambda x, y: x.t() - y,
    "a window": lambda x, y: x[:, :180].sigmoid() * y[:, 20:],
    "a column of a matrix": lambda x, y: x + y[:, 3:4],
    "clipped in place": lambda x, y: x.clone().clamp_(-0.5, 0.5),
    "added in place": lambda x, y: x.clone().add_(y, alpha=0.1),
    "in place": lambda x, y: x.clone().lerp_(y, 0.1).relu_(),
    "in place by rows": lambda x, y: x.clone().mul_(y[0]).addcmul_(y, y, value=0.5),
}


@pytest.mark.parametrize("name", OF_TWO)
def test_of_two_tensors(name, monkeypatch) -> None:
    for module in (transpose, row_copies):
        monkeypatch.setattr(module, "MIN_STRIDED_COPY_BYTES", 0)
    x, y = data(200, 200), data(1, 200, 200)[0]
    x[0, 0], x[1, 1] = np.nan, -0.0
    agree(monkeypatch, lambda: (OF_TWO[name](x, y),))


def test_settings_that_are_equal_but_not_the_same(monkeypatch) -> None:
    x = data(200, 200)
    for value in (0.0, -0.0):
        actual, _ = both(monkeypatch, lambda v=value: (F.threshold(x, 5.0, v),))
        assert bool((torch.signbit(actual[0]) == (value == 0 and str(value) == "-0.0")).all())


def test_in_place_on_what_overlaps(monkeypatch) -> None:
    def moved():
        x = torch.arange(80000.0)
        rows = x.view(200, 400)
        rows[:, 1:].lerp_(rows[:, :-1], 0.5)
        rows[:, :-7].add_(rows[:, 7:])
        rows[:, 10:].lerp_(rows[:, :-10], 0.5)
        return (x,)

    monkeypatch.setattr(KernelPolicy, "allowed", False)
    (expected,) = moved()
    monkeypatch.setattr(KernelPolicy, "allowed", True)
    for _ in range(4):
        (actual,) = moved()
    torch.testing.assert_close(actual, expected)


def test_logsumexp_of_infinities(monkeypatch) -> None:
    x = torch.tensor([[1.0, -np.inf], [-np.inf, -np.inf], [np.inf, 1.0], [np.nan, 1.0]])
    agree(monkeypatch, lambda: (x.logsumexp(-1),))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", ["mse_loss", "smooth_l1_loss", "huber_loss"])
@pytest.mark.parametrize("shape", [(5,), (4097,), (90, 91)])
def test_losses(name, shape, reduction, monkeypatch) -> None:
    x, t = data(*shape), data(*shape) * 2
    agree(monkeypatch, lambda: (getattr(F, name)(x, t, reduction=reduction),), 1e-4)


@pytest.mark.parametrize("shape", [(3, 4, 2, 5), (2, 8, 33), (5, 4, 1, 2)])
@pytest.mark.parametrize("layer", [torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.GroupNorm])
def test_norms(layer, shape, monkeypatch) -> None:
    if layer is not torch.nn.GroupNorm and (len(shape) == 4) != (layer is torch.nn.BatchNorm2d):
        pytest.skip("another rank")
    norm = layer(2, shape[1]) if layer is torch.nn.GroupNorm else layer(shape[1])
    x, g = data(*shape).requires_grad_(), data(*shape)
    with torch.no_grad():
        norm.weight.copy_(data(shape[1]))

    def run():
        x.grad = norm.weight.grad = norm.bias.grad = None
        y = norm(x)
        y.backward(g)
        return y.detach(), x.grad, norm.weight.grad, norm.bias.grad

    agree(monkeypatch, run, 1e-4)


@pytest.mark.parametrize("width", [1, 7, 16, 40])
@pytest.mark.parametrize("shape", [(1,), (9,), (3, 11)])
def test_table_rows(shape, width, monkeypatch) -> None:
    table, g = data(13, width).requires_grad_(), data(*shape, width)
    numbers = torch.randint(13, shape)

    def run():
        table.grad = None
        F.embedding(numbers, table).backward(g)
        first, table.grad = table.grad, None
        y = table[numbers]
        y.backward(g)
        return y.detach(), first, table.grad

    agree(monkeypatch, run)


def test_numbers_of_no_row(monkeypatch) -> None:
    table = data(5, 3)
    numbers = torch.tensor([0, -1, -5])
    both_ways = both(monkeypatch, lambda: table[numbers.abs() % 5])
    assert torch.equal(*both_ways)
    np.testing.assert_array_equal(table[numbers].numpy(), table.numpy()[numbers.numpy()])
    for wrong in (5, -6):
        with pytest.raises(IndexError):
            table[torch.tensor([0, wrong])]
