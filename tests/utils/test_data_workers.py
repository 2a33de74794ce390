"""DataLoader workers as processes: order, seeds, errors, shared memory, and how they end."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.utils import data

ROOT = Path(__file__).resolve().parents[2]


class Squares(data.Dataset):
    def __init__(self, length=20):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return torch.tensor(index * index)


class Noisy(Squares):
    def __getitem__(self, index):
        return index, torch.rand(2).tolist(), np.random.rand(), random.random()


class Stream(data.IterableDataset):
    """Each worker's part has another length."""

    def __iter__(self):
        info = data.get_worker_info()
        yield from range(100 * info.id, 100 * info.id + 2 + 3 * info.id)


class Images(Squares):
    def __getitem__(self, index):
        return torch.full((3, 20, 20), float(index))


class Call(data.Dataset):
    """Samples are what a function gives."""

    def __init__(self, function, length=8):
        self.function, self.length = function, length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.function(index)


def same(batch):
    return batch


def ask(index):
    info = data.get_worker_info()
    info.dataset.length = 99  # the worker's own copy
    return info.id, info.num_workers, info.seed, os.getpid(), torch.get_num_threads()


def end(loader_iter):
    """Whether all workers have ended, and how."""
    return [process.exitcode for process in loader_iter._workers]


def descriptors():
    return len(os.listdir("/proc/self/fd"))


# ------------------------------------------------------------------------- order and seeds


@pytest.mark.parametrize("method", ["spawn", pytest.param("forkserver", marks=pytest.mark.slow)])
def test_samples_and_seeds_do_not_depend_on_how_workers_start(method):
    torch.manual_seed(3)
    loader = data.DataLoader(Noisy(9), batch_size=2, shuffle=True, collate_fn=same, num_workers=2,
                             multiprocessing_context=method)
    batches = list(loader)
    torch.manual_seed(3)
    again = data.DataLoader(Noisy(9), batch_size=2, shuffle=True, collate_fn=same, num_workers=2)
    assert batches == list(again)
    assert sorted(sample[0] for batch in batches for sample in batch) == list(range(9))


@pytest.mark.parity
def test_seeds_are_pytorchs():
    torch = pytest.importorskip("torch")
    import torch.utils.data as torch_data

    import flambeau

    class Noise(Squares):
        def __init__(self, rand):
            self.rand = rand
            super().__init__(11)

        def __getitem__(self, index):
            return index, self.rand(2).tolist(), np.random.rand(), random.random()

    results = []
    for module, library in (torch_data, torch), (data, flambeau):
        library.manual_seed(8)
        loader = module.DataLoader(Noise(library.rand), 2, True, num_workers=2, collate_fn=same,
                                   persistent_workers=True, prefetch_factor=3)
        results.append([list(loader), list(loader), library.rand(1).item()])
    assert results[0] == results[1]


def test_worker_info():
    dataset = Call(ask, 4)
    base = torch.initial_seed()
    loader = data.DataLoader(dataset, batch_size=None, num_workers=2)
    rows = [tuple(row) for row in loader]
    assert [row[:2] for row in rows] == [(0, 2), (1, 2), (0, 2), (1, 2)]
    assert rows[1][2] == rows[0][2] + 1
    assert len({row[3] for row in rows} | {os.getpid()}) == 3
    assert {row[4] for row in rows} == {1}
    assert dataset.length == 4
    assert data.get_worker_info() is None
    assert torch.initial_seed() == base


def shorten(worker):
    data.get_worker_info().dataset.length = 100 + worker


def length_here(index):
    return data.get_worker_info().dataset.length


def test_worker_init_fn_runs_in_the_worker():
    loader = data.DataLoader(Call(length_here, 4), None, num_workers=2, worker_init_fn=shorten)
    assert list(loader) == [100, 101, 100, 101]


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_streams_of_different_lengths_alternate():
    loader = data.DataLoader(Stream(), batch_size=2, num_workers=3)
    batches = [batch.tolist() for batch in loader]
    assert batches == [[0, 1], [100, 101], [200, 201], [102, 103], [202, 203], [104], [204, 205],
                       [206, 207]]


def slow_first(index):
    if index == 0:
        time.sleep(0.5)
    return index


def test_out_of_order_returns_what_is_there():
    loader = data.DataLoader(Call(slow_first), batch_size=None, num_workers=2, in_order=False)
    actual = list(loader)
    assert sorted(actual) == list(range(8))
    assert actual[0] != 0


