"""The threads that run native code: who runs what, callers at once, sleep, forks, the end."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from flambeau.native.runtime import thread_pool, thread_pool_ir
from flambeau.native.runtime.thread_pool import POOL, Workers
from flambeau.native.target.usable_processors import count_usable_processors
from flambeau.native.jit.elf_loader import load

ROOT = Path(__file__).resolve().parents[3]

# Adds `threads` to the element `tid` of the array at cells[0], after cells[1] rounds of a loop.
COUNT = """
define void @count(i64 %tid, i64 %threads, ptr %cells) {
entry:
  %rounds_at = getelementptr i64, ptr %cells, i64 1
  %array = load ptr, ptr %cells
  %rounds = load i64, ptr %rounds_at
  br label %next
next:
  %i = phi i64 [0, %entry], [%i_next, %next]
  %i_next = add i64 %i, 1
  %seen = load volatile i64, ptr %rounds_at
  %more = icmp slt i64 %i_next, %seen
  br i1 %more, label %next, label %end
end:
  %at = getelementptr i64, ptr %array, i64 %tid
  %old = load i64, ptr %at
  %new = add i64 %old, %threads
  store i64 %new, ptr %at
  ret void
}
"""


class Counter:
    """The kernel above, its array and cells."""

    def __init__(self, rounds: int = 1) -> None:
        self.array = np.zeros(64, np.int64)
        self.cells = np.array([self.array.ctypes.data, rounds])
        self.function = load(COUNT, ["count"])["count"]

    def run(self, threads: int = 0) -> None:
        thread_pool.run(self.function, self.cells.ctypes.data, threads)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = POOL.threads()
    yield
    POOL.set_threads(before)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_each_thread_runs_it_once(threads: int) -> None:
    counter = Counter()
    for _ in range(50):
        counter.run(threads)
    assert counter.array[:threads].tolist() == [50 * threads] * threads
    assert not counter.array[threads:].any()


def test_the_number_of_threads_changes() -> None:
    counter = Counter()
    expected = np.zeros(64, np.int64)
    for count in (2, 4, 1, 3, 2, 6):
        POOL.set_threads(count)
        assert POOL.threads() == count
        for _ in range(5):
            counter.run()
            expected[:count] += count
    assert counter.array.tolist() == expected.tolist()


def test_old_workers_end() -> None:
    POOL.set_threads(5)
    Counter().run()
    POOL.set_threads(2)
    Counter().run()
    names = [t.name for t in threading.enumerate() if t.name.startswith("flambeau-")]
    assert len([name for name in names if name not in ("flambeau-compile", "flambeau-maker")]) == 1


def test_several_callers_at_once() -> None:
    POOL.set_threads(3)
    counters = [Counter(rounds=200) for _ in range(4)]

    def call(counter: Counter) -> None:
        for _ in range(100):
            counter.run()

    callers = [threading.Thread(target=call, args=(counter,)) for counter in counters]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert [counter.array[:3].tolist() for counter in counters] == [[300, 300, 300]] * 4


def test_a_job_that_calls_back_may_run_another() -> None:
    """That one runs on the caller's thread alone."""
    inner = Counter()
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)

    @kernel
    def outer(tid: int, threads: int, cells: int) -> None:
        if tid == 0:
            inner.run(2)

    address = ctypes.cast(outer, ctypes.c_void_p).value
    assert address is not None
    thread_pool.run(address, 0, 2)
    assert inner.array[:3].tolist() == [1, 0, 0]
    inner.run(2)
    assert inner.array[:3].tolist() == [3, 2, 0]


def test_the_caller_runs_shares_that_no_worker_begins() -> None:
    """Workers that come later run no share a second time."""
    counter = Counter()
    memory, state = thread_pool.allocate_aligned(thread_pool_ir.THREAD_BLOCK_BYTES * 3)
    functions = thread_pool_ir.load_runtime()
    launch = thread_pool._Launch(functions["launch"])
    for _ in range(5):
        launch(state, counter.function, counter.cells.ctypes.data, 3)
    assert counter.array[:4].tolist() == [15, 15, 15, 0]
    worker = thread_pool._Worker(functions["worker"])
    late = [threading.Thread(target=worker, args=(state, tid, 1000)) for tid in (1, 2)]
    for thread in late:
        thread.start()
    for _ in range(2000):
        launch(state, counter.function, counter.cells.ctypes.data, 3)
    thread_pool._Stop(functions["stop"])(state, 3)
    for thread in late:
        thread.join()
    assert counter.array[:4].tolist() == [6015, 6015, 6015, 0]
    del memory  # until here the workers read it


@pytest.mark.parametrize("system", [sys.platform, "darwin"])
def test_idle_workers_sleep_and_wake(system: str) -> None:
    """With the system's own means and with POSIX's."""
    if os.name != "posix":
        pytest.skip("POSIX threads")
    workers = Workers(3, system=system)
    native = thread_pool._Launch(thread_pool_ir.load_runtime(system)["launch"])
    counter = Counter()
    try:
        for pause in (0.0, 0.02, 0.0, 0.05):
            time.sleep(pause)
            native(workers.state, counter.function, counter.cells.ctypes.data, 3)
        assert counter.array[:3].tolist() == [12, 12, 12]
        time.sleep(0.05)
        before = time.process_time()
        time.sleep(0.3)
        assert time.process_time() - before < 0.03
    finally:
        workers.stop()
    assert not any(thread.is_alive() for thread in workers._running)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_has_workers_of_its_own() -> None:
    counter = Counter()
    counter.run(2)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            for _ in range(3):
                counter.run(2)
            load("define void @in_child() {\n  ret void\n}\n", ["in_child"])
            os._exit(0 if counter.array[:2].tolist() == [8, 8] else 1)
        finally:
            os._exit(2)
    counter.run(2)
    assert os.waitpid(child, 0)[1] == 0
    assert counter.array[:2].tolist() == [4, 4]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_forks_while_other_threads_compile_and_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAMBEAU_CACHE_SIZE", "0")
    stop = threading.Event()
    counter = Counter(rounds=1000)

    def compile() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            load(f"define i64 @f() {{\n  ret i64 {number}9999\n}}\n", ["f"])

    def run() -> None:
        while not stop.is_set():
            counter.run(2)

    others = [threading.Thread(target=compile), threading.Thread(target=run)]
    for other in others:
        other.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                try:
                    load("define void @child() {\n  ret void\n}\n", ["child"])
                    Counter().run(2)
                    os._exit(0)
                finally:
                    os._exit(2)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for other in others:
            other.join()


