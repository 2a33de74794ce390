"""Pipes that change the order: samplers and `shuffle`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, TypeVar

from ...sampler import Sampler, SequentialSampler, draw_seed
from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe, check_length

__all__ = ["SamplerIterDataPipe", "ShufflerIterDataPipe"]

_T_co = TypeVar("_T_co", covariant=True)


class SamplerIterDataPipe(IterDataPipe[_T_co]):
    """Yields what a sampler of the pipe yields. Raises AssertionError if the pipe has no length.

    >>> numbers = torch.utils.data.datapipes.iter.IterableWrapper(range(3))
    >>> list(torch.utils.data.datapipes.iter.Sampler(numbers))
    [0, 1, 2]
    """

    def __init__(
        self, datapipe: IterDataPipe[Any], sampler: Any = SequentialSampler,
        sampler_args: tuple[Any, ...] | None = None, sampler_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if not hasattr(type(datapipe), "__len__"):
            raise AssertionError("Sampler class requires input datapipe implemented `__len__`")
        self.datapipe = datapipe
        self.sampler_args = () if sampler_args is None else sampler_args
        self.sampler_kwargs = {} if sampler_kwargs is None else sampler_kwargs
        self.sampler_kwargs["data_source"] = self.datapipe
        self.sampler: Sampler[Any] = sampler(*self.sampler_args, **self.sampler_kwargs)

    def __iter__(self) -> Iterator[_T_co]:
        return iter(self.sampler)

    def __len__(self) -> int:
        return check_length(self, self.sampler)


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(IterDataPipe[_T_co]):
    """Yields samples at random from a buffer of `buffer_size` (functional name: ``shuffle``).

    The order is wholly random if the buffer holds all samples. `unbatch_level` flattens batches
    first. A DataLoader seeds it; its `shuffle` turns it on and off.

    >>> numbers = torch.utils.data.datapipes.iter.IterableWrapper(range(5))
    >>> list(numbers.shuffle().set_seed(0))
    [3, 4, 0, 2, 1]
    """

    def __init__(
        self, datapipe: IterDataPipe[_T_co], *, buffer_size: int = 10000, unbatch_level: int = 0
    ) -> None:
        self._buffer: list[_T_co] = []
        if buffer_size <= 0:
            raise AssertionError("buffer_size should be larger than 0")
        self.datapipe: Any = datapipe
        if unbatch_level != 0:
            self.datapipe = self.datapipe.unbatch(unbatch_level=unbatch_level)
        self.buffer_size = buffer_size
        self._enabled = True
        self._seed: int | None = None
        self._rng = random.Random()

    def set_shuffle(self, shuffle: bool = True) -> ShufflerIterDataPipe[_T_co]:
        """Turn the shuffling on or off."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> ShufflerIterDataPipe[_T_co]:
        """Set the seed of the next iteration."""
        self._seed = seed
        return self

    def __iter__(self) -> Iterator[_T_co]:
        if not self._enabled:
            yield from self.datapipe
            return
        for sample in self.datapipe:
            if len(self._buffer) < self.buffer_size:
                self._buffer.append(sample)
                continue
            index = self._rng.randint(0, len(self._buffer) - 1)
            drawn, self._buffer[index] = self._buffer[index], sample
            yield drawn
        while self._buffer:
            yield self._buffer.pop(self._rng.randint(0, len(self._buffer) - 1))

    def __len__(self) -> int:
        return check_length(self, self.datapipe)

    def reset(self) -> None:
        """Empty the buffer and seed the order: with `set_seed`'s seed, or with a drawn number."""
        self._buffer = []
        if self._enabled:
            self._rng.seed(draw_seed() if self._seed is None else self._seed)
            self._seed = None

    def __getstate__(self) -> Any:
        state = (self.datapipe, self.buffer_size, self._enabled, self._seed, self._buffer,
                 self._rng.getstate(), self._valid_iterator_id, self._number_of_samples_yielded)
        hook = IterDataPipe.getstate_hook
        return state if hook is None else hook(state)

    def __setstate__(self, state: Any) -> None:
        (self.datapipe, self.buffer_size, self._enabled, self._seed, self._buffer, rng_state,
         self._valid_iterator_id, self._number_of_samples_yielded) = state
        self._rng = random.Random()
        self._rng.setstate(rng_state)

    def __del__(self) -> None:
        self._buffer.clear()
