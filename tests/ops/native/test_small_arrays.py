"""SmallArrayKernels arrays in machine code: the same values as NumPy's, from a fixed call on."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.native.runtime.background_jit import KernelPolicy, SmallArrayKernels
from flambeau.ops.native import small_arrays

F = torch.nn.functional
SPECIAL = [[1.0, -np.inf, 2.0, 0.5], [np.inf, 0.0, 1.0, 2.0], [np.nan, 1.0, 2.0, 3.0],
           [-np.inf] * 4]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels from the second call on."""
    monkeypatch.setattr(SmallArrayKernels, "CALLS_BEFORE_COMPILING", 1)
    monkeypatch.setattr(SmallArrayKernels, "CALLS_BEFORE_USE", 2)
    for table in tables():
        table.clear()
        table.calls.clear()


def tables() -> list[SmallArrayKernels]:
    small_tables = []
    for value in vars(small_arrays).values():
        small_tables += [value] if isinstance(value, SmallArrayKernels) else []
        if isinstance(value, dict) and not isinstance(value, SmallArrayKernels):
            small_tables += [entry for entry in value.values()
                             if isinstance(entry, SmallArrayKernels)]
    return small_tables


def both(monkeypatch, function):
    """What NumPy gives, and what a kernel does."""
    monkeypatch.setattr(KernelPolicy, "allowed", False)
    expected = function()
    monkeypatch.setattr(KernelPolicy, "allowed", True)
    function()
    function()
    assert any(address for table in tables() for address in table.values())
    return function(), expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(4,), (1, 7), (3, 5), (2, 3, 17), (64, 1)])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax(name, shape, dtype, monkeypatch) -> None:
    torch.manual_seed(0)
    x = torch.randn(*shape, dtype=dtype)
    before = x.clone()
    for dim in (-1, len(shape) - 1):
        actual, want = both(monkeypatch, lambda d=dim: getattr(x, name)(d))
        np.testing.assert_allclose(actual.numpy(), want.numpy(), 1e-6, 1e-6)
    turned = x.flip(0).transpose(0, -1)
    actual, want = both(monkeypatch, lambda: getattr(turned, name)(-1))
    np.testing.assert_allclose(actual.numpy(), want.numpy(), 1e-6, 1e-6)
    assert torch.equal(x, before)


@pytest.mark.parametrize("dim", [1.0, True])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_axes_that_equal_integers_are_refused_once_the_kernel_is_ready(name, dim) -> None:
    x = torch.ones(2, 2)
    for _ in range(3):
        getattr(x, name)(1)
    assert getattr(small_arrays, name.upper())[np.dtype(np.float32)]
    with pytest.raises(TypeError, match=f"must be int, not {type(dim).__name__}"):
        getattr(x, name)(dim)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.filterwarnings("ignore")
