"""The threads that run native code: started on first use, asleep when idle, restarted after a fork.

A worker is a Python thread that stays in native code, without the interpreter lock, until the pool
closes. When idle it spins for IDLE_SPIN_S seconds, then sleeps in the kernel. A caller does not
wait for workers that have not begun, as on a busy machine: it runs their shares itself.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ..foundation.environment import THREADS
from ..foundation.user_frames import warn
from ..target.cost_model import IDLE_SPIN_S, THREAD_LINE_BYTES, THREAD_STACK_BYTES
from ..target.usable_processors import count_usable_processors
from . import thread_pool_ir

_Worker = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_Stop = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
_Prepare = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
_Launch = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


def _choose_thread_count() -> int:
    """FLAMBEAU_THREADS, else OMP_NUM_THREADS as in PyTorch, else every usable core."""
    count = THREADS.value()
    if count:
        return count
    setting = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if setting.isdecimal() and int(setting) > 0:
        return int(setting)
    return count_usable_processors()


@lru_cache(maxsize=1)
def ticks_per_second() -> float:
    """Return the frequency of the clock that native code reads, measured over 1 ms."""
    ticks = ctypes.CFUNCTYPE(ctypes.c_int64)(thread_pool_ir.load_runtime()["ticks"])

    def reading() -> tuple[int, int]:
        """Read both clocks together: of 8 tries, the one least interrupted."""
        tries = [(time.perf_counter_ns(), ticks(), time.perf_counter_ns()) for _ in range(8)]
        before, now, after = min(tries, key=lambda t: t[2] - t[0])
        return (before + after) // 2, now

    begin, first = reading()
    while time.perf_counter_ns() < begin + 1_000_000:
        pass
    end, last = reading()
    return max(1e9 * (last - first) / (end - begin), 1.0)


def allocate_aligned(size: int) -> tuple[ctypes.Array, int]:
    """Return zeroed memory (its owner) and the address of its first whole cache line."""
    memory = ctypes.create_string_buffer(size + THREAD_LINE_BYTES)
    lines = -(-ctypes.addressof(memory) // THREAD_LINE_BYTES)
    return memory, lines * THREAD_LINE_BYTES


class Workers:
    """Worker threads 1 to threads - 1, and the state they share with the launching thread."""

    def __init__(self, threads: int, patience: float = IDLE_SPIN_S, system: str = sys.platform):
        self.threads = threads
        functions = thread_pool_ir.load_runtime(system)
        memory, self.state = allocate_aligned(thread_pool_ir.THREAD_BLOCK_BYTES * threads)
        # Never freed: a worker may still read it at exit.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))
        self._stop = _Stop(functions["stop"])
        prepare, worker = _Prepare(functions["prepare"]), _Worker(functions["worker"])
        ticks = int(patience * ticks_per_second())
        self._running = []
        before = threading.stack_size(THREAD_STACK_BYTES)
        try:
            for tid in range(1, threads):
                if prepare(self.state + thread_pool_ir.THREAD_BLOCK_BYTES * tid):
                    raise RuntimeError(f"could not prepare worker {tid} of {threads}")
                thread = threading.Thread(target=worker, args=(self.state, tid, ticks),
                                          name=f"flambeau-{tid}", daemon=True)
                thread.start()
                self._running.append(thread)
        except BaseException:
            self.stop()
            raise
        finally:
            threading.stack_size(before)

    def stop(self) -> None:
        """End the workers; a worker in a job ends after it. Wait at most 1 s for each."""
        self._stop(self.state, len(self._running) + 1)
        for thread in self._running:
            thread.join(1.0)


class Pool:
    """The process's workers, and the lock that gives them to one job at a time."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.workers: Workers | None = None
        self.count = 0  # threads including the caller's; 0 until first asked for
        self.busy = False

    def threads(self) -> int:
        """Return the number of threads that a job runs on."""
        if self.count == 0:
            self.count = min(_choose_thread_count(), thread_pool_ir.MAX_THREADS)
        return self.count

    def set_threads(self, count: int) -> None:
        """Set the number of threads, at least 1; wait for a running job."""
        count = min(count, thread_pool_ir.MAX_THREADS)
        with self.lock:
            self.count = count
            if self.workers is not None and not self.busy and self.workers.threads != count:
                self.workers.stop()
                self.workers = None

    def call(self, native: Callable[..., Any], threads: int, *arguments: int) -> None:
        """Call native(state, *arguments, threads) with exclusive use of the workers.

        A call from inside a job, which called back into Python, runs on the caller's thread alone.
        """
        threads = min(threads, thread_pool_ir.MAX_THREADS)
        with self.lock:
            if self.busy:
                native(0, *arguments, 1)
                return
            workers = self.workers
            if workers is None or workers.threads < threads:
                try:
                    workers = self._add_threads(threads)
                except RuntimeError as error:  # a system limit, or interpreter shutdown
                    warn(f"running on one thread instead of {threads}: {error}",
                         RuntimeWarning)
                    native(0, *arguments, 1)
                    return
            self.busy = True
            try:
                native(workers.state, *arguments, threads)
            finally:
                self.busy = False

    def _add_threads(self, threads: int) -> Workers:
        if self.workers is not None:
            self.workers.stop()
        self.workers = None
        self.workers = Workers(max(threads, self.threads()))
        return self.workers

    def reset_after_fork(self) -> None:
        """Reset in a forked child: it has no workers, and no other thread holds the lock."""
        self.lock, self.workers, self.busy = threading.RLock(), None, False

    def close(self) -> None:
        """End the workers at program exit."""
        if self.workers is not None and self.lock.acquire(timeout=1.0):
            try:
                if not self.busy:
                    self.workers.stop()
                    self.workers = None
            finally:
                self.lock.release()


POOL = Pool()
atexit.register(POOL.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=POOL.reset_after_fork)

threads, set_threads = POOL.threads, POOL.set_threads


@lru_cache(maxsize=1)
def _launch() -> Callable[..., Any]:
    return _Launch(thread_pool_ir.load_runtime()["launch"])


def run(function: int, cells: int, threads: int = 0) -> None:
    """Call the kernel at address `function` with its cells on several threads; wait for all.

    `threads` 0 uses the whole pool. Any Python thread may call this; jobs are serialized. A
    KeyboardInterrupt is raised before or after the run, never during it.
    """
    count = threads or POOL.threads()
    if count == 1:
        _launch()(0, function, cells, 1)
    else:
        POOL.call(_launch(), count, function, cells)
