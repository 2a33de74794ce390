"""Datasets: map-style (`Dataset`) and iterable (`IterableDataset`), and their combinations:
tensors, stacks, concatenations, chains, subsets."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, Generic, Iterable, TypeVar  # noqa: UP035 (Generic needs typing's Iterable)

from ... import ops
from ...native.foundation.user_frames import add_notes, warn
from ...tensor import Tensor
from ...tensor.random.generator import Generator, default_generator

__all__ = [
    "ChainDataset", "ConcatDataset", "Dataset", "IterableDataset", "StackDataset", "Subset",
    "TensorDataset", "random_split",
]

_T_co = TypeVar("_T_co", covariant=True)
_T = TypeVar("_T")


class Dataset(Generic[_T_co]):
    """Map-style dataset: subclasses define `__getitem__`, and `__len__` for the default samplers.

    A subclass may define `__getitems__(indices)`, which returns the list of samples of a batch.
    There is no default `__len__`, so `len()` of a dataset without one raises TypeError.

    >>> class Squares(torch.utils.data.Dataset):
    ...     def __len__(self):
    ...         return 5
    ...     def __getitem__(self, i):
    ...         return i * i
    >>> list(torch.utils.data.DataLoader(Squares(), batch_size=3))
    [tensor([0, 1, 4]), tensor([ 9, 16])]
    """

    def __getitem__(self, index: Any) -> _T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[_T_co]) -> ConcatDataset[_T_co]:
        return ConcatDataset([self, other])


def measure_length(dataset: Iterable[Any] | Dataset[Any]) -> int:
    """Return the dataset's length. Raises TypeError if it has none."""
    return len(dataset)  # type: ignore[arg-type]  # may raise


