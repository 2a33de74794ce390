"""Memory of freed arrays is kept for the next ones."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

from flambeau.native.foundation import allocator

PROGRAM = """
import resource
import flambeau as torch

def work():
    kept = [torch.ones(200_000) for _ in range(20)]
    return sum(x[0].item() for x in kept)

for _ in range(3):
    work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

APART = """
import resource
import numpy as np
import flambeau
from flambeau.native.foundation.allocator import allocate_outside_heap

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def zeros():
    before = faults()
    made = np.zeros((8 << 20) - 5000, np.uint8)
    return faults() - before, made

np.ones(24 << 20, np.uint8)  # used memory, which the heap keeps
with allocate_outside_heap():
    inside, made = zeros()
assert not made.any()
del made
outside, made = zeros()
print(inside, outside)
"""


GREAT = """
import resource
import flambeau as torch

def work():
    return torch.ones(12 << 20)  # 48 MB

for _ in range(3):
    work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def glibc() -> bool:
    linux = sys.platform.startswith("linux")
    return linux and hasattr(ctypes.CDLL(None), "gnu_get_libc_version")


def faults(program: str = PROGRAM, **variables: str) -> int:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    environment = {**inherited, **variables}
    run = subprocess.run([sys.executable, "-c", program], env=environment, check=True,
                         capture_output=True, text=True)
    return int(run.stdout)


@pytest.mark.skipif(not glibc(), reason="the C library is not glibc")
def test_pages_are_touched_once() -> None:
    assert faults() < 500
    assert faults(MALLOC_TRIM_THRESHOLD_="0") > 5000  # what the user has set up stays


@pytest.mark.skipif(not glibc() or not allocator._is_unwritten_memory_free(), reason="has no room")
def test_great_arrays_find_room_on_the_heap() -> None:
    assert faults(GREAT) < 100  # ten times 24 large pages, where each array has its own memory


def test_limited_addresses_are_not_taken_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1 << 32, 1 << 32))
    assert not allocator._is_unwritten_memory_free()


def test_other_systems_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocator.sys, "platform", "darwin")
    assert not allocator.keep_freed_memory()


@pytest.mark.skipif(not glibc(), reason="the C library is not glibc")
def test_zeros_apart_from_the_heap_are_not_written() -> None:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    run = subprocess.run([sys.executable, "-c", APART], env=inherited, check=True,
                         capture_output=True,
                         text=True)
    inside, _ = map(int, run.stdout.split())
    assert inside < 100


def test_other_allocators_know_no_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocator, "_library", None)
    with allocator.allocate_outside_heap():
        pass
