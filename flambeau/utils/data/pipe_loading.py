"""Datapipes in a DataLoader: pickled for workers, shuffled with one seed, divided among workers."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from ... import ops
from ...tensor.random.generator import Generator
from ._utils.worker import get_worker_info
from .datapipes.datapipe import (
    IterDataPipe, MapDataPipe, _IterDataPipeSerializationWrapper, _MapDataPipeSerializationWrapper,
)
from .graph_settings import apply_random_seed, apply_sharding, apply_shuffle_settings
from .sampler import draw_seed


def is_pipe(dataset: Any) -> bool:
    """Return whether a dataset is a datapipe."""
    return isinstance(dataset, (IterDataPipe, MapDataPipe))


def prepare_for_loading(dataset: Any, shuffle: bool | None) -> Any:
    """Return a dataset as a loader keeps it: a pipe is wrapped, and a stream's shufflers set."""
    if isinstance(dataset, IterDataPipe):
        return _IterDataPipeSerializationWrapper(apply_shuffle_settings(dataset, shuffle))
    return _MapDataPipeSerializationWrapper(dataset) if is_pipe(dataset) else dataset


def _processes() -> Any:
    """Return torch.distributed if this is one of several processes, else None."""
    # Imported by name: distributed is layered above utils, and a single process does not need it.
    distributed = importlib.import_module("flambeau.distributed")
    is_part = distributed.is_available() and distributed.is_initialized()
    return distributed if is_part else None


class SharedSeed:
    """The seed of a stream's shufflers, the same in all processes and workers of an epoch."""

    def __init__(self) -> None:
        self._processes = _processes()
        if self._processes is not None:
            self._group = self._processes.new_group(backend="gloo")

    def draw(self, generator: Generator | None) -> int:
        """Draw the seed of an epoch; with several processes it is the first one's."""
        seed = draw_seed(generator)
        if self._processes is None:
            return seed
        shared = ops.tensor(seed)
        self._processes.broadcast(shared, src=0, group=self._group)
        return int(shared.item())


def seed_stream(dataset: Any, seed: int | None) -> None:
    """Seed the shufflers of a stream."""
    if seed is not None:
        apply_random_seed(dataset, Generator().manual_seed(seed))


def _process_part() -> tuple[int, int]:
    processes = _processes()
    return (processes.get_world_size(), processes.get_rank()) if processes else (1, 0)


def shard(dataset: Any) -> None:
    """Give a pipe the part of this process."""
    apply_sharding(dataset, *_process_part())


def _start_worker(
    init_fn: Callable[[int], None] | None, count: int, rank: int, worker: int
) -> None:
    info = get_worker_info()
    assert info is not None
    apply_sharding(info.dataset, info.num_workers * count, worker * count + rank)
    if init_fn is not None:
        init_fn(worker)


def build_worker_start(init_fn: Callable[[int], None] | None) -> Callable[[int], None]:
    """Return the function that a worker of a pipe starts with: it takes its part."""
    return functools.partial(_start_worker, init_fn, *_process_part())
