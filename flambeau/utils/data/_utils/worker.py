"""Worker process of a DataLoader: seed, take tasks, send batches."""

from __future__ import annotations

import gc
import multiprocessing
import pickle
import random
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....multiprocessing.exception_wrapper import ExceptionWrapper
from ....ops.core.threads import set_num_threads
from ....tensor.random.generator import default_generator
from ..workers.arena import Arena, collate_into
from ..workers.batch_message import BatchPickler
from ..workers.channel import WorkerChannel
from .fetch import create_fetcher, is_iterable

RESUME = -1  # task number: a new epoch begins
OUT_OF_MEMORY = -2  # task number to the parent: why the arena got no memory


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A loading worker: its number, the number of workers, its seed, its dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str | None = "multiprocessing"


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return this worker process's info, or None outside DataLoader workers.

    >>> torch.utils.data.get_worker_info() is None
    True
    """
    return _worker_info


@dataclass(frozen=True)
class _IterableDatasetStopIteration:
    """The worker's stream has ended."""

    worker_id: int


@dataclass(frozen=True)
class WorkerSettings:
    """Settings shared by all workers of an iterator."""

    dataset_kind: int
    dataset: Any
    auto_collation: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    base_seed: int
    init_fn: Callable[[int], None] | None
    num_workers: int
    seed_stream: Callable[[Any, int | None], None]
    shared_seed: int | None

    def fetcher(self) -> Any:
        """Return a fetcher for the dataset; streams start from the beginning."""
        return create_fetcher(self.dataset_kind, self.dataset, self.auto_collation,
                              self.collate_fn, self.drop_last)


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Return the four words with which PyTorch seeds NumPy in a worker."""
    words = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return np.random.SeedSequence(words).generate_state(4).tolist()


def _seed(base_seed: int, worker_id: int) -> None:
    random.seed(base_seed + worker_id)
    default_generator.manual_seed(base_seed + worker_id)
    np.random.seed(_generate_state(base_seed, worker_id))


def _name_process() -> None:
    """Set the process name shown by `top` to PyTorch's, if the system supports it."""
    try:
        with open("/proc/self/comm", "w") as file:
            file.write("pt_data_worker")
    except OSError:
        pass


class _Worker:
    """A worker. `run` answers each task with a batch until the parent is gone."""

    def __init__(
        self, settings: WorkerSettings, worker_id: int, channel: WorkerChannel, arena: Arena
    ) -> None:
        self._settings, self._id = settings, worker_id
        self._channel, self._arena = channel, arena
        self._pickler = BatchPickler(arena)
        self._epoch = 0
        self._ended = False  # whether the stream has ended in this epoch
        self._fetcher: Any = None
        self._failure: ExceptionWrapper | None = None  # of `start`; reported with the first task
        self._reported_failure: str | None = None

    def start(self) -> None:
        """Call `worker_init_fn` and open the dataset."""
        try:
            self._settings.seed_stream(self._settings.dataset, self._settings.shared_seed)
            if self._settings.init_fn is not None:
                self._settings.init_fn(self._id)
            self._fetcher = self._settings.fetcher()
        except Exception:
            self._failure = self._wrapped()

    def _wrapped(self, indices: Any = None) -> ExceptionWrapper:
        wrapper = ExceptionWrapper(where=f"in DataLoader worker process {self._id}")
        if indices is not None and not is_iterable(self._settings.dataset_kind):
            wrapper.note = f"The batch is that of the dataset's indices {indices}."
        return wrapper

    def run(self) -> None:
        """Process tasks until the parent closes the channel."""
        while (message := self._channel.receive()) is not None:
            task, indices, released = pickle.loads(message)
            self._arena.release(released)
            if task == RESUME:
                self._resume(indices)
            elif not self._ended:
                self._answer(task, indices)

    def _resume(self, shared_seed: int | None) -> None:
        self._epoch += 1
        self._ended = False
        try:
            self._settings.seed_stream(self._settings.dataset, shared_seed)
            self._fetcher = self._settings.fetcher()
        except Exception:
            self._failure = self._wrapped()

    def _answer(self, task: int, indices: Any) -> None:
        data = self._load(indices)
        try:
            message = self._pickler.message(self._epoch, task, data)
        except Exception:  # the data cannot be pickled
            message = self._pickler.message(self._epoch, task, self._wrapped(indices))
        del data  # the parent may release its region for reuse any time
        self._channel.send(message)
        if self._arena.failure != self._reported_failure:
            self._reported_failure = self._arena.failure
            self._channel.send(self._pickler.message(
                self._epoch, OUT_OF_MEMORY, self._reported_failure))

    def _load(self, indices: Any) -> Any:
        """Return the batch, or a marker for the end of the stream or an error."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            return failure
        try:
            return self._fetcher.fetch(indices)
        except Exception as error:
            if isinstance(error, StopIteration) and is_iterable(self._settings.dataset_kind):
                self._ended = True
                return _IterableDatasetStopIteration(self._id)
            return self._wrapped(indices)


def _worker_loop(
    settings: WorkerSettings, worker_id: int, end: socket.socket, memory: Any,
    forked: bool,
) -> None:
    """Run a worker process."""
    global _worker_info
    if forked:
        gc.freeze()  # the parent's objects: collecting them would copy their pages
    try:
        _name_process()
        set_num_threads(1)
        _seed(settings.base_seed, worker_id)
        _worker_info = WorkerInfo(worker_id, settings.num_workers, settings.base_seed + worker_id,
                                  settings.dataset)
        arena = Arena(memory if forked else memory.detach())
        collate_into(arena)
        parent = multiprocessing.parent_process()
        assert parent is not None
        assert parent.pid is not None
        worker = _Worker(settings, worker_id, WorkerChannel(end, parent.pid), arena)
        worker.start()
        worker.run()
    except KeyboardInterrupt:
        pass  # the parent was interrupted too
    except (BrokenPipeError, ConnectionResetError):
        pass  # the parent no longer needs the batch
    finally:
        end.close()
