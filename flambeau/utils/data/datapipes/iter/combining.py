"""Pipes that join several streams, `concat`, `mux` and `zip`, and that split one, `fork` and
`demux`."""

from __future__ import annotations

import copy as copies
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Literal

from .....native.foundation.user_frames import warn
from .._decorator import functional_datapipe
from .._hook_iterator import _SnapshotState
from ..datapipe import IterDataPipe, check_length
from ..utils.common import StreamWrapper, _check_unpickable_fn

__all__ = [
    "ConcaterIterDataPipe", "DemultiplexerIterDataPipe", "ForkerIterDataPipe",
    "MultiplexerIterDataPipe", "ZipperIterDataPipe",
]


@functional_datapipe("concat")
class ConcaterIterDataPipe(IterDataPipe[Any]):
    """All samples of the first pipe, then those of the next (functional name: ``concat``).

    Raises ValueError without pipes, TypeError for anything else.

    >>> IterableWrapper = torch.utils.data.datapipes.iter.IterableWrapper
    >>> list(IterableWrapper([1]).concat(IterableWrapper([2, 3])))
    [1, 2, 3]
    """

    def __init__(self, *datapipes: IterDataPipe[Any]) -> None:
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("Expected all inputs to be `IterDataPipe`")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self) -> int:
        return sum(check_length(self, pipe) for pipe in self.datapipes)


class _ContainerTemplate(ABC):
    """A stream that several child pipes read."""

    @abstractmethod
    def get_next_element_by_instance(self, instance_id: int) -> Iterator[Any]:
        """Yield the samples of a child."""

    @abstractmethod
    def is_every_instance_exhausted(self) -> bool:
        """Return whether all children have read to the end."""

    @abstractmethod
    def reset(self) -> None:
        """Empty the buffers."""

    @abstractmethod
    def get_length_by_instance(self, instance_id: int) -> int:
        """Return a child's length. TypeError if it has none."""


def _check_instances(num_instances: int) -> None:
    if num_instances < 1:
        raise ValueError(
            f"Expected `num_instances` larger than 0, but {num_instances} is found"
        )


def _warn_of_no_limit(method: str, buffer_size: int) -> None:
    if buffer_size < 0:
        warn(
            f"Unlimited buffer size is set for `{method}`, please be aware of OOM at random places"
        )


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe[Any]):
    """Return `num_instances` pipes that all yield the samples of one (functional name: ``fork``).

    The fastest may be `buffer_size` samples ahead of the slowest (-1: no limit), else BufferError.
    Samples are the same objects unless `copy` is "shallow" or "deep".

    >>> a, b = torch.utils.data.datapipes.iter.IterableWrapper(range(3)).fork(2)
    >>> list(zip(a, b))
    [(0, 0), (1, 1), (2, 2)]
    """

    def __new__(  # the children
        cls, datapipe: IterDataPipe[Any], num_instances: int, buffer_size: int = 1000,
        copy: Literal["shallow", "deep"] | None = None,
    ) -> Any:
        _check_instances(num_instances)
        if num_instances == 1:
            return datapipe
        container = _ForkerIterDataPipe(datapipe, num_instances, buffer_size, copy)
        return [_ChildDataPipe(container, i) for i in range(num_instances)]


def _no_op(sample: Any) -> Any:
    return sample


_COPIES = {None: _no_op, "shallow": copies.copy, "deep": copies.deepcopy}


