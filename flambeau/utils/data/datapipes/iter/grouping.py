"""Pipes that make batches, undo them, and group samples by a key."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import DataChunk, IterDataPipe, check_length
from ..utils.common import _check_unpickable_fn

__all__ = ["BatcherIterDataPipe", "GrouperIterDataPipe", "UnBatcherIterDataPipe"]


@functional_datapipe("batch")
class BatcherIterDataPipe(IterDataPipe[DataChunk[Any]]):
    """Batches of `batch_size` samples, each a `wrapper_class` (functional name: ``batch``).

    Raises AssertionError for a size below 1.

    >>> numbers = torch.utils.data.datapipes.iter.IterableWrapper(range(5))
    >>> list(numbers.batch(2, drop_last=True))
    [[0, 1], [2, 3]]
    """

    def __init__(
        self, datapipe: IterDataPipe[Any], batch_size: int, drop_last: bool = False,
        wrapper_class: type[DataChunk[Any]] = DataChunk,
    ) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe = datapipe
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.wrapper_class = wrapper_class

    def __iter__(self) -> Iterator[DataChunk[Any]]:
        batch: list[Any] = []
        for sample in self.datapipe:
            batch.append(sample)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        batches, rest = divmod(check_length(self, self.datapipe), self.batch_size)
        return batches + (rest > 0 and not self.drop_last)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe[Any]):
    """The elements of batches, flattened `unbatch_level` deep, -1 to the bottom.

    (functional name: ``unbatch``)

    Raises ValueError for a level below -1, IndexError for one deeper than the batches.

    >>> pairs = torch.utils.data.datapipes.iter.IterableWrapper([[[0, 1], [2]], [[3]]])
    >>> list(pairs.unbatch()), list(pairs.unbatch(-1))
    ([[0, 1], [2], [3]], [0, 1, 2, 3])
    """

    def __init__(self, datapipe: IterDataPipe[Any], unbatch_level: int = 1) -> None:
        self.datapipe = datapipe
        self.unbatch_level = unbatch_level

    def __iter__(self) -> Iterator[Any]:
        for element in self.datapipe:
            yield from self._dive(element, self.unbatch_level)

    def _dive(self, element: Any, unbatch_level: int) -> Iterator[Any]:
        if unbatch_level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        is_batch = isinstance(element, list)
        if unbatch_level == 0 or (unbatch_level == -1 and not is_batch):
            yield element
        elif is_batch:
            for item in element:
                yield from self._dive(item, unbatch_level if unbatch_level == -1
                                      else unbatch_level - 1)
        else:
            raise IndexError(
                f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe"
            )


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe[Any]):
    """Groups of samples with one key, as chunks or as pairs of key and chunk.

    (functional name: ``groupby``)

    A group is yielded as soon as it has `group_size` samples. When `buffer_size` samples wait, the
    largest group is yielded if it has `guaranteed_group_size`; else it is dropped with
    `drop_remaining`, or RuntimeError is raised. The rest comes at the end.

    >>> names = torch.utils.data.datapipes.iter.IterableWrapper(["ab", "c", "de"])
    >>> list(names.groupby(len))
    [['ab', 'de'], ['c']]
    """

    def __init__(
        self, datapipe: IterDataPipe[Any], group_key_fn: Callable[[Any], Any], *,
        keep_key: bool = False, buffer_size: int = 10000, group_size: int | None = None,
        guaranteed_group_size: int | None = None, drop_remaining: bool = False,
    ) -> None:
        self.buffer_elements: defaultdict[Any, list[Any]] = defaultdict(list)
        self.curr_buffer_size = 0
        _check_unpickable_fn(group_key_fn)
        self.datapipe = datapipe
        self.group_key_fn = group_key_fn
        self.keep_key = keep_key
        self.max_buffer_size = buffer_size
        self.group_size = group_size
        if group_size is not None and buffer_size is not None \
                and not 0 < group_size <= buffer_size:
            raise AssertionError("group_size must be > 0 and <= buffer_size")
        if guaranteed_group_size is not None \
                and (group_size is None or not 0 < guaranteed_group_size <= group_size):
            raise AssertionError(
                "guaranteed_group_size must be > 0 and <= group_size and group_size must be set"
            )
        self.guaranteed_group_size = (
            group_size if guaranteed_group_size is None else guaranteed_group_size
        )
        self.drop_remaining = drop_remaining
        self.wrapper_class = DataChunk

    def _remove_biggest_key(self) -> tuple[Any, list[Any] | None]:
        """Take the largest group out of the buffer. Return its key, and None if it is dropped."""
        key = max(self.buffer_elements, key=lambda key: len(self.buffer_elements[key]))
        group, min_size = self.buffer_elements[key], self.guaranteed_group_size
        is_small = min_size is not None and len(group) < min_size
        if is_small and not self.drop_remaining:
            raise RuntimeError("Failed to group items", str(group))
        self.curr_buffer_size -= len(group)
        del self.buffer_elements[key]
        return key, None if is_small else group

    def _chunk(self, key: Any, group: list[Any]) -> Any:
        chunk = self.wrapper_class(group)
        return (key, chunk) if self.keep_key else chunk

    def __iter__(self) -> Iterator[Any]:
        for sample in self.datapipe:
            key = self.group_key_fn(sample)
            group = self.buffer_elements[key]
            group.append(sample)
            self.curr_buffer_size += 1
            if self.group_size is not None and len(group) == self.group_size:
                yield self._chunk(key, group)
                self.curr_buffer_size -= len(group)
                del self.buffer_elements[key]
            if self.curr_buffer_size == self.max_buffer_size:
                key, largest = self._remove_biggest_key()
                if largest is not None:
                    yield self._chunk(key, largest)
        for key in tuple(self.buffer_elements):
            group = self.buffer_elements.pop(key)
            self.curr_buffer_size -= len(group)
            yield self._chunk(key, group)

    def reset(self) -> None:
        """Empty the buffer."""
        self.curr_buffer_size = 0
        self.buffer_elements = defaultdict(list)

    def __getstate__(self) -> Any:
        state = (
            self.datapipe, self.group_key_fn, self.keep_key, self.max_buffer_size, self.group_size,
            self.guaranteed_group_size, self.drop_remaining, self.wrapper_class,
            self._valid_iterator_id, self._number_of_samples_yielded,
        )
        hook = IterDataPipe.getstate_hook
        return state if hook is None else hook(state)

    def __setstate__(self, state: Any) -> None:
        (
            self.datapipe, self.group_key_fn, self.keep_key, self.max_buffer_size, self.group_size,
            self.guaranteed_group_size, self.drop_remaining, self.wrapper_class,
            self._valid_iterator_id, self._number_of_samples_yielded,
        ) = state
        self.curr_buffer_size = 0
        self.buffer_elements = defaultdict(list)

    def __del__(self) -> None:
        self.buffer_elements.clear()
