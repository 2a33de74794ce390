"""Processes that make machine code: the same code, every way in which they end, and the policy."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from flambeau.native.foundation.source_hash import PACKAGE
from flambeau.native.jit import object_code, worker_pool
from flambeau.native.loop_ir.ir import (
    Accumulator, Affine, Apply, Axis, Buffer, Constant, Contract, Index, Kernel, Load, Loop,
    LoopKind, ReduceOp, Scalar, Store, Type,
)
from flambeau.native.jit.worker_pool import WorkerPool
from flambeau.native.target.machine import host
from flambeau.native.loop_ir.verify import VerifyError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="ends processes by signals")


def scaled(factor: float, kind: LoopKind = LoopKind.VECTORIZED) -> Kernel:
    """y = factor * x, over ten elements."""
    x, y, i = Buffer(Type.F32, "x"), Buffer(Type.F32, "y"), Index("i")
    place = Affine(0, ((i, 1),))
    value = Apply(Scalar.MUL, (Load(x, place), Constant(Type.F32, factor)), Type.F32)
    return Kernel("scaled", [x, y], [Loop(i, 10, [Store(y, place, value)], kind)])


def product() -> Kernel:
    """c = a @ b, 4 by 4."""
    a, b, c = Buffer(Type.F32, "a"), Buffer(Type.F32, "b"), Buffer(Type.F32, "c")
    i, j, k = Index("i"), Index("j"), Index("k")
    total = Accumulator(ReduceOp.SUM, Type.F32)
    inside = [Store(c, Affine(0, ((i, 4), (j, 1))), total)]
    return Kernel("product", [a, b, c], [Contract(
        (Axis(i, 4),), Axis(j, 4), (Axis(k, 4),), Load(a, Affine(0, ((i, 4), (k, 1)))),
        Load(b, Affine(0, ((k, 4), (j, 1)))), total, inside)])


class Workshop:
    """What came of kernels: made by makers, made here, or left."""

    def __init__(self, crew: WorkerPool) -> None:
        self.crew = crew
        self.code: dict[str, tuple[list[str], bytes]] = {}
        self.here: list[str] = []

    def finish(self, name: str, needs: list[str], code: bytes) -> None:
        self.code[name] = needs, code
        self.pids = [worker.process.pid for worker in self.crew.all if worker is not None]

    def make(self, *kernels: Kernel, aside: bool = True) -> list[str]:
        named = {f"k{i}": kernel for i, kernel in enumerate(kernels)}
        return self.crew.compile(named, self.finish, self.here.append, 1, aside)

    def process(self) -> subprocess.Popen:
        (worker,) = self.crew.all
        assert worker is not None
        return worker.process


@pytest.fixture
def workshop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Workshop]:
    """One maker, as soon as there is anything to make."""
    monkeypatch.setattr(worker_pool, "choose_worker_count", lambda work, threads, aside: 1)
    crew = WorkerPool()
    yield Workshop(crew)
    crew.close()


def gone(crew: WorkerPool, seconds: float = 10.0) -> bool:
    """Whether the threads that talk to makers end."""
    end = time.monotonic() + seconds
    while crew.threads and time.monotonic() < end:
        time.sleep(0.01)
    return not crew.threads


def alive(pid: int) -> bool:
    """Whether there is such a process; one that nobody waited for counts as ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("aside", (False, True))
def test_a_maker_makes_the_code_that_this_process_would(workshop: Workshop, aside: bool) -> None:
    kernels = [scaled(3.0), product(), scaled(2.0, LoopKind.SERIAL)]
    assert workshop.make(*kernels, aside=aside) == []
    assert sorted([*workshop.code, *workshop.here]) == ["k0", "k1", "k2"]
    assert not (aside and workshop.here)
    for name, code in workshop.code.items():
        assert code == object_code.compile_for(kernels[int(name[1:])], name, host())


def test_makers_that_are_expected_begin_before_there_is_work(workshop: Workshop) -> None:
    workshop.crew.prestart(1.0, 2)
    assert workshop.crew.threads == 1
    end = time.monotonic() + 120
    while not workshop.crew.ready and time.monotonic() < end:
        time.sleep(0.01)
    first = workshop.process()
    assert workshop.make(scaled(1.0)) == []
    assert workshop.process() is first


def test_errors_of_a_maker_are_raised_and_it_goes_on(workshop: Workshop) -> None:
    with pytest.raises(VerifyError):
        workshop.make(Kernel("wrong", [], scaled(1.0).body))
    first = workshop.process()
    assert workshop.make(scaled(1.0)) == []
    assert workshop.process() is first
    assert workshop.crew.running == 0
    assert workshop.crew.waiting == []