@pytest.mark.parametrize("ending", ["", "sys.exit(3)", "raise KeyboardInterrupt", "daemon()"])
def test_the_process_ends_at_once(ending: str) -> None:
    program = f"""
import sys, threading, time, ctypes
from flambeau.native.runtime import thread_pool as pool
from flambeau.native.jit.elf_loader import load
text = "define void @empty(i64 %t, i64 %n, ptr %c) {{\\n  ret void\\n}}\\n"
empty = load(text, ["empty"])["empty"]
pool.run(empty, 0, 2)
def daemon():
    def work():
        while True:
            pool.run(empty, 0, 2)
    threading.Thread(target=work, daemon=True).start()
    time.sleep(0.05)
print("ran", flush=True)
{ending}
"""
    began = time.perf_counter()
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True,
                         timeout=60, check=False)
    assert run.stdout == "ran\n"
    codes = {"": 0, "sys.exit(3)": 3, "daemon()": 0}
    assert run.returncode == codes.get(ending, run.returncode)
    assert run.returncode != -signal.SIGSEGV
    assert time.perf_counter() - began < 20


def test_the_process_ends_while_a_daemon_thread_compiles() -> None:
    program = """
import threading, time
from flambeau.native.jit.elf_loader import load_all
body = "".join(f"  %x{i + 1} = mul i64 %x{i}, {i + 3}\\n" for i in range(2000))
body += "  %r = add i64 %x2000, NUMBER\\n  ret i64 %r\\n"
text = "define i64 @f(i64 %x0) {\\n" + body + "}\\n"
texts = [(text.replace("NUMBER", str(i)), ["f"]) for i in range(200)]
threading.Thread(target=load_all, args=(texts, 2), daemon=True).start()
time.sleep(0.3)
print("ran", flush=True)
"""
    environment = os.environ | {"FLAMBEAU_CACHE_SIZE": "0"}
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True,
                         timeout=60, check=False, env=environment)
    assert (run.stdout, run.stderr, run.returncode) == ("ran\n", "", 0)


def test_without_threads_it_runs_on_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(threads: int) -> Workers:
        raise RuntimeError("can't start new thread")

    POOL.set_threads(2)
    monkeypatch.setattr(thread_pool, "Workers", refuse)
    monkeypatch.setattr(POOL, "workers", None)
    counter = Counter()
    with pytest.warns(RuntimeWarning, match="one thread instead of 2"):
        counter.run()
    assert counter.array[:2].tolist() == [1, 0]


def test_how_many_threads_there_are_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("FLAMBEAU_THREADS", "3")
    assert thread_pool._choose_thread_count() == 3
    monkeypatch.setenv("FLAMBEAU_THREADS", "many")
    assert thread_pool._choose_thread_count() == count_usable_processors() >= 1
    monkeypatch.setenv("OMP_NUM_THREADS", "5,2")
    assert thread_pool._choose_thread_count() == 5


def test_set_num_threads() -> None:
    import flambeau as torch

    torch.set_num_threads(2)
    assert torch.get_num_threads() == POOL.threads() == 2
    with pytest.raises(RuntimeError, match="positive"):
        torch.set_num_threads(0)


def _file(root: Path, place: str, text: str) -> None:
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    (root / place).write_text(text + "\n")


def _machine(root: Path, siblings: dict[int, str]) -> None:
    for processor, listed in siblings.items():
        _file(root, f"sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list", listed)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity")
def test_threads_of_a_core_count_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _machine(tmp_path, {i: f"{i % 8},{i % 8 + 8}" for i in range(16)})
    allowed = set(range(16))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: allowed)
    assert count_usable_processors(f"{tmp_path}/") == 8
    allowed = {0, 1, 2, 8, 9}
    assert count_usable_processors(f"{tmp_path}/") == 3
    assert count_usable_processors(f"{tmp_path}/nothing/") == 5


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity")
def test_quotas_of_all_groups_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(16)))
    _file(tmp_path, "proc/self/cgroup", "0::/user/job")
    _file(tmp_path, "sys/fs/cgroup/user/job/cpu.max", "max 100000")
    assert count_usable_processors(f"{tmp_path}/") == 16
    _file(tmp_path, "sys/fs/cgroup/user/cpu.max", "650000 100000")
    assert count_usable_processors(f"{tmp_path}/") == 7
    _file(tmp_path, "sys/fs/cgroup/cpu.max", "300000 100000")
    assert count_usable_processors(f"{tmp_path}/") == 3
    old = tmp_path / "old"
    _file(old, "proc/self/cgroup", "4:cpu,cpuacct:/docker/1\n1:name=systemd:/docker/1")
    _file(old, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1")
    _file(old, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000")
    assert count_usable_processors(f"{old}/") == 16
    _file(old, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000")
    assert count_usable_processors(f"{old}/") == 1
