"""ShardingFilter: the part of a stream that a worker or process takes."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe, check_length

__all__ = ["SHARDING_PRIORITIES", "ShardingFilterIterDataPipe"]


class SHARDING_PRIORITIES(IntEnum):
    """What divides a stream: processes first, and their workers within."""

    DEFAULT = 1
    DISTRIBUTED = 2
    MULTIPROCESSING = 3


class _ShardingIterDataPipe(IterDataPipe[Any]):
    def apply_sharding(
        self, num_of_instances: int, instance_id: int, sharding_group: SHARDING_PRIORITIES
    ) -> None:
        """Take every `num_of_instances`-th sample from `instance_id` on."""
        raise NotImplementedError


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(_ShardingIterDataPipe):
    """Yields every n-th sample, once `apply_sharding` has said which.

    (functional name: ``sharding_filter``)

    A DataLoader applies it in its workers. Raises ValueError for an instance outside the number of
    instances, RuntimeError where the default group is mixed with others.

    >>> numbers = torch.utils.data.datapipes.iter.IterableWrapper(range(5)).sharding_filter()
    >>> numbers.apply_sharding(2, 1)
    >>> list(numbers)
    [1, 3]
    """

    def __init__(
        self, source_datapipe: IterDataPipe[Any], sharding_group_filter: Any = None
    ) -> None:
        self.source_datapipe = source_datapipe
        self.sharding_group_filter = sharding_group_filter
        self.groups: dict[int, tuple[int, int]] = {}
        self.num_of_instances = 1
        self.instance_id = 0
        self._update_num_of_instances()

    def apply_sharding(
        self, num_of_instances: int, instance_id: int,
        sharding_group: SHARDING_PRIORITIES = SHARDING_PRIORITIES.DEFAULT,
    ) -> None:
        if instance_id >= num_of_instances:
            raise ValueError(
                f"instance_id({instance_id}) should be smaller than "
                f"num_of_instances({num_of_instances})"
            )
        default = SHARDING_PRIORITIES.DEFAULT
        if self.groups and (sharding_group == default) != (default in self.groups):
            raise RuntimeError("ShardingFilter cannot mix DEFAULT and non DEFAULT groups")
        self.groups[sharding_group] = (num_of_instances, instance_id)
        self._update_num_of_instances()

    def _update_num_of_instances(self) -> None:
        self.num_of_instances, self.instance_id = 1, 0
        for group in sorted(self.groups, reverse=True):
            if self.sharding_group_filter in (None, group):
                instances, instance = self.groups[group]
                self.instance_id += self.num_of_instances * instance
                self.num_of_instances *= instances

    def __iter__(self) -> Iterator[Any]:
        for i, sample in enumerate(self.source_datapipe):
            if i % self.num_of_instances == self.instance_id:
                yield sample

    def __len__(self) -> int:
        samples, rest = divmod(check_length(self, self.source_datapipe), self.num_of_instances)
        return samples + (self.instance_id < rest)
