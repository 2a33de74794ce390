"""Samplers: the order of samples in an epoch. The same seed gives PyTorch's order and leaves the
generator in PyTorch's state."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

from ... import ops
from ...tensor import Tensor
from ...tensor.dtypes import float64, int64
from ...tensor.random.generator import Generator

__all__ = [
    "BatchSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler",
    "WeightedRandomSampler",
]

_T_co = TypeVar("_T_co", covariant=True)


def draw_seed(generator: Generator | None = None) -> int:
    """Draw a 63-bit number, as PyTorch does to seed one generator from another."""
    return ops.empty((), dtype=int64).random_(generator=generator).item()


class Sampler(Generic[_T_co]):
    """Base class: `__iter__` yields indices, or lists of them; `__len__` is optional.

    >>> class Backwards(torch.utils.data.Sampler):
    ...     def __init__(self, data):
    ...         self.length = len(data)
    ...     def __iter__(self):
    ...         return iter(range(self.length - 1, -1, -1))
    >>> list(torch.utils.data.DataLoader([1, 2, 3], sampler=Backwards([1, 2, 3])))
    [tensor([3]), tensor([2]), tensor([1])]
    """

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError(f"{type(self).__name__} should implement __iter__.")


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ... up to the length of the data.

    >>> list(torch.utils.data.SequentialSampler("abc"))
    [0, 1, 2]
    """

    data_source: Sized

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Shuffled indices; with `replacement`, independent draws.

    `num_samples` may exceed the data's length: the data is reshuffled. Without a generator, each
    epoch seeds a new one from the default generator. Raises TypeError for a `replacement` that is
    not a bool, ValueError for no samples.

    >>> _ = torch.manual_seed(0)
    >>> sorted(torch.utils.data.RandomSampler("abcd"))
    [0, 1, 2, 3]
    """

    data_source: Sized
    replacement: bool

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(
                "num_samples should be a positive integer value, but got "
                f"num_samples={self.num_samples}"
            )

    @property
    def num_samples(self) -> int:
        """The number of indices per epoch; by default the current length of the data."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n = len(self.data_source)
        generator = self.generator
        if generator is None:
            seed = draw_seed()
            generator = Generator()
            generator.manual_seed(seed)
        if self.replacement:
            # PyTorch draws 32 at a time; the chunk size affects the random stream.
            for start in range(0, self.num_samples, 32):
                size = (min(32, self.num_samples - start),)
                drawn = ops.randint(high=n, size=size, dtype=int64, generator=generator)
                yield from drawn.tolist()
            return
        n_permutations, n_left = divmod(self.num_samples, n)
        for _ in range(n_permutations):
            yield from ops.randperm(n, generator=generator).tolist()
        yield from ops.randperm(n, generator=generator).tolist()[:n_left]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order, without replacement.

    >>> sorted(torch.utils.data.SubsetRandomSampler([7, 3, 5]))
    [3, 5, 7]
    """

    indices: Sequence[int]

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in ops.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with probability proportional to `weights`, which need not sum to 1.

    Raises ValueError for weights that are not one-dimensional and for other invalid arguments.

    >>> list(torch.utils.data.WeightedRandomSampler([0., 1., 0.], num_samples=3))
    [1, 1, 1]
    """

    weights: Tensor
    num_samples: int
    replacement: bool

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        _require_positive("num_samples", num_samples)
        _require_bool("replacement", replacement)
        weights_tensor = ops.as_tensor(weights, dtype=float64)
        if weights_tensor.dim() != 1:
            raise ValueError(
                "weights should be a 1d sequence but given weights have shape "
                f"{tuple(weights_tensor.shape)}"
            )
        self.weights = weights_tensor
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = ops.multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Groups another sampler's indices into lists of `batch_size`.

    Raises ValueError for a batch size that is not a positive int or a `drop_last` that is not a
    bool.

    >>> list(BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool
    ) -> None:
        _require_positive("batch_size", batch_size)
        _require_bool("drop_last", drop_last)
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if self.drop_last and len(batch) < self.batch_size:
                return
            yield batch

    def __len__(self) -> int:
        extra = 0 if self.drop_last else self.batch_size - 1
        sampler: Any = self.sampler  # TypeError if it has no length
        return (len(sampler) + extra) // self.batch_size


def _require_positive(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")


def _require_bool(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name} should be a boolean value, but got {name}={value}")
