"""A distributed sampler that begins in the middle of a shuffled epoch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized
from typing import Any

from ..... import ops
from .....tensor.random.generator import Generator
from .....utils.data.distributed import DistributedSampler

__all__ = ["ElasticDistributedSampler"]


class ElasticDistributedSampler(DistributedSampler):
    """Shuffles the part of a dataset from `start_index` on, and divides it among the replicas.

    >>> from flambeau.distributed.elastic.utils.data import ElasticDistributedSampler
    >>> sorted(ElasticDistributedSampler(range(6), num_replicas=1, rank=0, start_index=4))
    [4, 5]
    """

    def __init__(
        self, dataset: Any, num_replicas: int | None = None, rank: int | None = None,
        start_index: int = 0,
    ) -> None:
        super().__init__(dataset, num_replicas, rank)
        if not isinstance(dataset, Sized):
            raise TypeError("Dataset must be an instance of collections.abc.Sized")
        if start_index >= len(dataset):
            raise ValueError(f"Start index {start_index} should be less than dataset size "
                             f"{len(dataset)}")
        self.start_index = start_index
        self.num_samples = math.ceil((len(dataset) - start_index) / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[Any]:
        generator = Generator()
        generator.manual_seed(self.epoch)
        count = len(self.dataset) - self.start_index
        order = ops.randperm(count, generator=generator).add(self.start_index).tolist()
        order += order[: self.total_size - len(order)]  # so that every replica gets as many
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples
