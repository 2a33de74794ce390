"""Iterators over a DataLoader: one epoch each, in one process, with or without workers.

The draws from the generator are PyTorch's: first the sampler is asked for its iterator, then one
number is drawn as the base seed of the workers, whether there are any or not.
"""

from __future__ import annotations

import itertools
import warnings
from collections import deque
from typing import TYPE_CHECKING, Any, NoReturn

from ._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher
from ._utils.worker import Worker
from .sampler import draw_seed

if TYPE_CHECKING:
    from .dataloader import DataLoader


class _DatasetKind:
    Map = 0
    Iterable = 1


class _BaseDataLoaderIter:
    """What both kinds of iterator share."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader
        self._dataset = loader.dataset
        self._dataset_kind = loader._dataset_kind
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        self._flambeau_announced_length = loader._flambeau_announced_length
        self._num_yielded = 0
        if loader.pin_memory:
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device "
                "pinned memory won't be used.",
                stacklevel=4,
            )
        self._sampler_iter = iter(self._index_sampler)
        self._base_seed = draw_seed(loader.generator)

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

    def _fetcher(self, dataset: Any) -> Any:
        iterable = self._dataset_kind == _DatasetKind.Iterable
        loader = self._loader
        return (_IterableDatasetFetcher if iterable else _MapDatasetFetcher)(
            dataset, loader._auto_collation, loader.collate_fn, loader.drop_last
        )

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
            f"Length of IterableDataset {self._dataset} was reported to be {announced} (when "
            f"accessing len(dataloader)), but {self._num_yielded} samples have been fetched."
        )
        if self._num_workers > 0:
            message += (
                " With several workers, each should take its own part of the stream: see "
                "get_worker_info()."
            )
        warnings.warn(message, stacklevel=3)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """num_workers=0: the dataset itself is read, when a batch is asked for."""

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        if loader.timeout != 0:
            raise AssertionError(
                f"timeout is for num_workers > 0, got timeout={loader.timeout} with num_workers=0"
            )
        self._dataset_fetcher = self._fetcher(self._dataset)

    def _next_data(self) -> Any:
        return self._dataset_fetcher.fetch(next(self._sampler_iter))


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """num_workers>0: workers inside this process, with PyTorch's order and random numbers.

    As in PyTorch, indices are drawn `prefetch_factor * num_workers` batches ahead and handed to
    the workers in turn; a batch is loaded when it is asked for.
    """

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        count, init_fn = self._num_workers, loader.worker_init_fn
        self._workers = [
            Worker(i, count, self._base_seed, self._dataset, self._fetcher, init_fn)
            for i in range(count)
        ]
        self._reset(loader)

    def _reset(self, loader: DataLoader) -> None:
        super()._reset(loader)
        for worker in self._workers:
            worker.restart()
        self._turns = itertools.cycle(self._workers)
        self._tasks: deque[tuple[Worker, Any]] = deque()
        for _ in range((loader.prefetch_factor or 0) * self._num_workers):
            self._hand_out()

    def _hand_out(self) -> None:
        try:
            index = next(self._sampler_iter)
        except StopIteration:
            return
        for worker in itertools.islice(self._turns, self._num_workers):
            if worker.active:
                self._tasks.append((worker, index))
                return

    def _next_data(self) -> Any:
        while self._tasks:
            worker, index = self._tasks.popleft()
            if not worker.active:
                continue
            try:
                data = worker.fetch(index)
            except StopIteration:
                if self._dataset_kind != _DatasetKind.Iterable:
                    raise
                worker.active = False
                self._hand_out()
                continue
            except Exception:
                self._hand_out()
                raise
            self._hand_out()
            return data
        raise StopIteration
