"""torch.multiprocessing: tensors that processes share, and errors that reach the caller."""

from __future__ import annotations

import os
import pickle
import signal
import time
from typing import Any

import pytest

import flambeau as torch
import flambeau.multiprocessing as mp
from flambeau import nn
from flambeau.multiprocessing.reductions import StorageWeakRef


def add(number: int, shared: Any, net: Any, queue: Any, done: Any) -> None:
    with torch.no_grad():
        shared[number] += number + 1
        net.weight[number] += 1
    queue.put((number, torch.full((2,), float(number)), type(net.weight) is nn.Parameter))
    done.wait()


def fail(number: int) -> None:
    if number == 1:
        raise ValueError(f"bad {number}")


def kill(number: int) -> None:
    if number == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def leave(number: int) -> None:
    os._exit(3)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_write_to_one_memory(method: str) -> None:
    context = mp.get_context(method)
    shared, net = torch.zeros(2).share_memory_(), nn.Linear(1, 2)
    nn.init.zeros_(net.weight)
    net.share_memory()
    queue, done = context.Queue(), context.Event()
    workers = [context.Process(target=add, args=(i, shared, net, queue, done)) for i in range(2)]
    for worker in workers:
        worker.start()
    reports = sorted((queue.get(timeout=60) for _ in workers), key=lambda report: report[0])
    done.set()
    for worker in workers:
        worker.join()
    assert [(n, x.tolist(), same_memory) for n, x, same_memory in reports] == [
        (0, [0, 0], True), (1, [1, 1], True)]
    assert all(x.is_shared() for _, x, _ in reports)
    assert (shared.tolist(), net.weight.tolist()) == ([1, 2], [[1], [1]])


def test_sharing_keeps_layout_and_kind() -> None:
    x = torch.arange(6.0).reshape(2, 3).T.clone(memory_format=torch.preserve_format)
    before = (x.stride(), x.tolist())
    assert not x.is_shared()
    assert x.share_memory_() is x
    assert (x.stride(), x.tolist()) == before
    assert x.is_shared()
    assert x[1:].is_shared()
    half = torch.ones(2, dtype=torch.bfloat16).share_memory_()
    assert (half.dtype, half.tolist()) == (torch.bfloat16, [1, 1])
    assert torch.zeros(0).share_memory_().numel() == 0


def test_what_cannot_be_sent() -> None:
    with pytest.raises(NotImplementedError, match=r"share_memory_ of a tensor of \[1\]"):
        torch.zeros(2)[1:].share_memory_()
    history = torch.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf"):
        mp.reductions.reduce_tensor(history)


def test_errors_of_processes_reach_the_caller() -> None:
    with pytest.raises(mp.ProcessRaisedException, match="ValueError: bad 1") as raised:
        mp.start_processes(fail, nprocs=2, start_method="fork")
    assert raised.value.error_index == 1
    start = "\n\n-- Process 1 terminated with the following error:\nTraceback (most recent call"
    assert str(raised.value).startswith(start)
    assert pickle.loads(pickle.dumps(raised.value)).error_pid == raised.value.error_pid
    with pytest.raises(mp.ProcessExitedException, match="terminated with exit code 3") as left:
        mp.start_processes(leave, nprocs=1, start_method="fork")
    assert left.value.exit_code == 3
    with pytest.raises(mp.ProcessExitedException) as killed:
        mp.start_processes(kill, nprocs=2, start_method="fork")
    assert str(killed.value) == "process 0 terminated with signal SIGKILL"
    assert (killed.value.exit_code, killed.value.signal_name) == (-9, "SIGKILL")


def test_spawn_returns_a_context_that_can_be_joined():
    context = mp.start_processes(fail, nprocs=1, join=False, start_method="fork")
    assert len(context.pids()) == 1
    while not context.join(timeout=10):
        pass


def test_sharing_strategies():
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy("file_system")
    assert mp.get_sharing_strategy() == "file_system"
    mp.set_sharing_strategy(before)
    with pytest.raises(AssertionError, match="invalid sharing strategy 'paper', expected one of"):
        mp.set_sharing_strategy("paper")


def test_weak_references_know_which_storages_share_memory():
    for device in ("cpu", "meta"):
        x = torch.zeros(3, 4, device=device)
        reference = StorageWeakRef(x.untyped_storage())
        for view in (x.t(), x[1], x.view(-1), x.detach(), x.data, x.split(1)[2]):
            other = StorageWeakRef(view.untyped_storage())
            assert reference == other and hash(reference) == hash(other)
        assert reference != StorageWeakRef(x.clone().untyped_storage())
        assert reference.cdata == x[1].untyped_storage()._cdata
        assert StorageWeakRef.from_weakref(reference.cdata) == reference
        assert {StorageWeakRef(t.untyped_storage()) for t in (x, x.t())} == {reference}
    with pytest.raises(AttributeError, match="_weak_ref"):
        StorageWeakRef(3)


def test_weak_references_expire_with_the_memory():
    x = torch.ones(3, requires_grad=True)
    reference = StorageWeakRef(x.untyped_storage())
    (x * x).sum().backward()
    view = x.detach()[:1]
    del x
    assert not reference.expired()
    del view
    assert reference.expired() and StorageWeakRef.from_weakref(reference.cdata).expired()
    numbers = {reference.cdata}
    for _ in range(3):  # memory at the same address is not the same storage
        y = torch.ones(3)
        numbers.add(StorageWeakRef(y.untyped_storage()).cdata)
        del y
    assert len(numbers) == 4
    storage = torch.UntypedStorage(8)
    reference = StorageWeakRef(storage)
    x = torch.tensor([]).set_(storage)
    del storage
    assert not reference.expired() and reference == StorageWeakRef(x.untyped_storage())
    x.data = torch.zeros(2)
    assert reference.expired()