@pytest.mark.parametrize("left_after", [0, 1, 8])
def test_persistent_workers_serve_epochs_that_are_left_early(left_after):
    loader = data.DataLoader(Squares(16), 2, num_workers=2, persistent_workers=True)
    for count, _ in enumerate(loader, 1):
        if count >= left_after:
            break
    pids = [process.pid for process in loader._iterator._workers]
    assert [x.tolist() for x in loader] == [[i**2, (i + 1) ** 2] for i in range(0, 16, 2)]
    assert [process.pid for process in loader._iterator._workers] == pids


def test_persistent_streams_begin_again():
    loader = data.DataLoader(Stream(), batch_size=None, num_workers=2, persistent_workers=True)
    assert list(loader) == list(loader) == [0, 100, 1, 101, 102, 103, 104]


# ------------------------------------------------------------------------- errors


class TwoArguments(Exception):
    def __init__(self, first, second):
        super().__init__(first, second)


def fail(index):
    if index == 3:
        raise [KeyError("missing"), ValueError("bad"), TwoArguments(1, 2)][fail.kind]
    return index


@pytest.mark.parametrize("kind, raised", [(0, KeyError), (1, ValueError), (2, RuntimeError)])
def test_errors_are_raised_with_the_workers_traceback(kind, raised):
    fail.kind = kind
    iterator = iter(data.DataLoader(Call(fail), batch_size=2, num_workers=2))
    assert next(iterator).tolist() == [0, 1]
    with pytest.raises(raised) as caught:
        next(iterator)
    text = str(caught.value)
    assert text.startswith("Caught ")
    assert " in DataLoader worker process 1.\nOriginal Traceback (most recent call last):" in text
    assert "in fail" in text
    assert caught.value.__notes__ == ["The batch is that of the dataset's indices [2, 3]."]
    assert next(iterator).tolist() == [4, 5]  # the others are not lost


@pytest.mark.parity
@pytest.mark.parametrize("kind", range(3))
def test_texts_of_errors_are_pytorchs(kind):
    pytest.importorskip("torch")
    import torch.utils.data as torch_data

    fail.kind = kind
    texts = []
    for module in torch_data, data:
        with pytest.raises((KeyError, ValueError, RuntimeError)) as caught:
            list(module.DataLoader(Call(fail), batch_size=2, num_workers=2))
        lines = str(caught.value).splitlines()
        texts.append((caught.type, [x for x in lines if "File" not in x and "^^" not in x]))
    assert texts[0][0] is texts[1][0]
    assert texts[0][1][:2] == texts[1][1][:2]
    assert texts[0][1][-3:] == texts[1][1][-3:]


def refuse(worker):
    raise OSError("no such file")


def test_an_error_of_worker_init_fn_comes_with_the_first_batch():
    with pytest.raises(OSError, match="in DataLoader worker process 0"):
        next(iter(data.DataLoader(Squares(), num_workers=1, worker_init_fn=refuse)))


def unpicklable(batch):
    return lambda: batch


def test_a_batch_that_cannot_be_sent_is_an_error_and_no_hang():
    with pytest.raises((AttributeError, Exception), match="pickle"):
        next(iter(data.DataLoader(Squares(), num_workers=1, collate_fn=unpicklable)))


def test_a_local_exception_type_is_named():
    class Local(Exception):
        pass

    def raising(index):
        raise Local("odd")

    with pytest.raises(RuntimeError, match="Caught Local in DataLoader worker process 0"):
        list(data.DataLoader(Call(raising), num_workers=1))


def kill(index):
    if index == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return index


def leave(index):
    if index == 5:
        os._exit(3)
    return index


@pytest.mark.parametrize(
    "function, cause",
    [(kill, "is killed by signal: Killed. "), (leave, "exited unexpectedly with exit code 3")],
)
def test_a_worker_that_ends_raises_at_once(function, cause):
    start = time.monotonic()
    iterator = iter(data.DataLoader(Call(function, 100), num_workers=2))
    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid\(s\) \d+\) exited") as caught:
        list(iterator)
    assert cause in str(caught.value.__cause__)
    assert time.monotonic() - start < 60  # without it, the loader would wait for ever
    iterator._shutdown_workers()
    assert None not in end(iterator)


def test_a_worker_killed_between_batches_raises_at_the_next_one():
    iterator = iter(data.DataLoader(Squares(), num_workers=1, prefetch_factor=4))
    next(iterator)
    time.sleep(0.1)  # by now all prefetched batches have come
    os.kill(iterator._workers[0].pid, signal.SIGKILL)
    time.sleep(0.5)
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        next(iterator)


