"""Fetchers: turn indices into a collated batch, for map-style and iterable datasets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .... import ops
from ....native.foundation.user_frames import add_notes
from ....tensor import Tensor
from ....tensor.tree import describe
from ..dataset import Subset, TensorDataset
from . import collate


class _Fetcher:
    """Base class: a dataset and how to collate its samples."""

    def __init__(
        self, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool
    ) -> None:
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last

    def fetch(self, possibly_batched_index: Any) -> Any:
        """Return the batch, or sample, for one or more indices."""
        raise NotImplementedError


class _IterableDatasetFetcher(_Fetcher):
    """Takes the next samples of an iterable dataset. The indices only give their number."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.dataset_iter = iter(self.dataset)
        self.ended = False

    def fetch(self, possibly_batched_index: Any) -> Any:
        """Return the next batch or sample. Raises StopIteration at the end of the stream."""
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.dataset_iter))
        samples = []
        for _ in possibly_batched_index:
            try:
                samples.append(next(self.dataset_iter))
            except StopIteration:
                self.ended = True
                break
        if not samples or (self.drop_last and len(samples) < len(possibly_batched_index)):
            raise StopIteration
        return self.collate_fn(samples)


class _MapDatasetFetcher(_Fetcher):
    """Takes samples by index."""

    def fetch(self, possibly_batched_index: Any) -> Any:
        """Return the collated batch for a list of indices, or the converted sample for one."""
        dataset, indices = self.dataset, possibly_batched_index
        if not self.auto_collation:
            return self.collate_fn(dataset[indices])
        if self.collate_fn is collate.default_collate:
            rows = _gather_rows(dataset, indices)
            if rows is not None:
                return rows
        if getattr(dataset, "__getitems__", None):
            return self.collate_fn(dataset.__getitems__(indices))
        samples = [dataset[i] for i in indices]
        try:
            return self.collate_fn(samples)
        except (RuntimeError, TypeError) as error:
            add_notes(error, _describe_uneven(samples, indices))
            raise


def _describe_uneven(samples: list[Any], indices: Any) -> str | None:
    """Describe two samples that cannot be batched together, or return None."""
    first = describe(_describe_kind, samples[0])
    for index, sample in zip(indices, samples, strict=True):
        description = describe(_describe_kind, sample)
        if description != first:
            advice = "return a sample for each index" if sample is None else \
                "pad them in a collate_fn of your own"
            return f"dataset[{indices[0]}] is {first}, dataset[{index}] is {description}: {advice}"
    return None


def _describe_kind(sample: Any) -> str:
    """Describe the type of a sample's element, with the shape of a tensor."""
    if isinstance(sample, Tensor):
        return f"a tensor {tuple(sample.shape)}"
    if isinstance(sample, np.ndarray):
        return f"an array {sample.shape}"
    return "None" if sample is None else type(sample).__name__


def _gather_rows(dataset: Any, indices: Any) -> list[Tensor] | None:
    """Return a plain TensorDataset's batch with one gather per tensor, or None if not applicable.

    Taking rows one by one and stacking them gives equal tensors, several times slower.
    """
    while type(dataset) is Subset:
        chosen = dataset.indices
        indices = [chosen[i] for i in indices]
        dataset = dataset.dataset
    if type(dataset) is not TensorDataset or set(map(type, indices)) != {int}:
        return None
    if collate.default_collate_fn_map.get(Tensor) is not collate.collate_tensor_fn:
        return None
    for tensor in dataset.tensors:
        if type(tensor) is not Tensor or tensor.requires_grad or not tensor.is_contiguous():
            return None
    rows = ops.from_numpy(np.array(indices))
    return [tensor[rows] for tensor in dataset.tensors]


class _DatasetKind:
    """Kind of dataset: map-style or iterable."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: int, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any],
        drop_last: bool,
    ) -> _Fetcher:
        """Return the fetcher for a kind of dataset."""
        fetcher = _IterableDatasetFetcher if is_iterable(kind) else _MapDatasetFetcher
        return fetcher(dataset, auto_collation, collate_fn, drop_last)


create_fetcher = _DatasetKind.create_fetcher


def is_iterable(kind: int) -> bool:
    """Return whether a kind of dataset is iterable."""
    return kind == _DatasetKind.Iterable