def test_special_values(name, monkeypatch) -> None:
    x = torch.tensor(SPECIAL)
    actual, want = both(monkeypatch, lambda: getattr(x, name)(-1))
    np.testing.assert_allclose(actual.numpy(), want.numpy(), 1e-6, 1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("ignored", [-100, 1, 7])
def test_cross_entropy_where_a_class_is_ignored(ignored, reduction, dtype, monkeypatch) -> None:
    torch.manual_seed(0)
    x, target = torch.randn(6, 5, dtype=dtype), torch.tensor([1, 0, 1, 4, 3, 2])

    def step() -> torch.Tensor:
        leaf = x.clone().requires_grad_()
        loss = F.cross_entropy(leaf, target, ignore_index=ignored, reduction=reduction)
        loss.backward()
        return torch.cat([loss.detach()[None], leaf.grad.reshape(-1)])

    monkeypatch.setattr(KernelPolicy, "allowed", False)
    want = step()
    monkeypatch.setattr(KernelPolicy, "allowed", True)
    for _ in range(4):
        np.testing.assert_allclose(step().numpy(), want.numpy(), 1e-6, 1e-6)


def test_kernels_come_at_a_fixed_call(monkeypatch) -> None:
    monkeypatch.setattr(SmallArrayKernels, "CALLS_BEFORE_COMPILING", 2)
    monkeypatch.setattr(SmallArrayKernels, "CALLS_BEFORE_USE", 4)
    is_ready = [bool(small_arrays.SOFTMAX[np.dtype(np.float32)]) for _ in range(6)]
    assert is_ready == [False, False, False, True, True, True]


def test_none_for_other_dtypes() -> None:
    for kind in (np.int64, np.float16, bool):
        assert [small_arrays.SOFTMAX[np.dtype(kind)] for _ in range(5)] == [0] * 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("shape", [(1, 2), (4, 4), (33, 65)])
def test_cross_entropy(shape, reduction, dtype, monkeypatch) -> None:
    torch.manual_seed(0)
    x = torch.randn(*shape, dtype=dtype, requires_grad=True)
    t = torch.randint(shape[1], shape[:1])

    def run():
        x.grad = None
        loss = F.cross_entropy(x, t, reduction=reduction)
        loss.backward()
        return np.append(x.grad.numpy().ravel(), loss.item())

    actual, want = both(monkeypatch, run)
    np.testing.assert_allclose(actual, want, 1e-5, 1e-6)


def test_cross_entropy_of_no_class(monkeypatch) -> None:
    x, t = torch.randn(4, 3), torch.tensor([0, -100, 1, 2])
    actual, want = both(monkeypatch, lambda: F.cross_entropy(x, t))
    np.testing.assert_allclose(actual.item(), want.item(), 1e-6)
    for wrong in (3, -1):
        with pytest.raises(IndexError, match="out of bounds"):
            F.cross_entropy(x, torch.tensor([0, 1, wrong, 2]))
    assert np.isnan(F.cross_entropy(x * np.nan, t).item())


@pytest.mark.parametrize("weight", [False, True])
@pytest.mark.parametrize("shape", [(1, 4), (3, 1), (2, 3, 17)])
def test_layer_norm(shape, weight, monkeypatch) -> None:
    torch.manual_seed(0)
    x = torch.randn(*shape).requires_grad_()
    w, b = torch.randn(2, shape[-1]).unbind() if weight else (None, None)
    leaves = [x, *(v.requires_grad_() for v in (w, b) if v is not None)]

    def run():
        for leaf in leaves:
            leaf.grad = None
        y = F.layer_norm(x, shape[-1:], w, b)
        (y * y * y).sum().backward()
        results = [y.detach(), *(v.grad for v in leaves)]
        return np.concatenate([v.numpy().ravel() for v in results])

    actual, want = both(monkeypatch, run)
    assert small_arrays.LAYER_NORM_BACKWARD[weight][np.dtype(np.float32)]
    np.testing.assert_allclose(actual, want, 1e-4, 5e-5)  # 1 / deviation of equal elements is 316


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("parameters", ["none", "weight", "both"])
@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize("shape", [(2, 1), (5, 4), (33, 19), (2, 3, 17), (2, 3, 4, 5), (3, 2, 1)])
def test_batch_norm(shape, running, parameters, dtype, monkeypatch) -> None:
    torch.manual_seed(0)
    x = torch.randn(*shape, dtype=dtype, requires_grad=True)
    channels = shape[1]
    w, b = (torch.randn(channels, dtype=dtype, requires_grad=True) for _ in range(2))
    w, b = (None if parameters == "none" else w), (b if parameters == "both" else None)
    leaves = [v for v in (x, w, b) if v is not None]

    def run():
        for leaf in leaves:
            leaf.grad = None
        moving = [torch.ones(channels, dtype=dtype) for _ in range(2)] if running else []
        y = F.batch_norm(x, *(moving or (None, None)), w, b, training=True, momentum=0.3)
        (y * y * y).sum().backward()
        results = [y.detach(), *(v.grad for v in leaves), *moving]
        return np.concatenate([v.numpy().ravel() for v in results])

    actual, want = both(monkeypatch, run)
    columns = len(shape) == 2 or shape[2:] == (1,)
    settings = w is not None, b is not None, running, columns
    assert small_arrays.BATCH_NORM[settings][x.detach().numpy().dtype]
    assert small_arrays.BATCH_NORM_BACKWARD[w is not None, columns][x.detach().numpy().dtype]
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    np.testing.assert_allclose(actual, want, tolerance, 10 * tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(1, 4), (2, 5, 3), (2, 3, 17, 8)])
def test_attention(shape, causal, dtype, monkeypatch) -> None:
    torch.manual_seed(0)
    parts = [torch.randn(*shape, dtype=dtype, requires_grad=True) for _ in range(3)]

    def run():
        for part in parts:
            part.grad = None
        y = F.scaled_dot_product_attention(*parts, is_causal=causal)
        (y * y).sum().backward()
        results = [y.detach(), *(part.grad for part in parts)]
        return np.concatenate([x.numpy().ravel() for x in results])

    actual, want = both(monkeypatch, run)
    assert small_arrays.PROBABILITIES[causal][parts[0].detach().numpy().dtype]
    np.testing.assert_allclose(actual, want, 1e-4, 1e-5)
