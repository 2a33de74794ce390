"""gather, scatter and index_add in machine code: to the bit what NumPy gives."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest

import flambeau as torch
from flambeau.native.runtime import eager_kernels
from flambeau.native.runtime import background_jit, fast_call
from flambeau.native.runtime.thread_pool import POOL
from flambeau.ops.native import gather_scatter


@pytest.fixture(autouse=True, params=[1, 2])
def threads(request: pytest.FixtureRequest):
    before = POOL.threads()
    POOL.set_threads(request.param)
    yield
    POOL.set_threads(before)


def settled() -> None:
    """Waits for the kernels."""
    put_last, put_middle = eager_kernels.PUT_LAST, eager_kernels.PUT_MIDDLE
    wanted = [
        (builder, kind, *settings) for kind in ("int32", "int64") for builder, *settings in (
            (eager_kernels.TAKE_LAST,), (eager_kernels.TAKE_MIDDLE,),
            (eager_kernels.TAKE_LAST_CHECKED,), (put_last, False), (put_middle, False))
    ]
    for kind in ("float32", "int64"):
        wanted.append((put_last, kind, True, True))
        for how in gather_scatter.OPERATIONS.values():
            wanted += [(put_last, kind, how), (put_middle, kind, how)]
    until = time.monotonic() + 120
    while missing := [job for job in wanted if job[0].address(*job[1:]) is None]:
        states = {job: background_jit._ready.get(job, "none yet") for job in missing}
        assert time.monotonic() < until, f"{states}, with {background_jit._active_threads} at work"
        time.sleep(0.002)


def places(shape: tuple[int, ...], at: int, count: int, n: int) -> torch.Tensor:
    torch.manual_seed(len(shape))
    return torch.randint(n, (*shape[:at], count, *shape[at + 1 :]))


def values(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    torch.manual_seed(9)
    return (torch.randn(*shape) * 100).to(dtype)


WORK = {
    "gather": lambda x, d, i, s: x.gather(d, i), "scatter": lambda x, d, i, s: x.scatter(d, i, s),
    "scatter_add": lambda x, d, i, s: x.scatter_add(d, i, s),
    "a number": lambda x, d, i, s: x.scatter(d, i, 3),
    "index_add": lambda x, d, i, s: x.index_add(d, i.movedim(d, 0).flatten(1)[:, 0].clone(), s),
    "largest": lambda x, d, i, s: x.scatter_reduce(d, i, s, "amax"),
    "least": lambda x, d, i, s: x.scatter_reduce(d, i, s, "amin", include_self=False),
    "product": lambda x, d, i, s: x.scatter_reduce(d, i, s, "prod"),
    "turned": lambda x, d, i, s: x.gather(d, i.transpose(0, 1).contiguous().transpose(0, 1)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
@pytest.mark.parametrize(("shape", "at", "count"), [
    ((37, 19), 1, 11), ((37, 19), 0, 50), ((5, 7, 33), 1, 9), ((9, 4, 6), 2, 21),
])
@pytest.mark.parametrize("name", WORK)
def test_along(name, shape, at, count, dtype, monkeypatch) -> None:
    x, index = values(shape, dtype), places(shape, at, count, shape[at])
    source = values(index.shape, dtype)

    def work() -> torch.Tensor:
        return WORK[name](x, at, index, source)

    expected = work()
    monkeypatch.setattr(fast_call, "MAX_SINGLE_THREAD_ELEMENTS", 0)
    for module in ("native.gather_scatter", "indexing.index_select"):
        monkeypatch.setattr(sys.modules[f"flambeau.ops.{module}"], "MAX_NUMPY_GATHER_ELEMENTS", 0)
    settled()
    calls = []
    real = gather_scatter.call_kernel
    monkeypatch.setattr(gather_scatter, "call_kernel", lambda *a: (calls.append(a), real(*a)))
    assert torch.equal(work(), expected)
    assert calls or (name == "index_add" and at == 0)  # which adds whole rows


@pytest.mark.parametrize("dim", [0, 1])
def test_gradient_of_gather(dim, monkeypatch) -> None:
    x, index = values((37, 19), torch.float32), places((37, 19), dim, 30, (37, 19)[dim])
    weight, grads = values(index.shape, torch.float32), []
    for large in (1 << 60, 0):
        monkeypatch.setattr(gather_scatter, "MAX_NUMPY_GATHER_ELEMENTS", large)
        settled()
        leaf = x.clone().requires_grad_()
        (leaf.gather(dim, index) * weight).sum().backward()
        grads.append(leaf.grad)
    np.testing.assert_array_equal(*[g.numpy() for g in grads])


def test_memory_that_sums_are_made_in_is_cleared(monkeypatch) -> None:
    monkeypatch.setattr(gather_scatter, "MAX_NUMPY_GATHER_ELEMENTS", 0)
    settled()
    monkeypatch.setattr(np, "empty", lambda shape, dtype: np.full(shape, 7, dtype))
    for shape, at in (((37, 19), 1), ((37, 19), 0)):
        index = np.zeros((37, 19), np.int64)
        y = gather_scatter.add_at(shape, at, index, np.ones(shape, np.float32))
        expected = np.zeros(shape, np.float32)
        expected[(slice(None), 0) if at else (0,)] = shape[at]
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("wrong", [-1, 19, 1 << 40])
def test_numbers_that_are_not_of_the_axis(wrong, monkeypatch) -> None:
    monkeypatch.setattr(gather_scatter, "MAX_NUMPY_GATHER_ELEMENTS", 0)
    settled()
    x, index = values((37, 19), torch.float32), places((37, 19), 1, 30, 19)
    index[3, 3] = wrong
    with pytest.raises(RuntimeError, match=f"index {wrong} is out of bounds"):
        x.gather(1, index)