@pytest.mark.parametrize("executable", ("", "/no/such/python", "/bin/sh"))
def test_without_makers_all_is_left(
    workshop: Workshop, executable: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    monkeypatch.setenv("FLAMBEAU_DEBUG", "1")
    assert workshop.make(scaled(1.0), scaled(2.0)) == ["k0", "k1"]
    assert gone(workshop.crew)
    assert workshop.make(scaled(1.0)) == ["k0"]
    assert capsys.readouterr().err.count("flambeau: machine code is made in this process: ") == 1


def test_a_maker_with_other_sources_is_refused(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_pool, "hash_emitter", lambda: "others")
    assert workshop.make(scaled(1.0)) == ["k0"]
    assert gone(workshop.crew)
    assert "its sources are others" in workshop.crew.why


@pytest.mark.parametrize("by", (signal.SIGKILL, signal.SIGABRT))
def test_a_maker_that_ends_in_the_middle(
    workshop: Workshop, by: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = worker_pool._Worker.ask

    def killed(self: worker_pool._Worker, *rest: object) -> object:
        os.kill(self.process.pid, by)
        self.process.wait()
        return ask(self, *rest)

    monkeypatch.setattr(worker_pool._Worker, "ask", killed)
    if by == signal.SIGKILL:  # from outside: the rest is to be made here
        assert workshop.make(scaled(1.0), scaled(2.0)) == ["k0", "k1"]
    else:
        with pytest.raises(RuntimeError, match="LLVM gave up"):
            workshop.make(scaled(1.0), scaled(2.0))
    assert gone(workshop.crew)
    assert not workshop.crew.all
    monkeypatch.setattr(worker_pool._Worker, "ask", ask)
    assert workshop.make(scaled(1.0)) == []


def test_what_pickle_cannot_carry_is_left(workshop: Workshop) -> None:
    value = Load(Buffer(Type.F32, "x"), Affine(0))
    for _ in range(10_000):
        value = Apply(Scalar.NEG, (value,), Type.F32)
    deep = Kernel("deep", [], [Store(Buffer(Type.F32, "y"), Affine(0), value)])
    assert workshop.make(deep, scaled(2.0)) == ["k0"]
    assert [*workshop.code] == ["k1"]
    assert workshop.crew.running == 0


def test_an_idle_maker_ends_and_leaves_nothing(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_pool, "WORKER_IDLE_TIMEOUT_S", 0.05)
    assert workshop.make(scaled(1.0)) == []
    (pid,) = workshop.pids
    assert gone(workshop.crew)
    with pytest.raises(ChildProcessError):  # it was waited for
        os.waitpid(pid, 0)


def test_an_interrupt_ends_makers(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(workshop, "finish", interrupt)
    with pytest.raises(KeyboardInterrupt):
        workshop.make(scaled(1.0), scaled(2.0), scaled(3.0))
    assert not workshop.crew.all
    assert gone(workshop.crew)
    assert workshop.crew.waiting == []


def test_a_forked_child_has_no_makers(workshop: Workshop) -> None:
    assert workshop.make(scaled(1.0)) == []
    first = workshop.process()
    child = os.fork()
    if child == 0:
        workshop.crew.reset_after_fork()
        is_closed = first.stdin is not None and first.stdin.closed
        os._exit(0 if not workshop.crew.all and is_closed else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert workshop.make(scaled(2.0)) == []
    assert workshop.process() is first


_PROGRAM = """
import os, sys, threading, time, types
sys.modules["flambeau"] = types.ModuleType("flambeau")  # its __init__ takes longer than all else
sys.modules["flambeau"].__path__ = [sys.argv[2]]
from flambeau.native.jit import worker_pool as makers
from flambeau.native.loop_ir.ir import Kernel
makers.choose_worker_count = lambda *_: 1
def make():
    makers.WORKERS.compile({"k": Kernel("k", [], [])}, print, print, 1, True)
threading.Thread(target=make, daemon=True).start()
while not makers.WORKERS.ready:
    time.sleep(0.01)
(one,) = makers.WORKERS.ready
print("pid", one.process.pid, flush=True)
if sys.argv[1] == "kill":
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("how", ("exit", "kill"))
def test_makers_end_with_the_process(how: str) -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM, how, PACKAGE], capture_output=True,
                          text=True, timeout=60, check=False)
    assert done.returncode == (0 if how == "exit" else -9), done.stderr
    pid = int(done.stdout.split("pid ")[1].split()[0])
    end = time.monotonic() + 120
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    assert not alive(pid)


_INTERRUPTED = """
import signal
one = one.process
assert os.getpgid(one.pid) != os.getpgid(0), "in the terminal's group"
os.kill(one.pid, signal.SIGINT)  # as where there are no groups
time.sleep(0.3)
assert one.poll() is None, "ended by an interrupt that was not for it"
child = os.fork()
if child == 0:
    os._exit(len(makers.WORKERS.all) + len(makers.WORKERS.ready))
assert os.waitpid(child, 0)[1] == 0, "a child has its parent's makers"
"""


def test_interrupts_and_forks_in_a_real_process() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM + _INTERRUPTED, "exit", PACKAGE],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLAMBEAU_COMPILE_WORKERS", raising=False)
    assert worker_pool.compile_time_s(product()) > 3 * worker_pool.compile_time_s(scaled(1.0))
    assert worker_pool.choose_worker_count(0.2, 16, False) == 0  # not worth the start of one
    assert worker_pool.choose_worker_count(100.0, 1, False) == 0  # one processor stays one
    assert worker_pool.choose_worker_count(0.6, 2, False) == 0
    assert worker_pool.choose_worker_count(2.0, 2,
                                           False) == 1  # and the thread that waits makes code too
    assert worker_pool.choose_worker_count(1.2, 16, False) == 4
    assert [worker_pool.choose_worker_count(100.0, n, False) for n in (2, 4, 16)] == [1, 3, 15]
    assert [worker_pool.choose_worker_count(100.0, n, True) for n in (1, 2, 4, 16)] == [1, 1, 1, 4]
    monkeypatch.setenv("FLAMBEAU_COMPILE_WORKERS", "0")
    assert (
        worker_pool.choose_worker_count(100.0, 16, True)
        == worker_pool.choose_worker_count(100.0, 16, False) == 0
    )
    monkeypatch.setenv("FLAMBEAU_COMPILE_WORKERS", "3")
    assert worker_pool.choose_worker_count(100.0, 16, False) == 3