class _ForkerIterDataPipe(IterDataPipe[Any], _ContainerTemplate):
    """The stream that forks read; buffers the samples that the slowest has yet to read."""

    def __init__(
        self, datapipe: IterDataPipe[Any], num_instances: int, buffer_size: int = 1000,
        copy: Literal["shallow", "deep"] | None = None,
    ) -> None:
        self.buffer: deque[Any] = deque()
        self.main_datapipe: Any = datapipe
        self.num_instances = num_instances
        self.buffer_size = buffer_size
        _warn_of_no_limit("fork", buffer_size)
        if copy not in _COPIES:
            raise ValueError(
                f"Unknown copy method `{copy}` requested, choose one of None, `shallow` or `deep`."
            )
        self.copy_fn: Callable[[Any], Any] = _COPIES[copy]
        self._flambeau_start()

    def _flambeau_start(self) -> None:
        self._datapipe_iterator: Iterator[Any] | None = None
        self.buffer = deque()
        self.child_pointers = [0] * self.num_instances  # samples read by each child
        self.slowest_ptr = self.leading_ptr = 0
        self.end_ptr: int | None = None  # one more than there are samples, once that is known
        self._child_stop = [True] * self.num_instances

    def __len__(self) -> int:
        return len(self.main_datapipe)

    def get_next_element_by_instance(self, instance_id: int) -> Iterator[Any]:
        if self._datapipe_iterator is None and self._child_stop[instance_id]:
            self._datapipe_iterator = iter(self.main_datapipe)
            self._snapshot_state = _SnapshotState.Iterating
            self._child_stop = [False] * self.num_instances
        try:
            while not self._child_stop[instance_id]:
                self.child_pointers[instance_id] += 1
                if self.child_pointers[instance_id] == self.end_ptr:
                    return
                try:
                    sample = self._flambeau_sample(self.child_pointers[instance_id])
                except StopIteration:
                    self._datapipe_iterator = None
                    self.end_ptr = self.leading_ptr
                    return
                self._flambeau_drop_read()
                yield self.copy_fn(sample)
        finally:
            self._child_stop[instance_id] = True
            if all(self._child_stop):
                self._datapipe_iterator = None
                self._cleanup()

    def _flambeau_sample(self, pointer: int) -> Any:
        """Return the sample number `pointer` of a child."""
        if self.buffer and pointer <= self.leading_ptr:
            return self.buffer[pointer - self.slowest_ptr - 1]
        self.leading_ptr = pointer
        assert self._datapipe_iterator is not None
        sample = next(self._datapipe_iterator)
        self.buffer.append(sample)
        return sample

    def _flambeau_drop_read(self) -> None:
        """Drop the sample that all children have read, and check the limit."""
        slowest = min(self.child_pointers)
        if self.slowest_ptr < slowest:
            self.slowest_ptr = slowest
            self.buffer.popleft()
        if 0 <= self.buffer_size < self.leading_ptr - self.slowest_ptr:
            raise BufferError(
                "ForkerIterDataPipe buffer overflow,"
                f"buffer size {self.buffer_size} is insufficient."
            )

    def is_every_instance_exhausted(self) -> bool:
        return self.end_ptr is not None and all(self._child_stop)

    def get_length_by_instance(self, instance_id: int) -> int:
        return len(self.main_datapipe)

    def reset(self) -> None:
        self._flambeau_start()

    def __getstate__(self) -> Any:
        state = (self.main_datapipe, self.num_instances, self.buffer_size, self.copy_fn,
                 self._valid_iterator_id, self._number_of_samples_yielded)
        hook = IterDataPipe.getstate_hook
        return state if hook is None else hook(state)

    def __setstate__(self, state: Any) -> None:
        (self.main_datapipe, self.num_instances, self.buffer_size, self.copy_fn,
         self._valid_iterator_id, self._number_of_samples_yielded) = state
        self._flambeau_start()

    def _cleanup(self) -> None:
        while self.buffer:
            StreamWrapper.close_streams(self.buffer.popleft())

    def __del__(self) -> None:
        self._cleanup()


