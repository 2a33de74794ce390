"""Data loading: datasets, samplers, and batching (`DataLoader`)."""

from __future__ import annotations

from . import timed_batches as timed_batches
from . import _utils, dataloader, datapipes, dataset, distributed, graph, graph_settings, sampler
from ._utils.fetch import _DatasetKind
from .dataloader import DataLoader, default_collate, default_convert, get_worker_info
from .datapipes._decorator import (
    functional_datapipe,
    guaranteed_datapipes_determinism,
    non_deterministic,
)
from .datapipes.datapipe import DataChunk, DFIterDataPipe, IterDataPipe, MapDataPipe
from .dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from .distributed import DistributedSampler
from .sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DFIterDataPipe", "DataChunk", "DataLoader",
    "Dataset", "DistributedSampler", "IterDataPipe", "IterableDataset", "MapDataPipe",
    "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset",
    "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "_DatasetKind",
    "default_collate", "default_convert", "functional_datapipe", "get_worker_info",
    "guaranteed_datapipes_determinism", "non_deterministic", "random_split",
]
