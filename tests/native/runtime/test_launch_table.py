"""Programs: records in order, barriers, serial records, the table, timing, several callers."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pytest

from flambeau.native.runtime.thread_pool import POOL
from flambeau.native.runtime.launch_table import LaunchTable, Patch, Record, _drop_needless_barriers
from flambeau.native.runtime.thread_pool_ir import BARRIER, SERIAL
from flambeau.native.jit.elf_loader import load

# cells: an array, its length, a factor. neighbours: out[i] = in[i - 1] + in[i + 1] + factor, each
# thread its share (cells: out, in, length, factor). where: cells[0][tid] += threads.
CODE = """
define void @neighbours(i64 %tid, i64 %threads, ptr %cells) {
entry:
  %a1 = getelementptr i64, ptr %cells, i64 1
  %a2 = getelementptr i64, ptr %cells, i64 2
  %a3 = getelementptr i64, ptr %cells, i64 3
  %out = load ptr, ptr %cells
  %in = load ptr, ptr %a1
  %n = load i64, ptr %a2
  %factor = load i64, ptr %a3
  %lo_n = mul i64 %tid, %n
  %tid1 = add i64 %tid, 1
  %hi_n = mul i64 %tid1, %n
  %lo = sdiv i64 %lo_n, %threads
  %hi = sdiv i64 %hi_n, %threads
  br label %next
next:
  %i = phi i64 [%lo, %entry], [%i1, %body]
  %more = icmp slt i64 %i, %hi
  br i1 %more, label %body, label %end
body:
  %i1 = add i64 %i, 1
  %im = add i64 %i, %n
  %before = sub i64 %im, 1
  %left = srem i64 %before, %n
  %right = srem i64 %i1, %n
  %lp = getelementptr i64, ptr %in, i64 %left
  %rp = getelementptr i64, ptr %in, i64 %right
  %l = load i64, ptr %lp
  %r = load i64, ptr %rp
  %s = add i64 %l, %r
  %t = add i64 %s, %factor
  %op = getelementptr i64, ptr %out, i64 %i
  store i64 %t, ptr %op
  br label %next
end:
  ret void
}
define void @where(i64 %tid, i64 %threads, ptr %cells) {
  %array = load ptr, ptr %cells
  %at = getelementptr i64, ptr %array, i64 %tid
  %old = load i64, ptr %at
  %new = add i64 %old, %threads
  store i64 %new, ptr %at
  ret void
}
"""


def address(name: str) -> int:
    return load(CODE, ["neighbours", "where"])[name]


def ring(array: np.ndarray, factors: Sequence[int]) -> np.ndarray:
    for factor in factors:
        array = np.roll(array, 1) + np.roll(array, -1) + factor
    return array


class Stages:
    """A program of many stages, each of which reads what all threads wrote in the one before."""

    def __init__(self, length: int, factors: Sequence[int], flags: int = BARRIER) -> None:
        self.start = np.arange(length) % 7
        self.factors = list(factors)
        self.a, self.b = self.start.copy(), np.zeros(length, np.int64)
        places = [self.a.ctypes.data, self.b.ctypes.data]
        f = address("neighbours")
        records = [Record(f, [places[(i + 1) % 2], places[i % 2], length, factor], flags)
                   for i, factor in enumerate(self.factors)]
        self.program = LaunchTable(records, keep=(self.a, self.b))

    def check(self, threads: int) -> None:
        self.a[:] = self.start
        self.program.run(threads=threads)
        result = self.b if len(self.factors) % 2 else self.a
        assert result.tolist() == ring(self.start, self.factors).tolist()


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("length", [1, 2, 13, 64])
def test_stages_see_what_others_wrote(threads: int, length: int) -> None:
    stages = Stages(length, [i % 3 for i in range(40)])
    for _ in range(5):
        stages.check(threads)


def test_programs_share_the_workers_with_different_numbers_of_threads() -> None:
    first, second = Stages(13, range(20)), Stages(11, range(31))
    for i in range(30):
        first.check(1 + i % 4)
        second.check(1 + i % 3)


def test_serial_records_run_on_one_thread() -> None:
    counts = np.zeros(8, np.int64)
    where, cells = address("where"), [counts.ctypes.data]
    flags = (SERIAL | BARRIER, BARRIER, SERIAL, SERIAL | BARRIER, 0)
    LaunchTable([Record(where, cells, flag) for flag in flags], keep=counts).run(threads=3)
    assert counts[:4].tolist() == [3 + 2 * 3, 6, 6, 0]


def test_barriers_that_nobody_needs_are_left_out() -> None:
    def flags(*flags_before: int) -> list[int]:
        return _drop_needless_barriers([Record(0, [], flag) for flag in flags_before])

    both = SERIAL | BARRIER
    assert flags(BARRIER, BARRIER, BARRIER) == [BARRIER, BARRIER, 0]
    assert flags(both, both, BARRIER, 0) == [SERIAL, both, BARRIER, 0]
    # What the first record's other threads write, the third may read.
    assert flags(0, both, both, BARRIER) == [0, both, both, 0]
    assert flags(both, SERIAL, 0) == [SERIAL, both, 0]
    assert flags() == []


@pytest.mark.parametrize("threads", [1, 2])
def test_the_table_fills_cells(threads: int) -> None:
    arrays = np.zeros((4, 16), np.int64)
    where = address("where")
    table = LaunchTable(
        [Record(where, [0]), Record(where, [0]), Record(where, [arrays.ctypes.data])],
        [Patch(0, 0, 1), Patch(1, 0, 0, 16)],
        slots=2,
    )
    for row in (1, 2):
        table.run([arrays[row].ctypes.data, arrays[3].ctypes.data], threads)
    assert arrays[0, 0] == 2 * threads
    assert arrays[3, 0] == 2 * threads
    assert arrays[1, 2] == arrays[2, 2] == threads
    assert arrays.sum() == (2 + 2 + 1 + 1) * threads * threads


def test_the_table_has_a_value_for_each_slot() -> None:
    table = LaunchTable([Record(address("where"), [0])], [Patch(0, 0, 0)], slots=1)
    with pytest.raises(ValueError, match="0 values for a table of 1 slots"):
        table.run([])
    with pytest.raises(IndexError):
        LaunchTable([Record(1, [0])], [Patch(0, 1, 0)], slots=1)
    with pytest.raises(IndexError):
        LaunchTable([Record(1, [0])], [Patch(0, 0, 1)], slots=1)


def test_an_empty_program() -> None:
    table = LaunchTable([])
    for threads in (1, 2):
        table.run(threads=threads)
        assert table.measure(threads=threads).total == 0.0
    assert len(table) == 0


@pytest.mark.parametrize("threads", [1, 3])
def test_timing(threads: int) -> None:
    stages = Stages(30_000, range(6))
    timing = stages.program.measure(threads=threads)
    assert timing.busy.shape == (threads, 6)
    assert (timing.busy > 0).all()
    assert (timing.begin[:, 1:] >= timing.finish[:, :-1]).all()
    # No thread begins a record before all have finished the one before it.
    assert (timing.begin[:, 1:].min(axis=0) >= timing.finish[:, :-1].max(axis=0) - 1e-6).all()
    assert timing.begin.min() == 0.0
    assert timing.total == timing.finish.max()
    assert 1e-5 < timing.total < 10.0
    stages.check(threads)


def test_seconds_are_seconds() -> None:
    from time import perf_counter

    stages = Stages(200_000, range(10))
    begin = perf_counter()
    timing = stages.program.measure(threads=1)
    passed = perf_counter() - begin
    assert 0.5 * passed < timing.total <= passed * 1.01


def test_several_callers_of_one_program_and_of_others() -> None:
    POOL.set_threads(2)
    shared = Stages(50, range(30))
    failures: list[BaseException] = []

    def call(stages: Stages, own: Stages) -> None:
        try:
            for i in range(50):
                with stages.program.lock:
                    stages.check(1 + i % 2)
                own.check(2)
        except BaseException as error:
            failures.append(error)

    callers = [threading.Thread(target=call, args=(shared, Stages(17, range(9)))) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not failures