def sleep(index):
    time.sleep(2)
    return index


def test_timeout():
    iterator = iter(data.DataLoader(Call(sleep), num_workers=1, timeout=0.1))
    with pytest.raises(RuntimeError, match="DataLoader timed out after 0.1 seconds"):
        next(iterator)
    for process in iterator._workers:
        process.kill()


def test_many_workers_warn():
    with pytest.warns(UserWarning, match="This DataLoader will create 99 worker processes in"):
        data.DataLoader(Squares(), num_workers=99)


def test_what_cannot_be_started_warns_and_raises():
    loader = data.DataLoader(Call(lambda i: i), num_workers=1, multiprocessing_context="spawn")
    with (
        pytest.warns(UserWarning, match="Got pickle error"),
        pytest.raises((AttributeError, Exception), match="pickle"),
    ):
        iter(loader)


# ------------------------------------------------------------------------- shared memory


def test_batches_lie_in_shared_memory_that_is_used_again():
    addresses, sums = set(), []
    for batch in data.DataLoader(Images(80), batch_size=2, num_workers=1):
        assert batch.is_shared()
        assert batch.shape == (2, 3, 20, 20)
        addresses.add(batch.data_ptr())
        sums.append(batch[:, 0, 0, 0].tolist())
    assert sums == [[i, i + 1] for i in range(0, 80, 2)]
    assert len(addresses) <= 5  # prefetch_factor, what the loop has, and what is under way


def test_batches_that_are_kept_are_not_written_to():
    batches = list(data.DataLoader(Images(60), batch_size=2, num_workers=2))
    views = [batch[1, :, 3] for batch in batches]
    del batches
    more = list(data.DataLoader(Images(60), batch_size=2, num_workers=2))
    assert [int(view[0, 0]) for view in views] == list(range(1, 60, 2))
    assert len({batch.data_ptr() for batch in more}) == 30


def test_a_batch_that_a_forked_process_sees_is_not_written_to():
    iterator = iter(data.DataLoader(Images(80), batch_size=2, num_workers=1))
    batch = next(iterator)
    read, write = os.pipe()
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(ready, 1)
        os.write(write, b"y" if batch[1].eq(1).all() else b"n")
        os._exit(0)
    del batch
    for _ in iterator:
        pass
    os.write(go, b"x")
    assert os.read(read, 1) == b"y"
    os.waitpid(child, 0)
    for descriptor in read, write, ready, go:
        os.close(descriptor)


def odd_batch(index):
    x = torch.arange(6000.0).reshape(60, 100)
    return {
        "transposed": x.T, "expanded": torch.ones(1, 3000).expand(4, 3000), "view": x[10:50, 5:],
        "small part": torch.zeros(100000)[5:10], "half": x.bfloat16(), "empty": torch.zeros(0, 3),
        "parameter": nn.Parameter(x), "leaf": torch.ones(2, requires_grad=True),
        "array": np.arange(5000).reshape(2, 2500), "alias": [x, x[1:]], "text": ["abcd" * 9999],
        "complex": torch.ones(400, dtype=torch.complex128), "bool": torch.ones(3000) > 0,
        "number": 3, "meta": torch.empty(3, device="meta"), "fortran": np.ones((50, 9)).T,
    }


def test_batches_of_all_kinds_arrive_as_they_were():
    ours = odd_batch(0)
    (theirs,) = data.DataLoader(Call(odd_batch, 1), None, num_workers=1, collate_fn=same)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        other = theirs[name]
        assert type(value) is type(other)
        if isinstance(value, torch.Tensor):
            assert (value.dtype, value.stride()) == (other.dtype, other.stride()), name
            assert value.requires_grad == other.requires_grad
            assert value.is_meta or torch.equal(value, other), name
        elif isinstance(value, np.ndarray):
            assert (value == other).all()
            assert other.flags.writeable
            assert value.strides == other.strides
    assert theirs["text"] == ours["text"]
    assert theirs["small part"].untyped_storage().nbytes() == 20
    whole, part = theirs["alias"]
    whole[1, 0] = -1
    assert part[0, 0] == -1


def without_memory(worker):
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, 1 << 14))


