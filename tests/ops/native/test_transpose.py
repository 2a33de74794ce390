"""Transposed arrays copied in machine code."""

from __future__ import annotations

import itertools
import sys
import time

import numpy as np
import pytest

import flambeau as torch
from flambeau.native.runtime import eager_kernels
from flambeau.native.runtime.thread_pool import POOL
from flambeau.ops.native import transpose, row_copies


@pytest.fixture(autouse=True, params=[1, 2])
def any_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """Kernels for few elements, on one thread and on two."""
    monkeypatch.setattr(transpose, "MAX_NUMPY_TRANSPOSE_ELEMENTS", 0)
    use_kernels_from(monkeypatch, 0)
    for module in ("creation.copies", "indexing.index"):
        monkeypatch.setattr(sys.modules[f"flambeau.ops.{module}"], "MIN_STRIDED_COPY_BYTES", 0)
    monkeypatch.setattr(sys.modules["flambeau.ops.view.join"], "MIN_THREADED_COPY_BYTES", 0)
    monkeypatch.setattr(row_copies, "MIN_SHARED_COPY_ROWS", 3)
    row_copies._plan_rows.cache_clear()
    before = POOL.threads()
    POOL.set_threads(request.param)
    yield
    POOL.set_threads(before)
    row_copies._plan_rows.cache_clear()