class IterableDataset(Dataset[_T_co], Iterable[_T_co]):
    """Iterable dataset: subclasses define `__iter__`.

    Each worker has a copy of the dataset; use `get_worker_info()` to divide the stream between
    them.

    >>> class Count(torch.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(5))
    >>> list(torch.utils.data.DataLoader(Count(), batch_size=3))
    [tensor([0, 1, 2]), tensor([3, 4])]
    """

    def __add__(  # type: ignore[override]  # streams are chained, not concatenated
        self, other: Dataset[_T_co]
    ) -> ChainDataset:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Dataset of tensors with equal first dimension: sample `i` is the tuple of their `i`-th rows.

    Raises AssertionError if their first dimensions differ.

    >>> x, y = torch.arange(6).reshape(3, 2), torch.tensor([0, 1, 0])
    >>> data = torch.utils.data.TensorDataset(x, y)
    >>> len(data), data[1]
    (3, (tensor([2, 3]), tensor(1)))
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensors[0].size(0) != tensor.size(0) for tensor in tensors):
            raise add_notes(
                AssertionError("Size mismatch between tensors"),
                f"Their first dimensions are {[t.size(0) for t in tensors]}.",
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


def _batch_of(dataset: Any, indices: list[Any]) -> list[Any]:
    """Return the samples at `indices`, in one call if the dataset supports it."""
    if callable(getattr(dataset, "__getitems__", None)):
        samples = dataset.__getitems__(indices)
        if len(samples) != len(indices):
            raise ValueError(
                "Nested dataset's output size mismatch. "
                f"Expected {len(indices)}, got {len(samples)} from {type(dataset).__name__}"
            )
        return samples
    return [dataset[index] for index in indices]


class StackDataset(Dataset[Any]):
    """Datasets of equal length, zipped: positional ones give tuples, named ones dicts.

    Raises ValueError for both kinds, no datasets, or different lengths.

    >>> torch.utils.data.StackDataset(image=[1, 2], label=[3, 4])[1]
    {'image': 2, 'label': 4}
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Dataset[_T_co], **kwargs: Dataset[_T_co]) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or ``dict``- (via ``kwargs``) like "
                "input/output, but both types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        lengths = [measure_length(dataset) for dataset in args or kwargs.values()]
        if any(length != lengths[0] for length in lengths):
            raise ValueError(f"Size mismatch between datasets: lengths {lengths}")
        self._length = lengths[0]
        self.datasets = args or kwargs

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        """Return the samples at `indices`, with one call to each part that has `__getitems__`."""
        if isinstance(self.datasets, dict):
            columns = [_batch_of(dataset, indices) for dataset in self.datasets.values()]
            rows = zip(*columns, strict=True)
            return [dict(zip(self.datasets, row, strict=True)) for row in rows]
        return list(zip(*[_batch_of(d, indices) for d in self.datasets], strict=True))

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[_T_co]):
    """Concatenation of datasets.

    Raises AssertionError for an empty list or an `IterableDataset` in it. An index below `-len`
    raises ValueError.

    >>> data = torch.utils.data.ConcatDataset([[10, 11], [20]])
    >>> len(data), data[2], data[-3]
    (3, 20, 10)
    """

    datasets: list[Dataset[_T_co]]
    cumulative_sizes: list[int]

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Return the cumulative lengths."""
        return list(itertools.accumulate(len(part) for part in sequence))

    def __init__(self, datasets: Iterable[Dataset[_T_co]]) -> None:
        super().__init__()
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(part, IterableDataset) for part in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> _T_co:
        if idx < 0:
            if -idx > len(self):
                raise ValueError(
                    "absolute value of index should not exceed dataset length: "
                    f"index {idx}, length {len(self)}"
                )
            idx += len(self)
        dataset_index = bisect.bisect_right(self.cumulative_sizes, idx)
        start = self.cumulative_sizes[dataset_index - 1] if dataset_index else 0
        return self.datasets[dataset_index][idx - start]

    @property
    def cummulative_sizes(self) -> list[int]:
        """Deprecated spelling of `cumulative_sizes`."""
        warn(
            "`cummulative_sizes` attribute is renamed to `cumulative_sizes`",
            FutureWarning,
        )
        return self.cumulative_sizes


class ChainDataset(IterableDataset[Any]):
    """Chain of iterable datasets. Raises AssertionError for a dataset that is not iterable.

    >>> class Count(torch.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter([1, 2])
    >>> list(torch.utils.data.ChainDataset([Count(), Count()]))
    [1, 2, 1, 2]
    """

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        super().__init__()
        self.datasets = datasets

    def _flambeau_streams(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        for dataset in self._flambeau_streams():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._flambeau_streams())


class Subset(Dataset[_T_co]):
    """The samples of a dataset at given indices.

    A subclass that overrides `__getitem__` must also override `__getitems__`, which loads batches;
    otherwise NotImplementedError is raised.

    >>> list(torch.utils.data.Subset([10, 11, 12, 13], [3, 0]))
    [13, 10]
    """

    dataset: Dataset[_T_co]
    indices: Sequence[int]

    def __init__(self, dataset: Dataset[_T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices
        cls = type(self)
        if (
            cls.__getitem__ is not Subset.__getitem__
            and cls.__getitems__ is Subset.__getitems__
        ):
            raise NotImplementedError(
                f"{cls.__name__} overrides __getitem__ but not __getitems__. DataLoader takes "
                "batches through __getitems__, so define it too, for example:\n"
                "def __getitems__(self, indices):\n"
                "    return [self.__getitem__(idx) for idx in indices]"
            )

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list[_T_co]:
        """Return the samples at `indices`, in one call if the dataset has `__getitems__`."""
        chosen = [self.indices[i] for i in indices]
        several = getattr(self.dataset, "__getitems__", None)
        if callable(several):
            return several(chosen)
        return [self.dataset[i] for i in chosen]

    def __len__(self) -> int:
        return len(self.indices)


def _compute_lengths(total: int, fractions: Sequence[float]) -> list[int]:
    for i, fraction in enumerate(fractions):
        if fraction < 0 or fraction > 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1: {fraction}")
    lengths = [math.floor(total * fraction) for fraction in fractions]
    for i in range(total - sum(lengths)):
        lengths[i % len(lengths)] += 1
    for i, length in enumerate(lengths):
        if length == 0:
            warn(
                f"Length of split at index {i} is 0. This might result in an empty dataset.",
            )
    return lengths


def random_split(
    dataset: Dataset[_T],
    lengths: Sequence[int | float],
    generator: Generator | None = default_generator,
) -> list[Subset[_T]]:
    """Split a dataset at random into parts of the given lengths, or fractions that sum to 1.

    Rounding remainders go one by one to the first parts. Raises ValueError if the lengths do not
    sum to the dataset's length.

    >>> [len(part) for part in random_split(range(10), [0.5, 0.25, 0.25])]
    [6, 2, 2]
    """
    total = measure_length(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _compute_lengths(total, lengths)
    if sum(lengths) != total:
        raise add_notes(
            ValueError("Sum of input lengths does not equal the length of the input dataset!"),
            f"The lengths add up to {sum(lengths)}, and the dataset has {total} samples.",
        )
    indices = ops.randperm(sum(lengths), generator=generator).tolist()
    ends = itertools.accumulate(lengths)
    return [
        Subset(dataset, indices[end - length : end])
        for end, length in zip(ends, lengths, strict=True)
    ]
