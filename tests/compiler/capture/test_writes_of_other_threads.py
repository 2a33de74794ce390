"""What another thread writes while a call is recorded does not count as the call's writes."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

import flambeau as torch


@pytest.fixture
def frequent_switches() -> Any:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_versions_of_tensors_that_another_thread_writes(frequent_switches: Any) -> None:
    own, other, stop = torch.zeros(3), torch.zeros(3), threading.Event()
    begun, writes = threading.Event(), [0]

    def step(x: Any) -> Any:
        own.add_(x)
        return own * 2

    def write() -> None:
        while not stop.is_set():
            other.add_(1)
            writes[0] += 1
            begun.set()

    compiled = torch.compile(step, mode="now", backend="evaluate")
    thread = threading.Thread(target=write)
    thread.start()
    begun.wait()
    before = other._version
    compiled(torch.ones(3))  # recorded
    stop.set()
    thread.join()
    assert other._version > before
    for _ in range(5):
        compiled(torch.ones(3))
    assert compiled._programs[0].calls >= 5
    assert other._version == writes[0]
    assert own._version == 6
