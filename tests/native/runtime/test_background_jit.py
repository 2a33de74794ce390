"""Kernels of eager operators: which call is the first to use one."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import flambeau as torch
from flambeau.native.runtime import background_jit
from flambeau.native.kernels.pointwise import pointwise
from flambeau.native.loop_ir.ir import Kernel, Type
from flambeau.ops.spatial import conv_kernel_choice

ROOT = Path(__file__).resolve().parents[3]
TRAINING = """
import hashlib, flambeau as torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(300, 400), torch.nn.GELU(), torch.nn.LayerNorm(400),
                          torch.nn.Linear(400, 50))
optimizer = torch.optim.AdamW(net.parameters())
x, y = torch.randn(512, 300), torch.randint(50, (512,))
for _ in range(8):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
digest = hashlib.sha256()
for p in net.parameters():
    digest.update(p.detach().numpy().tobytes())
print(digest.hexdigest())
"""


@pytest.fixture(autouse=True)
def nothing_made(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(background_jit, "_ready", {})
    monkeypatch.setattr(background_jit, "_compiling", {})
    monkeypatch.setattr(background_jit.KernelPolicy, "allowed", True)
    yield
    until = time.monotonic() + 120
    # A thread that is still at work would look for its kernel elsewhere.
    while background_jit._active_threads:
        assert time.monotonic() < until
        time.sleep(0.002)


def slow() -> Kernel:
    time.sleep(0.1)
    return pointwise(lambda x: x * 2, ((Type.F32, "full"),))


def test_the_second_call_waits_for_what_the_first_asked_for() -> None:
    assert background_jit.request_kernel("slow", slow) is None
    function = background_jit.request_kernel("slow", slow)
    assert function is not None
    assert function.address
    assert background_jit.request_kernel("slow", slow) is function


def test_two_threads_make_what_somebody_waits_for() -> None:
    together = threading.Barrier(2, timeout=30)

    def meeting() -> Kernel:
        together.wait()  # which one thread alone would never pass
        return slow()

    assert background_jit.request_kernel("first", meeting) is None
    assert background_jit.request_kernel("second", meeting) is None
    assert background_jit.request_kernel("second", meeting) is not None
    assert background_jit.request_kernel("first", meeting) is not None


def test_exact_kernels_are_not_waited_for() -> None:
    assert background_jit.request_kernel("exact", slow, exact=True) is None
    assert background_jit.request_kernel("exact", slow, exact=True) is None
    assert background_jit._compiling["exact"].wait(30)
    assert background_jit.request_kernel("exact", slow, exact=True) is not None


def test_a_call_that_is_made_once_asks_for_no_kernels() -> None:
    assert background_jit.request_kernel("before", slow) is None
    with background_jit.recording(True):
        for _ in range(3):
            assert background_jit.request_kernel("once", slow) is None
            assert background_jit.request_kernel("exact", slow, exact=True) is None
        assert background_jit.request_kernel("before", slow) is not None
    assert not {"once", "exact"} & {*background_jit._compiling, *background_jit._ready}
    assert background_jit.request_kernel("once", slow) is None
    assert background_jit.request_kernel("once", slow) is not None


def test_a_call_that_does_the_same_many_times_asks() -> None:
    with background_jit.recording(True):
        results = [
            background_jit.request_kernel("many", slow)
            for _ in range(background_jit.RECORDED_CALLS_BEFORE_COMPILING + 1)
        ]
    assert results[:-1] == [None] * background_jit.RECORDED_CALLS_BEFORE_COMPILING
    assert results[-1] is not None


def test_a_large_call_counts_as_many() -> None:
    half = background_jit.RECORDED_CALLS_BEFORE_COMPILING / 2
    with background_jit.recording(True):
        results = [background_jit.request_kernel("large", slow, weight=half) for _ in range(3)]
    assert results[:-1] == [None, None]
    assert results[-1] is not None


@pytest.mark.parametrize("grad", [True, False])
def test_large_convolutions_of_a_recorded_call_ask(
    monkeypatch: pytest.MonkeyPatch, grad: bool
) -> None:
    size = background_jit.RECORDED_CALLS_BEFORE_COMPILING // 2
    x, weight = torch.randn(4, 16, 32, 32), torch.randn(16, 16, 3, 3)
    monkeypatch.setattr(
        conv_kernel_choice, "CONV_MULTIPLICATIONS_PER_CALL", x.numel() * 16 * 9 // size)

    def asked() -> set[bool]:
        return {key[1] for key in background_jit._compiling if key[0] == "any convolution"}

    with background_jit.recording(True), torch.set_grad_enabled(grad):
        first = torch.nn.functional.conv2d(x, weight, padding=1)
        assert not asked()
        torch.nn.functional.conv2d(x, weight, padding=1)
        actual = asked()
        third = torch.nn.functional.conv2d(x, weight, padding=1)
    assert actual == ({False, True} if grad else {False})
    assert ("any convolution", False, "f", False) in background_jit._ready
    torch.testing.assert_close(first, third, rtol=1e-4, atol=1e-4)


def test_what_one_thread_records_is_no_matter_of_others() -> None:
    with background_jit.recording(True):
        other = threading.Thread(target=background_jit.request_kernel, args=("other", slow))
        other.start()
        other.join()
    assert "other" in background_jit._compiling


@pytest.mark.parametrize("error", [NotImplementedError, ValueError, KeyError])
def test_what_cannot_be_made_is_not_there(error: type[Exception]) -> None:
    def failing() -> Kernel:
        raise error("this one")

    for _ in range(3):
        assert background_jit.request_kernel("failing", failing) is None
    assert background_jit.request_kernel("slow", slow) is None  # the thread goes on
    assert background_jit.request_kernel("slow", slow) is not None
    told = background_jit.failed_builds.pop("failing", None)
    assert (told is None) == (error is NotImplementedError)


def test_a_fault_of_a_builder_is_told() -> None:
    program = """
from flambeau.native.runtime import background_jit as eager
for _ in range(2):
    assert eager.request_kernel("twice", lambda: [][1]) is None
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True,
                          text=True, check=True)
    assert "kernel twice could not be made, and NumPy does its work: IndexError" in done.stderr


def test_where_no_thread_can_be_started_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    for _ in range(3):
        assert background_jit.request_kernel("slow", slow) is None


def test_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_jit.KernelPolicy, "allowed", False)
    for _ in range(3):
        assert background_jit.request_kernel("slow", slow) is None
    assert not background_jit._compiling


def test_a_cold_and_a_warm_cache_give_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("FLAMBEAU_THREADS", "2")
    results = [
        subprocess.run([sys.executable, "-c", TRAINING], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert any(tmp_path.iterdir())
    assert results[0].stdout == results[1].stdout
