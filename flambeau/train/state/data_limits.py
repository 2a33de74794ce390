"""Use a part of the data: a loader's first batches, or a share of samples for validation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any


from ...tensor.tree import get_first_leaf, map_leaves
from ...utils.data import Subset
from .data import is_arrays, count_batches


class FirstBatches:
    """The first `count` batches of each pass over a loader.

    All other attributes are the loader's: its dataset, its samplers and their generators.
    """

    def __init__(self, data: Any, count: int) -> None:
        self.data, self.count = data, count

    def __iter__(self) -> Iterator[Any]:
        return islice(iter(self.data), self.count)

    def __len__(self) -> int:
        return min(self.count, len(self.data))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.data, name)


def limit_batches(data: Any, limit: float | None) -> Any:
    """Return the loader's first batches: `limit` of them, or that share if it is a float up to 1.

    Raises ValueError for a limit that is neither, and for a share of data of unknown length.
    """
    if limit is None:
        return data
    if isinstance(limit, float) and 0 < limit <= 1:
        length = count_batches(data)
        if length is None:
            raise ValueError(f"limit={limit} is a fraction, but the data has no length: pass a "
                             "number of batches")
        limit = max(1, int(length * limit))
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise ValueError(f"limit must be a number of batches (at least 1) or a fraction up to "
                         f"1.0, got {limit}")
    return FirstBatches(data, limit)


def repeat_first_batches(data: Any, count: int) -> list[Any]:
    """Return the first `count` batches as a list, for every epoch to repeat."""
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ValueError(f"overfit must be at least 1 batch, got {count!r}")
    return list(islice(iter(data), count))


def set_aside(data: Any, share: float) -> tuple[Any, Any]:
    """Split arrays or a dataset: the last `share` of the samples becomes validation data.

    Raises ValueError for a share that leaves either part empty, TypeError for loaders and streams.
    """
    if not 0 < share < 1:
        raise ValueError(f"validation_split must be between 0 and 1, got {share!r}")
    if is_arrays(data):
        arrays = data if isinstance(data, tuple) else (data,)
        split = _find_split(_count_samples(arrays[0]), share)
        training = tuple(_slice(array, slice(None, split)) for array in arrays)
        validation = tuple(_slice(array, slice(split, None)) for array in arrays)
        return training, validation
    if not hasattr(data, "__getitem__") or not hasattr(data, "__len__") or isinstance(data, list):
        raise TypeError("validation_split needs arrays or a dataset; a loader cannot be split")
    split = _find_split(len(data), share)
    return Subset(data, range(split)), Subset(data, range(split, len(data)))


def _find_split(samples: int, share: float) -> int:
    split = samples - round(samples * share)
    if not 0 < split < samples:
        raise ValueError(f"validation_split={share} of {samples} samples leaves a part empty")
    return split


def _count_samples(array: Any) -> int:
    return len(get_first_leaf(array))


def _slice(arrays: Any, indices: slice) -> Any:
    return map_leaves(lambda array: array[indices], arrays)
