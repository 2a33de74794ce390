"""What looks at memory: the monitor's numbers and warnings, the sizes that the finder tries."""

from __future__ import annotations

import mmap
import threading

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.train import BatchSizeFinder, MemoryMonitor, Trainer
from flambeau.train.callbacks import batch_size_finder, memory_monitor
from flambeau.train.callbacks.batch_size_finder import BatchSizes, Trial
from flambeau.train.reporting import memory
from flambeau.utils.data import DataLoader, TensorDataset

pytest.importorskip("psutil")
X = torch.randn(64, 8)
Y = X.sum(1, keepdim=True)


def make(**options) -> Trainer:
    torch.manual_seed(0)
    return Trainer(nn.Linear(8, 1), "sgd", "mse", compile=False, **options)


def test_the_monitor_sees_the_peak_of_an_epoch(monkeypatch) -> None:
    """The process has 100 MiB, for a while 260 within the second step."""
    size, looked = [100], threading.Event()

    def resident() -> int:
        if size[0] == 260 and threading.current_thread() is not threading.main_thread():
            looked.set()
        return size[0] * 2**20

    for module in (memory, memory_monitor):
        monkeypatch.setattr(module, "read_resident_bytes", resident)
    monkeypatch.setattr(memory, "read_peak_bytes", lambda: 900 * 2**20)  # of before

    def step(batch):
        if batch == 2:
            size[0] = 260
            assert looked.wait(30)
            size[0] = 100
        return 0.0

    trainer = make(callbacks=[MemoryMonitor()])
    trainer.step(step)
    row = trainer.fit([1, 2, 3], epochs=1, progress=False)[0]
    assert row["memory_peak_mb"] == 260
    assert row["memory_mb"] == 100


def test_a_peak_above_all_before_is_the_systems_own_number(monkeypatch) -> None:
    highest = [900 * 2**20]
    monkeypatch.setattr(memory, "read_resident_bytes", lambda: 100 * 2**20)
    monkeypatch.setattr(memory, "read_peak_bytes", lambda: highest[0])
    with memory.PeakMemory(interval_s=30) as peak:
        highest[0] += 1  # between two looks
    assert peak.peak == 900 * 2**20 + 1


def test_memory_of_the_process_is_what_an_array_adds() -> None:
    before = memory.read_resident_bytes()
    # 128 MB that no allocator had before, all of them written.
    array = np.frombuffer(mmap.mmap(-1, 128_000_000), np.uint8)
    array[:] = 1
    assert memory.read_resident_bytes() - before > 0.9 * array.nbytes
    assert memory.read_peak_bytes() >= before + 0.9 * array.nbytes


def test_the_monitor_warns_once(monkeypatch) -> None:
    sizes = iter(range(0, 10**12, 2**24))
    monkeypatch.setattr(memory_monitor, "read_resident_bytes", lambda: next(sizes))
    monkeypatch.setattr(memory_monitor, "read_available_bytes", lambda: 2**20)
    with pytest.warns(UserWarning, match="MemoryMonitor") as caught:
        make(callbacks=[MemoryMonitor(leak_epochs=3)]).fit(X, Y, 8, progress=False)
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == 2
    assert "1 MiB of memory are left" in texts[0]
    assert "grew in each of 3 epochs, from 0 to 48 MiB" in texts[1]


def test_the_finder_leaves_everything_as_it_was() -> None:
    trainer = make()
    before = {name: value.clone() for name, value in trainer.net.state_dict().items()}
    sizes = BatchSizeFinder(low=8).run(trainer, DataLoader(TensorDataset(X, Y), batch_size=3))
    assert [trial.batch_size for trial in sizes][:2] == [8, 16]
    assert sizes[-1].batch_size <= 64
    for name, value in trainer.net.state_dict().items():
        assert torch.equal(value, before[name])
    assert trainer.state.step == 0
    assert "suggested" in repr(sizes)
    assert sizes._repr_html_().count("<tr>") == len(sizes) + 1


def test_the_finder_stops_before_memory_runs_out(monkeypatch) -> None:
    monkeypatch.setattr(batch_size_finder, "read_available_bytes", lambda: 0)
    monkeypatch.setattr(BatchSizeFinder, "_try", lambda self, t, d, size: Trial(size, 1.0, 100))
    sizes = BatchSizeFinder().run(make(), (X, Y))
    assert len(sizes) == 1
    assert sizes.stopped_by == "twice as many would take more than 80% of memory"


def test_the_suggestion_is_the_smallest_of_the_fast_ones() -> None:
    sizes = BatchSizes([Trial(8, 10.0, 0), Trial(16, 95.0, 0), Trial(32, 100.0, 0)])
    assert sizes.suggestion == 16
    with pytest.raises(ValueError, match="needs a dataset"):
        BatchSizeFinder().run(make(), [(X, Y)])