class _ChildDataPipe(IterDataPipe[Any]):
    """One of the pipes that `fork` and `demux` return.

    A second iterator of a child starts a new generation: the iterators of all children become
    invalid and the container is reset. The other children join with their next iterator.
    """

    _is_child_datapipe = True

    def __init__(self, main_datapipe: Any, instance_id: int) -> None:
        if not isinstance(main_datapipe, _ContainerTemplate):
            raise AssertionError("main_datapipe must implement _ContainerTemplate")
        self.main_datapipe: Any = main_datapipe
        self.instance_id = instance_id

    def __iter__(self) -> Any:
        return self.main_datapipe.get_next_element_by_instance(self.instance_id)

    def __len__(self) -> int:
        return self.main_datapipe.get_length_by_instance(self.instance_id)

    def _set_main_datapipe_valid_iterator_id(self) -> int | None:
        main = self.main_datapipe
        if main._valid_iterator_id is None:
            main._valid_iterator_id = 0
        elif main._valid_iterator_id == self._valid_iterator_id:
            main._valid_iterator_id += 1
            if not main.is_every_instance_exhausted():
                warn(
                    "Some child DataPipes are not exhausted when __iter__ is called. We are "
                    "resetting the buffer and each child DataPipe will read from the start again."
                )
            main.reset()
        self._valid_iterator_id = main._valid_iterator_id
        return self._valid_iterator_id

    def _check_valid_iterator_id(self, iterator_id: int) -> bool:
        return iterator_id == self._valid_iterator_id == self.main_datapipe._valid_iterator_id


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe[Any]):
    """Return `num_instances` pipes; `classifier_fn` returns the pipe that a sample goes to.

    (functional name: ``demux``)

    Up to `buffer_size` samples (-1: no limit) may wait for pipes that are not being read, else
    BufferError. With `drop_none` samples of class None are dropped. Raises ValueError for a class
    that is not the number of a pipe.

    >>> numbers = torch.utils.data.datapipes.iter.IterableWrapper(range(5))
    >>> even, odd = numbers.demux(2, lambda n: n % 2)
    >>> list(even), list(odd)
    ([0, 2, 4], [1, 3])
    """

    def __new__(  # the children
        cls, datapipe: IterDataPipe[Any], num_instances: int,
        classifier_fn: Callable[[Any], int | None], drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> Any:
        _check_instances(num_instances)
        _check_unpickable_fn(classifier_fn)
        container = _DemultiplexerIterDataPipe(
            datapipe, num_instances, classifier_fn, drop_none, buffer_size
        )
        return [_ChildDataPipe(container, i) for i in range(num_instances)]


class _DemultiplexerIterDataPipe(IterDataPipe[Any], _ContainerTemplate):
    """The stream that `demux` divides; buffers the samples that wait for each child."""

    def __init__(
        self, datapipe: IterDataPipe[Any], num_instances: int,
        classifier_fn: Callable[[Any], int | None], drop_none: bool, buffer_size: int,
    ) -> None:
        self.main_datapipe = datapipe
        self.num_instances = num_instances
        self.buffer_size = buffer_size
        _warn_of_no_limit("demux", buffer_size)
        self.classifier_fn = classifier_fn
        self.drop_none = drop_none
        self._flambeau_start()

    def _flambeau_start(self) -> None:
        self._datapipe_iterator: Iterator[Any] | None = None
        self.current_buffer_usage = 0
        self.child_buffers: list[deque[Any]] = [deque() for _ in range(self.num_instances)]
        self.main_datapipe_exhausted = False
        self._child_stop = [True] * self.num_instances

    def _find_next(self, instance_id: int) -> Any:
        """Return a child's next sample; buffer those before it. Raises StopIteration at the end."""
        while True:
            if self.main_datapipe_exhausted or self._child_stop[instance_id]:
                raise StopIteration
            if self._datapipe_iterator is None:
                raise ValueError(
                    "_datapipe_iterator has not been set, likely because this private method is "
                    "called directly without invoking get_next_element_by_instance() first."
                )
            sample = next(self._datapipe_iterator)
            child = self.classifier_fn(sample)
            if child is None and self.drop_none:
                StreamWrapper.close_streams(sample)
                continue
            if child is None or not 0 <= child < self.num_instances:
                raise ValueError(
                    "Output of the classification fn should be between 0 and "
                    f"{self.num_instances - 1}. {child} is returned."
                )
            if child == instance_id:
                return sample
            self.child_buffers[child].append(sample)
            self.current_buffer_usage += 1
            if 0 <= self.buffer_size < self.current_buffer_usage:
                raise BufferError(
                    "DemultiplexerIterDataPipe buffer overflow, buffer size "
                    f"{self.buffer_size} is insufficient."
                )

    def get_next_element_by_instance(self, instance_id: int) -> Iterator[Any]:
        if self._datapipe_iterator is None and self._child_stop[instance_id]:
            self._datapipe_iterator = iter(self.main_datapipe)
            self._snapshot_state = _SnapshotState.Iterating
            self.main_datapipe_exhausted = False
            self._child_stop = [False] * self.num_instances
        try:
            while not self._child_stop[instance_id]:
                if self.child_buffers[instance_id]:
                    self.current_buffer_usage -= 1
                    yield self.child_buffers[instance_id].popleft()
                    continue
                try:
                    sample = self._find_next(instance_id)
                except StopIteration:
                    self.main_datapipe_exhausted = True
                    self._datapipe_iterator = None
                    return
                yield sample
        finally:
            self._child_stop[instance_id] = True
            if all(self._child_stop):
                self._datapipe_iterator = None
            self._cleanup(instance_id)

    def is_every_instance_exhausted(self) -> bool:
        return self.main_datapipe_exhausted and all(self._child_stop)

    def get_length_by_instance(self, instance_id: int) -> int:
        raise TypeError

    def reset(self) -> None:
        self._flambeau_start()

    def __getstate__(self) -> Any:
        state = (self.main_datapipe, self.num_instances, self.buffer_size, self.classifier_fn,
                 self.drop_none, self._valid_iterator_id, self._number_of_samples_yielded)
        hook = IterDataPipe.getstate_hook
        return state if hook is None else hook(state)

    def __setstate__(self, state: Any) -> None:
        (self.main_datapipe, self.num_instances, self.buffer_size, self.classifier_fn,
         self.drop_none, self._valid_iterator_id, self._number_of_samples_yielded) = state
        self._flambeau_start()

    def _cleanup(self, instance_id: int | None = None) -> None:
        children = range(self.num_instances) if instance_id is None else [instance_id]
        for child in children:
            while self.child_buffers[child]:
                StreamWrapper.close_streams(self.child_buffers[child].popleft())

    def __del__(self) -> None:
        self._cleanup()


@functional_datapipe("mux")
class MultiplexerIterDataPipe(IterDataPipe[Any]):
    """A sample of each pipe in turn, until the shortest ends (functional name: ``mux``).

    >>> IterableWrapper = torch.utils.data.datapipes.iter.IterableWrapper
    >>> list(IterableWrapper(range(3)).mux(IterableWrapper("ab")))
    [0, 'a', 1, 'b']
    """

    def __init__(self, *datapipes: Any) -> None:
        self.datapipes = datapipes
        self.buffer: list[Any] = []  # one round of samples, yielded when it is complete

    def __iter__(self) -> Iterator[Any]:
        iterators = [iter(pipe) for pipe in self.datapipes]
        while iterators:
            for iterator in iterators:
                try:
                    self.buffer.append(next(iterator))
                except StopIteration:
                    self.buffer.clear()
                    return
            yield from self.buffer
            self.buffer.clear()

    def __len__(self) -> int:
        return min(check_length(self, pipe) for pipe in self.datapipes) * len(self.datapipes)

    def reset(self) -> None:
        """Drop the samples of an unfinished round."""
        self.buffer = []

    def __getstate__(self) -> Any:
        state = (self.datapipes, self._valid_iterator_id, self._number_of_samples_yielded)
        hook = IterDataPipe.getstate_hook
        return state if hook is None else hook(state)

    def __setstate__(self, state: Any) -> None:
        self.datapipes, self._valid_iterator_id, self._number_of_samples_yielded = state
        self.buffer = []

    def __del__(self) -> None:
        self.buffer.clear()


@functional_datapipe("zip")
class ZipperIterDataPipe(IterDataPipe[Any]):
    """Tuples of a sample of each pipe, until the shortest ends (functional name: ``zip``).

    >>> IterableWrapper = torch.utils.data.datapipes.iter.IterableWrapper
    >>> list(IterableWrapper(range(3)).zip(IterableWrapper("ab")))
    [(0, 'a'), (1, 'b')]
    """

    def __init__(self, *datapipes: IterDataPipe[Any]) -> None:
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("All inputs are required to be `IterDataPipe` for `ZipIterDataPipe`.")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        yield from zip(*map(iter, self.datapipes), strict=False)

    def __len__(self) -> int:
        return min(check_length(self, pipe) for pipe in self.datapipes)
