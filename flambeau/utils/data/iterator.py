"""Iterators over a DataLoader: one epoch each, in this process or with worker processes.

Draws from the generator match PyTorch: first the sampler creates its iterator, then one number is
drawn as the workers' base seed, even without workers.
"""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING, Any, NoReturn

from ...multiprocessing.exception_wrapper import ExceptionWrapper
from ...native.foundation.user_frames import warn
from ._utils.fetch import _DatasetKind
from ._utils.worker import (
    OUT_OF_MEMORY, RESUME, WorkerSettings, _IterableDatasetStopIteration, _worker_loop,
)
from .datapipes.datapipe import IterDataPipe
from .pipe_loading import SharedSeed, is_pipe, seed_stream, shard, build_worker_start
from .sampler import draw_seed
from .workers.batch_message import Unreadable
from .workers.worker_pool import WorkerPool

if TYPE_CHECKING:
    from .dataloader import DataLoader


class _BaseDataLoaderIter:
    """Common base of both iterators."""

    def __init__(self, loader: DataLoader) -> None:
        self._dataset = loader.dataset
        self._flambeau_seeds = SharedSeed() if isinstance(self._dataset, IterDataPipe) else None
        self._flambeau_seed_stream(loader)
        self._dataset_kind = loader._dataset_kind
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        self._flambeau_announced_length = loader._flambeau_announced_length
        self._num_yielded = 0
        if loader.pin_memory:
            warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device "
                "pinned memory won't be used.",
            )
        self._sampler_iter = iter(self._index_sampler)
        self._base_seed = draw_seed(loader.generator)

    def _flambeau_seed_stream(self, loader: DataLoader) -> None:
        """Draw the seed of a datapipe's shufflers for an epoch."""
        seeds = self._flambeau_seeds
        self._shared_seed = None if seeds is None else seeds.draw(loader.generator)
        seed_stream(self._dataset, self._shared_seed)

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> NoReturn:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")

    def _reset(self, loader: DataLoader) -> None:
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._flambeau_announced_length = loader._flambeau_announced_length
        self._flambeau_seed_stream(loader)

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        data = self._next_data()
        self._num_yielded += 1
        announced = self._flambeau_announced_length
        if announced is not None and self._num_yielded > announced:
            self._warn_of_length(announced)
        return data

    def _warn_of_length(self, announced: int) -> None:
        message = (
            f"Length of IterableDataset {self._dataset} was reported to be {announced}"
            f"(when accessing len(dataloader)), but {self._num_yielded} samples have been fetched. "
        )
        if self._num_workers > 0:
            message += (
                "For multiprocessing data-loading, this could be caused by not properly "
                "configuring the IterableDataset replica at each worker. Please see "
                "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset "
                "for examples."
            )
        warn(message)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Iterator for num_workers=0: loads each batch on request in this process."""

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        if loader.timeout != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
        if is_pipe(self._dataset):
            shard(self._dataset)
        self._dataset_fetcher = _DatasetKind.create_fetcher(
            self._dataset_kind, self._dataset, loader._auto_collation, loader.collate_fn,
            loader.drop_last,
        )

    def _next_data(self) -> Any:
        return self._dataset_fetcher.fetch(next(self._sampler_iter))


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Iterator for num_workers>0: worker processes prefetch batches.

    As in PyTorch, up to `prefetch_factor * num_workers` tasks (each the indices of a batch) are
    distributed round-robin. Batches are returned in task order, or as they arrive with
    in_order=False.
    """

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        self._prefetch_factor = loader.prefetch_factor or 0
        if self._prefetch_factor <= 0:
            raise AssertionError(
                "prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter"
            )
        self._timeout, self._in_order = loader.timeout, loader.in_order
        self._persistent_workers = loader.persistent_workers
        start = loader.worker_init_fn
        settings = WorkerSettings(
            self._dataset_kind, self._dataset, loader._auto_collation, loader.collate_fn,
            loader.drop_last, self._base_seed,
            build_worker_start(start) if is_pipe(self._dataset) else start, self._num_workers,
            seed_stream, self._shared_seed,
        )
        self._flambeau_pool = WorkerPool(_worker_loop, settings, loader.multiprocessing_context)
        self._workers = self._flambeau_pool.processes
        self._flambeau_end = weakref.finalize(self, self._flambeau_pool.close)
        self._flambeau_epoch = -1
        self._workers_status = [True] * self._num_workers  # False once a worker's stream has ended
        self._reset(loader)

    def _reset(self, loader: DataLoader) -> None:
        super()._reset(loader)
        pool = self._flambeau_pool
        self._flambeau_epoch += 1
        if self._flambeau_epoch:
            for worker in range(self._num_workers):
                if not self._workers_status[worker]:
                    pool.watch(worker)
                pool.send(worker, RESUME, self._shared_seed)
        self._workers_status = [True] * self._num_workers
        self._workers_num_tasks = [0] * self._num_workers
        self._worker_queue_idx_cycle = itertools.cycle(range(self._num_workers))
        self._send_idx = self._rcvd_idx = 0  # next task to send; next to return
        self._flambeau_worker_of: dict[int, int] = {}  # worker of each task until it is returned
        self._flambeau_early: dict[int, Any] = {}  # batches that arrived before their turn
        for _ in range(self._prefetch_factor * self._num_workers):
            self._try_put_index()

    def _try_put_index(self) -> None:
        """Send the next batch's indices to the next available worker."""
        try:
            index = next(self._sampler_iter)
        except StopIteration:
            return
        worker = self._next_worker()
        if worker is None:
            return
        self._flambeau_pool.send(worker, self._send_idx, index)
        self._flambeau_worker_of[self._send_idx] = worker
        self._workers_num_tasks[worker] += 1
        self._send_idx += 1

    def _next_worker(self) -> int | None:
        active = sum(self._workers_status)
        for _ in range(self._num_workers):
            worker = next(self._worker_queue_idx_cycle)
            if not self._workers_status[worker]:
                continue
            max_tasks = self._prefetch_factor * self._num_workers // active
            if self._in_order or self._workers_num_tasks[worker] < max_tasks:
                return worker
        return None

    def _next_data(self) -> Any:
        while self._await_task():
            task = self._rcvd_idx
            if task in self._flambeau_early:
                return self._process_data(task, self._flambeau_early.pop(task))
            task, data = self._get_data()
            if isinstance(data, _IterableDatasetStopIteration):
                self._stream_ended(data.worker_id)
            elif task != self._rcvd_idx and self._in_order:
                self._flambeau_early[task] = data
            else:
                return self._process_data(task, data)
        if not self._persistent_workers:
            self._shutdown_workers()
        raise StopIteration

    def _await_task(self) -> bool:
        """Advance to the next task that yields a batch. Return False if there is none."""
        while self._rcvd_idx < self._send_idx:
            worker = self._flambeau_worker_of.get(self._rcvd_idx)
            if worker is not None:
                if self._workers_status[worker] or self._rcvd_idx in self._flambeau_early:
                    return True
                del self._flambeau_worker_of[self._rcvd_idx]
            self._rcvd_idx += 1
        return False

    def _get_data(self) -> tuple[int, Any]:
        """Return the next answer of this epoch, for any task."""
        while True:
            answer = self._flambeau_pool.receive(self._timeout or None)
            if answer is None:
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
            worker, epoch, task, data = answer
            if task == OUT_OF_MEMORY:
                _warn_of_memory(worker, data)
            elif epoch == self._flambeau_epoch:
                return task, data

    def _stream_ended(self, worker: int) -> None:
        self._workers_status[worker] = False
        self._flambeau_pool.dismiss(worker, end=not self._persistent_workers)
        self._try_put_index()

    def _process_data(self, task: int, data: Any) -> Any:
        worker = self._flambeau_worker_of.pop(task)
        if task == self._rcvd_idx:
            self._rcvd_idx += 1
        self._workers_num_tasks[worker] -= 1
        self._try_put_index()
        if isinstance(data, ExceptionWrapper):
            data.reraise()
        if isinstance(data, Unreadable):
            raise data.error
        return data

    def _shutdown_workers(self) -> None:
        """Stop the workers. They also stop when the iterator is deleted."""
        self._flambeau_end()


def _warn_of_memory(worker: int, reason: str) -> None:
    warn(
        f"DataLoader worker {worker} could not get shared memory ({reason}). Batches for which "
        "there is none are sent through a pipe, which copies them twice. Raise the memory limit, "
        "or lower num_workers, prefetch_factor or the batch size.",
    )
