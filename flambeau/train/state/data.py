"""Training data: turn datasets and arrays into loaders, and batches into input and target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ...ops.creation.interchange import from_numpy
from ...tensor.dtypes import get_default_dtype
from ...tensor.tensor import Tensor
from ...tensor.tree import get_leaves, map_leaves_of
from ...utils.data import DataLoader, Dataset, IterableDataset, TensorDataset
from ...utils.data.iterator import _SingleProcessDataLoaderIter

BATCH_SIZE = 32


def as_loader(
    data: Any, batch_size: int | None = None, shuffle: bool | None = None, who: str = "fit"
) -> Any:
    """Return an iterable of batches: a loader (or a list of batches) itself, else a DataLoader.

    A dataset has `__getitem__` and `__len__`; arrays are a tensor, a NumPy array, or a tuple of
    arrays of equal length. NumPy's float64 becomes the default dtype. Raises ValueError for arrays
    of different lengths, data without a batch, and a `batch_size` beside a loader.
    """
    if is_arrays(data):
        data = build_dataset(data if isinstance(data, tuple) else (data,), who)
    if is_loader(data):
        if batch_size is not None or shuffle is not None:
            raise ValueError(
                f"{who}: batch_size and shuffle apply to datasets and arrays only; a loader has "
                "its own"
            )
        if count_batches(data) == 0:
            raise ValueError(f"{who}: the loader is empty: {_explain_empty(data)}")
        return data
    is_indexed = hasattr(data, "__getitem__") and not isinstance(data, (Mapping, str))
    if not is_indexed and not isinstance(data, IterableDataset):
        raise TypeError(
            f"{who}: expected a loader, a dataset, or arrays (x, y), got {type(data).__name__}"
        )
    is_stream = isinstance(data, IterableDataset)
    if not is_stream and len(data) == 0:
        raise ValueError(f"{who}: the dataset is empty: it has no samples")
    shuffles = None if is_stream else bool(shuffle)
    size = BATCH_SIZE if batch_size is None else batch_size
    return DataLoader(data, batch_size=size, shuffle=shuffles)


def is_arrays(data: Any) -> bool:
    """Whether a value is a tensor, a NumPy array, or a (nested) tuple of them."""
    if isinstance(data, tuple):
        return bool(data) and all(isinstance(p, (Tensor, np.ndarray)) for p in get_leaves(data))
    return isinstance(data, (Tensor, np.ndarray))


def check_paired(data: Any, who: str) -> None:
    """Raise ValueError if arrays come without their target."""
    if is_arrays(data) and (not isinstance(data, tuple) or len(data) < 2):
        call = "fit(data, (x, y))" if who == "valid" else f"{who}((x, y), ...)"
        raise ValueError(f"{who}: pass arrays as one tuple with the target (x, y): {call}")


def is_loader(data: Any) -> bool:
    """Whether iterating over a value gives batches."""
    return (
        isinstance(data, Iterable)
        and not isinstance(data, (Dataset, Mapping, str))
        and not is_arrays(data)
    )


def build_dataset(arrays: tuple[Any, ...], who: str) -> TensorDataset:
    tensors = [as_tensor(array) for array in get_leaves(arrays)]
    lengths = [len(tensor) for tensor in tensors]
    if len(set(lengths)) != 1:
        raise ValueError(f"{who}: the arrays have different lengths: {lengths}")
    return TensorDataset(*tensors)


def as_tensor(array: Any) -> Tensor:
    """Return an array as a tensor; float64, NumPy's default, becomes the default dtype."""
    if isinstance(array, Tensor):
        return array
    tensor = from_numpy(array)
    return tensor.to(get_default_dtype()) if array.dtype == np.float64 else tensor


def count_batches(data: Any) -> int | None:
    """Return the number of batches; None if unknown."""
    try:
        return len(data)
    except (TypeError, NotImplementedError):
        return None


def _explain_empty(data: Any) -> str:
    dataset = getattr(data, "dataset", None)
    samples = count_batches(dataset)
    if not samples:
        return "it has no samples"
    return (
        f"its {samples} samples make no batch of {data.batch_size} with "
        f"drop_last={data.drop_last}"
    )


def skip_batches(data: Any, count: int) -> Iterator[Any]:
    """Return an epoch's iterator after its first `count` batches.

    Indexed samples are skipped without loading them; the order is drawn as usual.
    """
    iterator = iter(data)
    if type(iterator) is _SingleProcessDataLoaderIter and not isinstance(
        data.dataset, IterableDataset
    ):
        for _ in range(count):
            next(iterator._sampler_iter, None)
        iterator._num_yielded += count
    else:
        for _ in range(count):
            next(iterator, None)
    return iterator


def split(batch: Any) -> tuple[Any, Any]:
    """Split a batch into input and target. With more than two parts, all but the last are inputs.
    """
    if isinstance(batch, (tuple, list)):
        if len(batch) == 2:
            return batch[0], batch[1]
        if len(batch) > 2:
            return tuple(batch[:-1]), batch[-1]
    raise ValueError(
        f"a batch is (input, target), got {_describe_batch(batch)}; for other batches write a step "
        "of your own: @trainer.step, @trainer.eval_step"
    )


def get_inputs(batch: Any, labelled: bool) -> Any:
    """Return only the input of a batch, with or without a target."""
    if not isinstance(batch, (tuple, list)):
        return batch
    if len(batch) == 1:
        return batch[0]
    return split(batch)[0] if labelled else tuple(batch)


def _describe_batch(batch: Any) -> str:
    if isinstance(batch, Tensor):
        return f"a tensor of shape {tuple(batch.shape)}"
    if isinstance(batch, (tuple, list)):
        return f"a {type(batch).__name__} of {len(batch)}"
    return f"a {type(batch).__name__}"


def move(tree: Any, device: Any) -> Any:
    """Return `tree` with its tensors moved to a device."""
    return map_leaves_of(Tensor, lambda x: x.to(device), tree)


def detach_tensors(tree: Any) -> Any:
    """Return `tree` with its tensors detached."""
    return map_leaves_of(Tensor, Tensor.detach, tree)
