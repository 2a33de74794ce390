"""DataLoader: batches of a dataset. Iterating over it is one epoch."""

from __future__ import annotations

import math
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeAlias, TypeVar

from ...native.foundation.user_frames import warn
from ...tensor.random.generator import Generator
from ._utils.collate import default_collate, default_convert
from ._utils.fetch import _DatasetKind
from ._utils.worker import get_worker_info
from .dataset import Dataset, IterableDataset, measure_length
from .iterator import (
    _BaseDataLoaderIter,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)
from .pipe_loading import is_pipe, prepare_for_loading
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

_T_co = TypeVar("_T_co", covariant=True)
_T = TypeVar("_T")
_collate_fn_t: TypeAlias = Callable[[list[_T]], Any]  # for libraries' annotations
_worker_init_fn_t: TypeAlias = Callable[[int], None]

_FIXED = frozenset(
    ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
)


class _InfiniteConstantSampler(Sampler[None]):
    """The index sampler of an iterable dataset: yields None forever."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader(Generic[_T_co]):
    """Batches of a dataset, map-style or iterable.

    The same seed gives PyTorch's order and leaves the generator in PyTorch's state. `num_workers >
    0` starts worker processes, which prefetch batches and pass them through shared memory;
    `multiprocessing_context` is their start method ("fork", "spawn", "forkserver"). They end with
    the epoch, or with the loader if `persistent_workers`. `timeout` is in seconds. `pin_memory` has
    no effect without an accelerator.

    A worker's exception is raised again with its traceback in the message; RuntimeError if a worker
    is killed or `timeout` passes. Raises ValueError for conflicting arguments, and for changing an
    attribute that determines the order (`batch_size`, `sampler`, ...).

    >>> [batch.tolist() for batch in DataLoader(range(5), batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    dataset: Dataset[_T_co]
    batch_size: int | None
    num_workers: int
    pin_memory: bool
    drop_last: bool
    timeout: float
    sampler: Sampler[Any] | Iterable[Any]
    pin_memory_device: str
    prefetch_factor: int | None
    _iterator: _BaseDataLoaderIter | None
    _flambeau_initialized = False

    def __init__(
        self,
        dataset: Dataset[_T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset = prepare_for_loading(dataset, shuffle)
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.timeout, self.worker_init_fn = timeout, worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order, self.persistent_workers = in_order, persistent_workers
        self.generator = generator
        self._flambeau_set_order(batch_size, shuffle, sampler, batch_sampler, drop_last)
        default = default_collate if self._auto_collation else default_convert
        self.collate_fn = default if collate_fn is None else collate_fn
        self._flambeau_announced_length: int | None = None
        self._iterator = None
        self._flambeau_initialized = True
        self.check_worker_number_rationality()

    def _flambeau_set_order(
        self, batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any,
        drop_last: bool,
    ) -> None:
        """Set up the samplers: order and batch size."""
        iterable = isinstance(self.dataset, IterableDataset)
        if iterable and is_pipe(self.dataset):
            shuffle = None  # the pipe's own shufflers do it
        (_check_stream if iterable else _check_order)(shuffle, sampler, batch_sampler)
        _check_batches(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self._dataset_kind = _DatasetKind.Iterable if iterable else _DatasetKind.Map
        if sampler is None:
            sampler = self._flambeau_default_sampler(bool(shuffle))
        if batch_sampler is not None:
            batch_size = None
        elif batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler

    def _flambeau_default_sampler(self, shuffle: bool) -> Sampler[Any]:
        if self._dataset_kind == _DatasetKind.Iterable:
            return _InfiniteConstantSampler()
        data: Any = self.dataset  # TypeError if it has no length
        if shuffle:
            return RandomSampler(data, generator=self.generator)
        return SequentialSampler(data)

    @property
    def multiprocessing_context(self) -> Any:
        """The start method of workers. None is Python's default."""
        return self._flambeau_multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            if self.num_workers == 0:
                raise ValueError(
                    "multiprocessing_context can only be used with multi-process loading "
                    f"(num_workers > 0), but got num_workers={self.num_workers}"
                )
            context = _find_context(context)
        self._flambeau_multiprocessing_context = context

    def __setattr__(self, attr: str, val: Any) -> None:
        if attr in _FIXED and self._flambeau_initialized:
            raise ValueError(
                f"{attr} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(attr, val)

    def _get_iterator(self) -> _BaseDataLoaderIter:
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        self.check_worker_number_rationality()
        return _MultiProcessingDataLoaderIter(self)

    def __iter__(self) -> _BaseDataLoaderIter:
        if not (self.persistent_workers and self.num_workers > 0):
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __len__(self) -> int:
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        length = self._flambeau_announced_length = measure_length(self.dataset)
        if self.batch_size is None:
            return length
        return (math.floor if self.drop_last else math.ceil)(length / self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Warn if there are more workers than processors available to this process."""
        affinity = hasattr(os, "sched_getaffinity")
        processors = len(os.sched_getaffinity(0)) if affinity else os.cpu_count()
        if self.num_workers == 0 or (processors is not None and self.num_workers <= processors):
            return
        if processors is None:
            suggestion = ("DataLoader is not able to compute a suggested max number of worker in "
                          "current system.")
        else:
            unchecked = "" if affinity else " (`cpuset` is not taken into account)"
            suggestion = (
                "Our suggested max number of worker in current system is "
                f"{processors}{unchecked}, which is smaller than what this DataLoader is going to "
                "create."
            )
        warn(
            f"This DataLoader will create {self.num_workers} worker processes in total. "
            f"{suggestion} Please be aware that excessive worker creation might get DataLoader "
            "running slow or even freeze, lower the worker number to avoid potential "
            "slowness/freeze if necessary.",
        )


def _check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
) -> None:
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable "
            f"multiprocessing. Got num_workers={num_workers}"
        )
    if timeout < 0:
        raise ValueError(f"timeout option should be non-negative, got {timeout}")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing."
            "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError(f"prefetch_factor option should be non-negative, got {prefetch_factor}")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_stream(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    supplied = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
    for name, value in supplied.items():
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got "
                f"{name}={value}"
            )


def _check_order(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")


def _check_batches(
    batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, "
                "and drop_last"
            )
    elif batch_size is None and drop_last:
        raise ValueError(
            "batch_size=None option disables auto-batching and is mutually exclusive with "
            "drop_last"
        )


def _find_context(context: Any) -> Any:
    if isinstance(context, str):
        methods = multiprocessing.get_all_start_methods()
        if context not in methods:
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in "
                f"{methods!r}, but got multiprocessing_context={context!r}"
            )
        return multiprocessing.get_context(context)
    if not isinstance(context, multiprocessing.context.BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string "
            f"specifying the start method, but got multiprocessing_context={context}"
        )
    return context