def use_kernels_from(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Let kernels copy all arrays of at least as many bytes."""
    for name in ("MIN_THREADED_COPY_BYTES", "MIN_STRIDED_COPY_BYTES", "MIN_FILL_BYTES"):
        monkeypatch.setattr(row_copies, name, size)


def ready(x: np.ndarray) -> np.ndarray:
    """The copy by a kernel, once there is one."""
    until = time.monotonic() + 120
    while (result := transpose.copy_in_order(x)) is None:
        assert time.monotonic() < until, "no kernel came"
        time.sleep(0.002)
    return result


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize(("shape", "order"), [
    ((8, 8), (1, 0)), ((15, 17), (1, 0)), ((16, 32), (1, 0)), ((67, 131), (1, 0)),
    ((3, 9, 17), (0, 2, 1)), ((9, 9, 17), (1, 2, 0)), ((2, 11, 3, 16), (0, 2, 3, 1)),
    ((2, 9, 5, 5), (0, 2, 3, 1)), ((8, 5, 9, 10), (3, 2, 1, 0)),
])
def test_axes(shape: tuple[int, ...], order: tuple[int, ...], dtype: type) -> None:
    x = np.arange(np.prod(shape), dtype=dtype).reshape(shape)
    if dtype == np.float32:
        x.reshape(-1)[:3] = np.nan, -0.0, np.inf
    turned = x.transpose(order)
    actual = ready(turned)
    assert actual.flags.c_contiguous
    kind = np.int32 if dtype == np.float32 else np.int64
    np.testing.assert_array_equal(actual.view(kind), turned.copy().view(kind))


def test_windows() -> None:
    x = np.arange(60.0 * 50).reshape(60, 50)
    np.testing.assert_array_equal(ready(x[3:40, 5:30].T), x[3:40, 5:30].T)


def test_what_does_not_fit_is_left_to_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[object]()
    monkeypatch.setattr(transpose, "request_kernel", lambda key, *_, **__: asked.append(key))
    x = np.ones((20, 30), "f")
    wide = np.broadcast_to(x, (3, 20, 30))
    for other in (x, x[::-1].T, x[:, ::2], x.astype("h").T, x[:, :3].T, wide):
        for _ in range(3):
            assert transpose.copy_in_order(other) is None
    assert not asked


def test_contiguous() -> None:
    x = torch.randn(20, 33)
    for _ in range(3):
        y = x.t().contiguous()
        assert torch.equal(y, x.t())
        assert y.is_contiguous()
    ready(x.t()._array)
    assert torch.equal(x.t().contiguous(), x.t())


X = torch.arange(60 * 7 * 64.0).reshape(60, 7, 64)
BYTES = X.byte().repeat(1, 1, 2)
ROWS = {
    "whole": lambda: X.clone(), "end to end": lambda: torch.cat((X, X + 1)),
    "middle": lambda: torch.cat((X, X[:, :3], X + 1), 1),
    "stacked": lambda: torch.stack((X, -X), 1),
    "last": lambda: torch.cat((X, X[..., :32]), 2), "rolled": lambda: X.roll(2, 1),
    "rolled back": lambda: X.roll(-62, 0), "swapped": lambda: X.transpose(0, 1).contiguous(),
    "five axes": lambda: X.reshape(-1)[:3840].view(3, 2, 4, 5, 32).permute(1, 3, 0, 2, 4).clone(
        memory_format=torch.contiguous_format),
    "window": lambda: X[3:, 1:5, 8:44].contiguous(), "stretched": lambda: X[:1].expand(
        4, 7, 64).contiguous(), "integers": lambda: torch.cat((X.long(), X.long()), 1),
    "bytes": lambda: torch.cat((BYTES, BYTES), 1), "halves": lambda: X.half().clone(),
    "into": lambda: X.clone()[:, 2:].copy_(X[:, 1:6]), "over itself": lambda: X.clone()[1:].copy_(
        X[:-1]), "one row into all": lambda: X.clone().copy_(X[3, 2]),
    "odd": lambda: X.reshape(-1)[:9999].clone(), "empty": lambda: X[:0].clone(),
    "filled": lambda: X.clone().fill_(3), "zeros": lambda: X.half().clone().zero_(),
    "full": lambda: torch.full((60, 7), 2.5), "integers in full": lambda: torch.full_like(BYTES, 7),
    "a window filled": lambda: X.clone()[1:].fill_(2.0),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use_kernels_from(monkeypatch, 1 << 60)
    expected = ROWS[name]()
    use_kernels_from(monkeypatch, 0)
    until = time.monotonic() + 120
    builders = eager_kernels.COPY_ROWS, eager_kernels.COPY_NUMBER
    for kernel, bits in itertools.product(builders, row_copies._BITS.values()):
        while kernel.address(bits) is None:
            assert time.monotonic() < until, "no kernel came"
            time.sleep(0.002)
    calls = []
    real = row_copies.call_on_threads
    monkeypatch.setattr(row_copies, "call_on_threads", lambda *a: (calls.append(a), real(*a)))
    actual = ROWS[name]()
    assert actual.dtype == expected.dtype
    assert torch.equal(actual, expected)
    assert bool(calls) == (name not in ("odd", "empty"))


Y = torch.arange(37 * 150.0).reshape(37, 150)
STEPS = {
    "every second": lambda x: x[:, 1::2].clone(), "every third": lambda x: x[:, ::3].contiguous(),
    "an odd number": lambda x: x[:, 3:146:2].clone(), "of rows": lambda x: x[::2].clone(),
    "in reverse": lambda x: x.flip(1), "rows in reverse": lambda x: x.flip(0),
    "all in reverse": lambda x: x.flip(0, 1), "a window in reverse": lambda x: x[3:, 5:77].flip(1),
    "each one often": lambda x: x[:, 70:71].expand(-1, 99).contiguous(),
    "into every second": lambda x: _put(x, (slice(None), slice(1, None, 2)), x[:, :75]),
    "second into second": lambda x: _put(x, (slice(None), slice(0, 144, 2)), x[:, 1:145:2]),
    "into every third": lambda x: _put(x, (slice(3, None), slice(2, None, 3)), x[:34, 100:]),
    "number into second": lambda x: _put(x, (slice(None), slice(1, None, 2)), x[2, 3]),
    "one column into second": lambda x: _put(x, (slice(None), slice(1, None, 2)), x[:, :1]),
    "into a transposed one": lambda x: torch.zeros(150, 37, dtype=x.dtype).t().copy_(x),
    "of a transposed one": lambda x: x.t().clone(),
}


def _put(x: torch.Tensor, place, value: torch.Tensor) -> torch.Tensor:
    y = torch.full_like(x, 3)
    y[place] = value
    return y


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.float16, torch.uint8])
def test_steps(name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows whose elements lie further apart, or backwards, in either array."""
    x = Y.to(dtype)
    use_kernels_from(monkeypatch, 1 << 60)
    expected = STEPS[name](x)
    use_kernels_from(monkeypatch, 0)
    for _ in range(40):
        actual = STEPS[name](x)
        assert actual.stride() == expected.stride()
        assert torch.equal(actual, expected)
        time.sleep(0.002)


def test_steps_are_taken_by_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, real = [], row_copies.call_on_threads
    monkeypatch.setattr(row_copies, "call_on_threads", lambda *a: (calls.append(a), real(*a)))
    for name in ("every second", "in reverse", "every third", "into every second"):
        until = time.monotonic() + 120
        calls.clear()
        while not any(len(call) > 5 and call[1].size != 1 for call in calls):
            assert time.monotonic() < until, f"no kernel came for {name}"
            STEPS[name](Y)
            time.sleep(0.002)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.complex128])
def test_zeros_in_memory_that_was_used(dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    until = time.monotonic() + 120
    repeated = eager_kernels.COPY_NUMBER
    while any(repeated.address(bits) is None for bits in ("int32", "int64")):
        assert time.monotonic() < until, "no kernel came"
        time.sleep(0.002)
    monkeypatch.setattr(np, "empty", lambda shape, dtype: np.full(shape, 7, dtype))
    actual = row_copies.allocate_zeros((37, 19), np.dtype(dtype))
    assert actual.dtype == dtype and actual.shape == (37, 19) and not actual.any()
