"""Pages that are about to be written are fetched beforehand; what lies there stays."""

from __future__ import annotations

import mmap
import threading

import numpy as np
import pytest

from flambeau.native.runtime import page_prefault
from flambeau.native.runtime.page_prefault import PagePrefaulter
from flambeau.native.target.cost_model import MIN_PREFAULT_BYTES

resource = pytest.importorskip("resource")


@pytest.fixture(autouse=True)
def _two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_prefault, "count_usable_processors", lambda: 2)
    monkeypatch.setattr(page_prefault, "threads", lambda: 2)


def untouched(size: int) -> np.ndarray:
    area = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        area.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(area, np.uint8)


def faults(array: np.ndarray) -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    array[:: mmap.PAGESIZE] = 1
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)


def finished(asked: PagePrefaulter) -> None:
    thread = asked._thread
    if thread is not None:
        thread.join()


def test_pages_are_there_when_they_are_written() -> None:
    first, second, other = (untouched(32 << 20) for _ in range(3))
    asked = PagePrefaulter()
    asked.ask(first)
    finished(asked)
    asked.ask(second)
    finished(asked)
    assert max(faults(first), faults(second)) < faults(other) // 4


def test_pages_are_fetched_meanwhile() -> None:
    array, other = untouched(32 << 20), untouched(32 << 20)
    with page_prefault.prefault(array):
        pass
    assert faults(array) < faults(other) // 4
    with pytest.raises(KeyError), page_prefault.prefault(array):
        raise KeyError


def test_values_stay() -> None:
    array = np.arange(1 << 20, dtype=np.uint8)
    wanted, asked = array.copy(), PagePrefaulter()
    asked.ask(array)
    finished(asked)
    assert np.array_equal(array, wanted)


def test_a_stop_leaves_nobody_at_the_memory() -> None:
    asked = PagePrefaulter()
    arrays = [untouched(256 << 20) for _ in range(4)]
    for array in arrays:
        asked.ask(array)
    asked.stop()
    assert not any(thread.name == "flambeau-pages" for thread in threading.enumerate())
    left = untouched(32 << 20)
    asked.ask(left)  # comes too late
    assert faults(left) > 1000
    assert faults(arrays[-1]) > 1000  # a stop does not wait for a second's work


def test_to_finish_is_to_help() -> None:
    arrays, asked = [untouched((9 << 20) + 5000) for _ in range(6)], PagePrefaulter()
    for array in arrays:
        asked.ask(array)
    asked.finish()
    assert not any(thread.name == "flambeau-pages" for thread in threading.enumerate())
    assert sum(map(faults, arrays)) < 200
    late = untouched(32 << 20)
    asked.ask(late)
    asked.finish()
    assert faults(late) > 1000


def test_what_is_left_at_the_end_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, helped = threading.Event(), threading.Event()
    threads: list[tuple[int, threading.Thread]] = []

    def work(job: page_prefault._PrefaultJob) -> None:
        threads.append((len(job.arrays), threading.current_thread()))
        if len(threads) == 1:  # the thread's, until the other one helps
            begun.set()
            assert helped.wait(30)
        else:
            helped.set()

    monkeypatch.setattr(page_prefault._PrefaultJob, "work", work)
    asked = PagePrefaulter()
    asked.ask(untouched(2 << 20))
    assert begun.wait(30)
    for _ in range(2):
        asked.ask(untouched(2 << 20))
    asked.finish()
    assert len({thread for calls, thread in threads if calls == 2}) == 2


def test_without_threads_finish_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    array = np.empty(MIN_PREFAULT_BYTES, np.uint8)
    prefaulter = PagePrefaulter()
    prefaulter.ask(array)
    prefaulter.finish()
    array[:] = 1


def test_nothing_is_fetched_where_there_is_one_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_prefault, "count_usable_processors", lambda: 1)
    array, asked = untouched(32 << 20), PagePrefaulter()
    asked.ask(array)
    finished(asked)
    assert faults(array) > 1000
