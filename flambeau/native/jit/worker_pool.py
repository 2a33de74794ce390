"""A pool of compile workers: processes that turn kernels into machine code (`worker_main`).

They take no interpreter lock or memory from this process. Without them, `compile` uses threads.
Workers start when they pay off (`choose_worker_count`), and exit when idle, with the process, or on
Ctrl-C.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from queue import SimpleQueue
from typing import IO, Any

from ..foundation.environment import DEBUG
from ..foundation.environment import COMPILE_WORKERS as FLAG
from ..foundation.source_hash import PACKAGE
from ..loop_ir.ir import Contract, Kernel, iterate_statements
from ..target.compile_costs import (
    FIRST_PRODUCT_COMPILE_S, IN_PROCESS_TIME_RATIO, MIN_BACKGROUND_WORK_S, OTHER_KERNEL_COMPILE_S,
    PROCESSORS_PER_BACKGROUND_WORKER, WORKER_IDLE_TIMEOUT_S, WORKER_START_S,
    WORKER_START_TIMEOUT_S, WORK_PER_WORKER_S,
)
from ..target.machine import Target, host, llvm_version
from .object_code import hash_emitter
from .worker_main import receive, send

# A package stub replaces flambeau/__init__.py, which would import everything.
_BOOT = """
import sys, types
parent, package, *sys.path = sys.argv[1:]
sys.modules["flambeau"] = types.ModuleType("flambeau")
sys.modules["flambeau"].__path__ = [package]
from flambeau.native.jit.worker_main import serve
serve(int(parent))
"""
# Signals that end a worker for reasons other than bad code.
_EXTERNAL_SIGNALS = ("SIGKILL", "SIGTERM", "SIGHUP", "SIGINT")

# ------------------------------------------------------------------------------------- the policy


def compile_time_s(kernel: Kernel) -> float:
    """Return the estimated compile time of a kernel in seconds."""
    products = sum(isinstance(statement, Contract) for statement in iterate_statements(kernel.body))
    further = OTHER_KERNEL_COMPILE_S * max(products, 1)
    return further + (FIRST_PRODUCT_COMPILE_S if products else 0.0)


def choose_worker_count(work: float, threads: int, aside: bool) -> int:
    """Return how many workers to run, given `work` seconds of compile time so far.

    Past work predicts future work. Unless `aside`, the waiting thread compiles too, so a single
    processor needs no worker.
    """
    limit = FLAG.value()
    if limit < 0:
        limit = max(1, threads // PROCESSORS_PER_BACKGROUND_WORKER) if aside else threads - 1
    if limit <= 0:
        return 0
    count = min(limit, max(1, round(work / WORK_PER_WORKER_S)))
    if aside:
        return count if work >= MIN_BACKGROUND_WORK_S else 0
    return (
        count if (work + count * WORKER_START_S) / (count + 1) < work * IN_PROCESS_TIME_RATIO else 0
    )


# ------------------------------------------------------------------------------------ the processes


@dataclass(eq=False)
class _Job:
    """A kernel to compile; `done` receives (job, answer), with None if no worker answered."""

    name: str
    kernel: Kernel
    aside: bool
    cost: float
    done: SimpleQueue[tuple[_Job, tuple[Any, ...] | None]]

    def priority(self) -> tuple[bool, float]:
        return self.aside, -self.cost


class _Worker:
    """A worker process, as seen by the one thread that talks to it."""

    def __init__(self) -> None:
        path = [os.path.abspath(place) for place in sys.path if place]
        options = ["-I", "-S", *(["-B"] if sys.dont_write_bytecode else [])]
        if os.name == "nt":
            others: dict[str, Any] = {"creationflags": 0x08000200}  # no window, a separate group
        else:
            others = {"process_group": 0}  # shield the worker from Ctrl-C
        self.said = _open_log()
        self.process = subprocess.Popen(
            [sys.executable, *options, "-c", _BOOT, str(os.getpid()), PACKAGE, *path], bufsize=0,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if self.said is None else self.said, **others,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.pipes: list[IO[bytes]] = [self.process.stdin, self.process.stdout]

    def begin(self) -> None:
        """Wait until it is ready. Raises RuntimeError if it times out or its code generator differs
        from this process's.
        """
        place = self.pipes[1].fileno()
        if os.name == "posix" and not select.select([place], [], [], WORKER_START_TIMEOUT_S)[0]:
            raise RuntimeError("it did not begin")
        if receive(place) != (hash_emitter(), llvm_version()):
            raise RuntimeError("its sources are others")

    def ask(self, job: _Job, target: Target) -> tuple[Any, ...]:
        """Send a job and return the answer. Raises EOFError or OSError if the worker died."""
        send(self.pipes[0].fileno(), (job.aside, job.name, job.kernel, target))
        return receive(self.pipes[1].fileno())

    def end(self) -> str:
        """Kill it and return what it printed; "" on a second call."""
        self.process.kill()
        self.process.wait()
        output = b""
        if self.said is not None:
            output = os.pread(self.said, 1 << 16, 0)
        self._close()
        return output.decode(errors="replace").strip()

    def _close(self) -> None:
        for pipe in self.pipes:
            pipe.close()
        if self.said is not None:
            os.close(self.said)
            self.said = None

    def fault(self) -> tuple[Any, ...] | None:
        """Return the answer for a worker that died: an error if the code was at fault."""
        try:
            self.process.wait(5.0)
        except subprocess.TimeoutExpired:
            pass
        code = self.process.poll()
        output = self.end()
        struck = [
            -int(getattr(signal, name)) for name in _EXTERNAL_SIGNALS if hasattr(signal, name)
        ]
        if code is None or code in struck:
            return None
        last = output.splitlines()[-1] if output else f"it ended with {code}"
        return False, RuntimeError(f"LLVM gave up: {last}")

    def forget(self) -> None:
        """Drop the worker in a forked child, which does not own it."""
        self.process.returncode = 0
        self._close()


def _open_log() -> int | None:
    """Open an in-memory file for a worker's stderr (a full pipe would block it), or return None."""
    try:
        return os.memfd_create("flambeau-maker")
    except (AttributeError, OSError):
        return None


