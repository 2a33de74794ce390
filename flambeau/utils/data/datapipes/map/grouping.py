"""Batcher: batches of a pipe with an index."""

from __future__ import annotations

from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import DataChunk, MapDataPipe, check_length

__all__ = ["BatcherMapDataPipe"]


@functional_datapipe("batch")
class BatcherMapDataPipe(MapDataPipe[DataChunk[Any]]):
    """Batches of `batch_size` samples, each a `wrapper_class` (functional name: ``batch``).

    Raises AssertionError for a size below 1.

    >>> torch.utils.data.datapipes.map.SequenceWrapper(range(5)).batch(2)[1]
    [2, 3]
    """

    def __init__(
        self, datapipe: Any, batch_size: int, drop_last: bool = False,
        wrapper_class: type[DataChunk[Any]] = DataChunk,
    ) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe = datapipe
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.wrapper_class = wrapper_class

    def __getitem__(self, index: int) -> DataChunk[Any]:
        batch: list[Any] = []
        try:
            for i in range(index * self.batch_size, (index + 1) * self.batch_size):
                batch.append(self.datapipe[i])
        except IndexError as error:
            if self.drop_last or not batch:
                raise IndexError(f"Index {index} is out of bound.") from error
        return self.wrapper_class(batch)

    def __len__(self) -> int:
        batches, rest = divmod(check_length(self, self.datapipe), self.batch_size)
        return batches + (rest > 0 and not self.drop_last)
