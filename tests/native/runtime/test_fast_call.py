"""Calls of kernels by built-in functions: arguments, errors, threads, and the way without them."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

from flambeau.native.runtime import fast_call
from flambeau.native.jit.kernel_function import compile_kernel
from flambeau.native.kernels.pointwise import FULL, pointwise
from flambeau.native.loop_ir.ir import Type
from flambeau.native.runtime.thread_pool import POOL


@pytest.fixture(params=["built-in", "ctypes"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to call a kernel."""
    if request.param == "ctypes":
        monkeypatch.setattr(fast_call, "_write_ir", lambda: None)
    fast_call._load_builtins.cache_clear()
    call = fast_call._load_builtins().call_on_this_thread
    monkeypatch.setattr(fast_call.FastCalls, "call", staticmethod(call))
    yield request.param
    fast_call._load_builtins.cache_clear()


def _sum() -> int:
    return compile_kernel(pointwise(lambda a, b: a + b, [(Type.F64, FULL)] * 2)).address


@pytest.mark.parametrize("threads", [0, 1, 2])
@pytest.mark.parametrize("n", [0, 1, 7, 1000])
def test_arrays_and_sizes(way: str, n: int, threads: int) -> None:
    a, b, y = np.arange(n) * 1.0, np.arange(n) * 2.0, np.zeros(n)
    before = POOL.threads()
    POOL.set_threads(2)
    try:
        if threads:
            fast_call.call_on_threads(_sum(), a, b, y, n, threads=threads)
        else:
            assert fast_call.FastCalls.call(_sum(), a, b, y, n) is None
    finally:
        POOL.set_threads(before)
    np.testing.assert_array_equal(y, a + b)


def test_addresses_do_for_arrays(way: str) -> None:
    a, y = np.arange(5.0), np.zeros(5)
    fast_call.FastCalls.call(_sum(), a.ctypes.data, a[1:], y, 4)
    np.testing.assert_array_equal(y, [1, 3, 5, 7, 0])


@pytest.mark.parametrize("wrong", [None, "text", 1.5, np.float64(1), np.ones(1).view(np.recarray)])
def test_other_arguments_are_refused(way: str, wrong: object) -> None:
    y = np.zeros(3)
    for call in (fast_call.FastCalls.call, fast_call.call_on_threads):
        with pytest.raises(TypeError, match="takes arrays and 64-bit integers"):
            call(_sum(), y, wrong, y, 3)


def test_numbers_out_of_range_are_refused() -> None:
    y = np.zeros(3)
    with pytest.raises(OverflowError):
        fast_call.FastCalls.call(_sum(), y, y, y, 1 << 64)


def test_minus_one_is_a_number() -> None:
    y = np.zeros(3)
    fast_call.FastCalls.call(_sum(), y, y, y, -1)  # no elements


def test_references_are_kept_as_they_were() -> None:
    a, y, kernel = np.ones(3), np.zeros(3), _sum()
    fast_call.FastCalls.call(kernel, a, a, y, 3)
    watched = (a, y, a.dtype, np.ndarray, None)
    before = [sys.getrefcount(operand) for operand in watched]
    for _ in range(1000):
        fast_call.FastCalls.call(kernel, a, a, y, 3)
        fast_call.call_on_threads(kernel, a, a, y, 3)
    after = [sys.getrefcount(operand) for operand in watched]
    assert all(abs(x - y) < 100 for x, y in zip(before, after, strict=True))


def test_several_python_threads() -> None:
    kernel, n = _sum(), 20_000
    results = []

    def work(k: int) -> None:
        a, y = np.full(n, float(k)), np.zeros(n)
        for _ in range(20):
            fast_call.call_on_threads(kernel, a, a, y, n, threads=2)
        results.append((k, y))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all((y == 2.0 * k).all() for k, y in results)
