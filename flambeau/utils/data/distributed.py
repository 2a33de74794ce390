"""DistributedSampler: one process's share of a dataset."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from typing import Any

from ... import ops
from ...tensor.random.generator import Generator
from .sampler import Sampler

__all__ = ["DistributedSampler"]


def _process_group() -> Any:
    # Imported by name: distributed is layered above utils, and a single process does not need it.
    try:
        return importlib.import_module("flambeau.distributed")
    except ImportError as error:
        raise RuntimeError(
            "Requires distributed package to be available: give num_replicas and rank"
        ) from error


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th index from `rank` on, with the same shuffle in all processes.

    Call `set_epoch` before each epoch, or every epoch has the same order. Without `drop_last` the
    first indices are repeated until the parts are equal. Raises ValueError for a rank outside `[0,
    num_replicas)`.

    >>> list(DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None:
            num_replicas = _process_group().get_world_size()
        if rank is None:
            rank = _process_group().get_rank()
        if rank >= num_replicas or rank < 0:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        share = len(dataset) / num_replicas
        self.num_samples = math.floor(share) if drop_last else math.ceil(share)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        n = len(self.dataset)
        if self.shuffle:
            generator = Generator()
            generator.manual_seed(self.seed + self.epoch)
            indices = ops.randperm(n, generator=generator).tolist()
        else:
            indices = list(range(n))
        if not self.drop_last and n:
            indices *= math.ceil(self.total_size / n)
        indices = indices[: self.total_size]
        if len(indices) != self.total_size:
            raise AssertionError(
                f"Number of indices ({len(indices)}) does not match total_size "
                f"({self.total_size}): the dataset's length changed"
            )
        return iter(indices[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which is part of the shuffle's seed."""
        self.epoch = epoch