class WorkerPool:
    """This process's workers, one thread per worker that talks to it, and the job queue."""

    def __init__(self) -> None:
        self.lock = threading.Condition()
        self.waiting: list[_Job] = []
        self.threads = 0  # threads that start or talk to workers
        self.all: set[_Worker | None] = set()
        self.ready: set[_Worker | None] = set()
        self.running = 0  # jobs in progress
        self.why = ""  # why workers are impossible; "" if they are possible
        self.work = 0.0  # estimated compile time of all jobs so far, in seconds

    def compile(
        self, kernels: Mapping[str, Kernel], finish: Callable[[str, list[str], bytes], None],
        here: Callable[[str], None], threads: int, aside: bool,
    ) -> list[str]:
        """Run finish(name, external functions, code) for all kernels that workers compile.

        Returns the names of the others. While fewer than `threads` workers are ready, here(name)
        compiles some in this process, unless `aside`. Raises the first error.
        """
        done: SimpleQueue[tuple[_Job, tuple[Any, ...] | None]] = SimpleQueue()
        jobs = [
            _Job(name, kernel, aside, compile_time_s(kernel), done)
            for name, kernel in kernels.items()
        ]
        if not self._submit(jobs, threads, aside):
            return [*kernels]
        remaining: list[str] = []
        try:
            due = len(jobs)
            while due:
                job = None if aside else self._withdraw(done, threads)
                due -= 1
                if job is not None:
                    here(job.name)
                    continue
                job, answer = done.get()
                if answer is None:
                    remaining.append(job.name)
                elif answer[0]:
                    finish(job.name, answer[1], answer[2])
                else:
                    raise answer[1]
        except BaseException as error:
            with self.lock:
                self.waiting = [job for job in self.waiting if job.done is not done]
            if not isinstance(error, Exception):
                self.close()
            raise
        return remaining

    def _submit(self, jobs: list[_Job], threads: int, aside: bool) -> bool:
        """Queue jobs and start missing workers. Return False if there can be no workers."""
        with self.lock:
            self.work += sum(job.cost for job in jobs)
            count = choose_worker_count(self.work, threads, aside)
            if FLAG.value() == 0 or not (count or self.ready) or not self._can_start():
                return False
            self.waiting = sorted(self.waiting + jobs, key=_Job.priority)
            self._start(min(count, self.running + len(self.waiting)) - self.threads)
            if not self.threads:
                self.waiting = [job for job in self.waiting if job not in jobs]
                return False
            self.lock.notify_all()
            return True

    def prestart(self, work: float, threads: int) -> None:
        """Start workers for work that a caller will soon wait for."""
        with self.lock:
            count = choose_worker_count(self.work + work, threads, False)
            if count and self._can_start():
                self._start(count - self.threads)

    def _start(self, count: int) -> None:
        """Start `count` threads, each with a worker. The caller holds the lock."""
        for _ in range(count):
            thread = threading.Thread(target=self._serve, name="flambeau-maker", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # a system limit, or interpreter shutdown
                return
            self.threads += 1

    def _can_start(self) -> bool:
        name = os.path.basename(sys.executable or "").lower()
        if not self.why and (not name.startswith(("python", "pypy")) or hasattr(sys, "frozen")):
            self._disable("sys.executable is no Python")
        if not self.why and hash_emitter() is None:
            self._disable("the package is not in files")
        return not self.why

    def _disable(self, why: str) -> None:
        self.why = why
        if DEBUG.value():
            print(f"flambeau: machine code is made in this process: {why}", file=sys.stderr)

    def _withdraw(self, done: SimpleQueue[Any], threads: int) -> _Job | None:
        """Take back a caller's cheapest job, unless a free worker will take it."""
        with self.lock:
            jobs = [job for job in self.waiting if job.done is done]
            free = len(self.ready) - self.running
            if len(self.ready) >= threads or len(jobs) <= free:
                return None
            self.waiting.remove(jobs[-1])
            return jobs[-1]

    # The threads that talk to workers.

    def _serve(self) -> None:
        process: _Worker | None = None
        try:
            process = self._start_worker()
            while process is not None and (job := self._wait_for_job(process)) is not None:
                answer = self._request_answer(process, job)
                with self.lock:
                    self.running -= 1
                job.done.put((job, answer))
        finally:
            if process is not None:
                process.end()
            with self.lock:
                self.threads -= 1
                self.all.discard(process)
                self.ready.discard(process)
                remaining = [] if self.threads else self.waiting
                if remaining:
                    self.waiting = []
            for job in remaining:
                job.done.put((job, None))

    def _start_worker(self) -> _Worker | None:
        """Start a worker and wait until it is ready. On failure, disable workers; return None."""
        process = None
        try:
            process = _Worker()
            with self.lock:
                self.all.add(process)
            process.begin()
        except Exception as error:
            output = "" if process is None else process.end()
            with self.lock:
                if process is None or process in self.all:  # not closed meanwhile
                    self._disable(f"no process could be started: {output or error}")
                self.all.discard(process)
            return None
        with self.lock:
            self.ready.add(process)
        return process

    def _wait_for_job(self, process: _Worker) -> _Job | None:
        """Return the next job; None if the worker was idle too long, was closed or has died."""
        with self.lock:
            self.lock.wait_for(
                lambda: self.waiting or process not in self.all, timeout=WORKER_IDLE_TIMEOUT_S
            )
            if not self.waiting or process.process.poll() is not None:
                return None
            self.running += 1
            return self.waiting.pop(0)

    def _request_answer(self, process: _Worker, job: _Job) -> tuple[Any, ...] | None:
        """Return a worker's answer; None if there is none and the job can be done here."""
        try:
            answer = process.ask(job, host())
        except (EOFError, OSError):
            return process.fault()
        except Exception:  # the kernel cannot be pickled, e.g. nested too deeply
            return None
        return None if isinstance(answer[1], RecursionError) else answer

    # Shutdown and fork.

    def close(self) -> None:
        """Kill all workers; their current jobs are lost."""
        with self.lock:
            workers = [worker for worker in self.all if worker is not None]
            self.all.clear()
            self.ready.clear()
            self.lock.notify_all()
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.process.wait()

    def reset_after_fork(self) -> None:
        """Reset in a forked child: it has no workers, and no other thread holds the lock."""
        for worker in self.all:
            if worker is not None:
                worker.forget()
        self.lock, self.waiting, self.threads, self.running = threading.Condition(), [], 0, 0
        self.all, self.ready = set(), set()


WORKERS = WorkerPool()
atexit.register(WORKERS.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=WORKERS.reset_after_fork)