def test_without_shared_memory_batches_come_through_the_pipe():
    loader = data.DataLoader(Images(40), 8, num_workers=2, worker_init_fn=without_memory)
    with pytest.warns(UserWarning, match=r"could not get shared memory \(\d+ bytes: File too"):
        batches = list(loader)
    assert [int(batch[0, 0, 0, 0]) for batch in batches] == [0, 8, 16, 24, 32]
    assert not batches[0].is_shared()


def test_indices_larger_than_a_socket_takes():
    loader = data.DataLoader(range(400_000), batch_size=100_000, num_workers=1, prefetch_factor=4)
    assert [len(batch) for batch in loader] == [100_000] * 4


def test_batches_can_go_on_to_another_process():
    context = torch.multiprocessing.get_context("fork")
    here, there = context.Pipe()
    iterator = iter(data.DataLoader(Images(40), batch_size=2, num_workers=1))
    here.send(next(iterator)[1])
    for _ in iterator:
        pass
    received = there.recv()
    assert received.eq(1).all()


class WithTensor(Squares):
    def __init__(self):
        super().__init__(4)
        self.rows = torch.arange(40.0).reshape(10, 4)[3:7]  # a part of a larger memory

    def __getitem__(self, index):
        return self.rows[index]


def test_datasets_with_tensors_are_sent_to_spawned_workers():
    loader = data.DataLoader(WithTensor(), 2, num_workers=1, multiprocessing_context="spawn")
    assert torch.cat(list(loader)).tolist() == WithTensor().rows.tolist()


# ------------------------------------------------------------------------- ends


def test_nothing_is_left_behind():
    list(data.DataLoader(Images(), num_workers=2))  # what is opened once is open now
    before = descriptors()
    iterator = iter(data.DataLoader(Images(), batch_size=2, num_workers=2))
    batches = list(iterator)
    assert end(iterator) == [0, 0]
    assert descriptors() > before  # the memory of the batches
    del iterator, batches
    for leaves in "break", "raise", "persistent":
        loader = data.DataLoader(Images(), num_workers=2, persistent_workers=leaves == "persistent")
        iterator = iter(loader)
        processes = iterator._workers
        try:
            for _ in iterator:
                if leaves == "raise":
                    raise ZeroDivisionError
                if leaves == "break":
                    break
        except ZeroDivisionError:
            pass
        del iterator, loader, _
        assert [process.exitcode for process in processes] == [0, 0], leaves
        del processes
    assert descriptors() == before


PROGRAM = """
import os, signal, sys, time
import flambeau as torch
from flambeau.utils.data import DataLoader, Dataset

class Images(Dataset):
    def __len__(self): return 10**6
    def __getitem__(self, i): return torch.ones(50, 50)

if __name__ == "__main__":
    iterator = iter(DataLoader(Images(), batch_size=8, num_workers=2,
                               multiprocessing_context=sys.argv[1]))
    print(*(process.pid for process in iterator._workers), flush=True)
    for batch in iterator:
        pass
"""


@pytest.mark.parametrize("method", ["fork", *(pytest.param(method, marks=pytest.mark.slow)
                                              for method in ("spawn", "forkserver"))])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_workers_end_with_their_parent(method, number, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    process = subprocess.Popen([sys.executable, path, method], cwd=ROOT, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env={**os.environ,
                               "PYTHONPATH": str(ROOT)})
    assert process.stdout is not None
    pids = [int(pid) for pid in process.stdout.readline().split()]
    time.sleep(0.2)
    process.send_signal(number)
    process.communicate(timeout=90)  # a busy machine takes half a minute for what takes a second
    deadline = time.monotonic() + 30
    while any(running(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(running(pid) for pid in pids)


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def multiply(index):
    x = torch.ones(300, 300, dtype=torch.float64)  # sums of the kernel and of NumPy agree
    return (x @ x + x.exp()).sum().item()


def test_workers_may_use_what_the_parents_threads_used():
    expected = multiply(0)
    for _ in range(4):  # meanwhile threads make kernels
        actual = list(data.DataLoader(Call(multiply, 6), None, num_workers=2))
        assert actual == pytest.approx([expected] * 6)
        assert multiply(0) == pytest.approx(expected)


def test_a_forked_process_does_not_keep_workers_alive():
    iterator = iter(data.DataLoader(Images(), num_workers=2))
    child = os.fork()
    if child == 0:
        time.sleep(20)
        os._exit(0)
    start = time.monotonic()
    with warnings.catch_warnings():
        iterator._shutdown_workers()
    assert time.monotonic() - start < 3
    assert end(iterator) == [0, 0]
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
