"""Save the state dicts of several processes: each entry once, balanced by size."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...futures import Future
from ...tensor import Tensor
from ...tensor.size import Size
from .. import objects
from ..group import is_initialized
from ..process_group import require_member
from ..tensor import DTensor
from .chunks import list_chunks
from .filesystem import FileSystemWriter
from .flat_names import flatten
from .metadata import (
    BytesStorageMetadata, ChunkStorageMetadata, Metadata, MetadataIndex, TensorProperties,
    TensorStorageMetadata,
)
from .stateful import Stateful

__all__ = ["async_save", "save", "save_state_dict"]


def _find_rank_and_size(no_dist: bool, group: Any) -> tuple[int, int]:
    """Return this process's rank and the number of processes."""
    if no_dist or not is_initialized():
        return 0, 1
    return require_member(group).rank(), require_member(group).size()


def _gather_values(value: Any, size: int, group: Any) -> list[Any]:
    """Return the values of all ranks; the calling process alone needs no communication."""
    if size == 1:
        return [value]
    result = [None] * size
    objects.all_gather_object(result, value, group)
    return result


def _describe(value: Any) -> TensorStorageMetadata | BytesStorageMetadata:
    if not isinstance(value, Tensor):
        return BytesStorageMetadata()
    chunks = [ChunkStorageMetadata(Size(chunk.offsets), Size(chunk.values.shape))
              for chunk in list_chunks(value, once=True)]
    properties = TensorProperties(value.dtype, requires_grad=value.requires_grad)
    return TensorStorageMetadata(properties, Size(value.shape), chunks)


def assign_owners(names_of_ranks: list[dict[str, int]]) -> dict[str, int]:
    """Assign each entry to the least loaded rank that has it; return {name: rank}.

    `names_of_ranks` holds each rank's {name: bytes}. All ranks compute the same result.
    """
    sizes: dict[str, int] = {}
    for names in names_of_ranks:
        for name, size_bytes in names.items():
            sizes.setdefault(name, size_bytes)
    loads, result = [0] * len(names_of_ranks), {}
    for name in sorted(sizes, key=lambda key: (-sizes[key], key)):
        rank = min(
            (r for r, names in enumerate(names_of_ranks) if name in names),
            key=lambda r: (loads[r], r),
        )
        loads[rank] += sizes[name]
        result[name] = rank
    return result


def save(
    state_dict: Mapping[str, Any], *, checkpoint_id: str | os.PathLike | None = None,
    storage_writer: Any = None, planner: Any = None, process_group: Any = None,
    no_dist: bool = False, use_collectives: bool = True,
) -> Metadata:
    """Save a state dict to the folder `checkpoint_id`. All processes of the group must call it.

    Entries that several processes share are saved once; each process saves its part of a DTensor.
    The checkpoint can be loaded by a different number of processes, and by PyTorch.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> _ = torch.distributed.checkpoint.save({"w": torch.ones(2)}, checkpoint_id=folder)
    >>> state = {"w": torch.zeros(2)}
    >>> torch.distributed.checkpoint.load(state, checkpoint_id=folder)
    >>> state["w"]
    tensor([1., 1.])
    """
    writer = storage_writer or FileSystemWriter(require_folder(checkpoint_id))
    rank, size = _find_rank_and_size(no_dist, process_group)
    flat, paths = flatten(state_dict)
    sizes = {name: v._array.nbytes if isinstance(v, Tensor) else 0 for name, v in flat.items()
             if not isinstance(v, DTensor)}
    owner = assign_owners(_gather_values(sizes, size, process_group))
    local = {name: value for name, value in flat.items() if owner.get(name, rank) == rank}
    error: OSError | None = None
    places: dict[Any, Any] = {}
    try:
        places = writer.write(_list_entries(local), rank)
    except OSError as failure:
        error = failure
    report = _Report({name: _describe(v) for name, v in local.items()}, paths, places, error)
    metadata = _merge_reports(_gather_values(report, size, process_group))
    if rank == 0:
        writer.finish(metadata)
    _gather_values(None, size, process_group)  # a barrier: the checkpoint is now valid
    return metadata


class _Report(NamedTuple):
    """What a rank wrote: descriptions by name, paths of flattened names, places in files."""

    described: dict[str, TensorStorageMetadata | BytesStorageMetadata]
    paths: dict[str, Any]
    places: dict[Any, Any]
    error: OSError | None


def _merge_reports(reports: list[_Report]) -> Metadata:
    """Merge the ranks' reports. Raises CheckpointException if a rank failed."""
    failures = {rank: r.error for rank, r in enumerate(reports) if r.error is not None}
    if failures:
        raise CheckpointException("CheckpointException", dict(failures))
    metadata = Metadata({}, {}, {}, version="1.0.0")
    for report in reports:
        for name, described in report.described.items():
            _add_description(metadata.state_dict_metadata, name, described)
        metadata.planner_data.update(report.paths)
        metadata.storage_data.update(report.places)
    return metadata


def _add_description(descriptions: dict[str, Any], name: str, described: Any) -> None:
    """Add an entry's description, or its chunks if another rank has described it."""
    known = descriptions.setdefault(name, described)
    if known is not described and isinstance(known, TensorStorageMetadata):
        known.chunks += [chunk for chunk in described.chunks if chunk not in known.chunks]


def _list_entries(values: Mapping[str, Any]) -> dict[MetadataIndex, Any]:
    """Return what this process writes, a tensor's chunks one by one."""
    entries: dict[MetadataIndex, Any] = {}
    for name, value in values.items():
        if not isinstance(value, Tensor):
            entries[MetadataIndex(name)] = value
            continue
        for i, chunk in enumerate(list_chunks(value, once=True)):
            entries[MetadataIndex(name, chunk.offsets, i)] = chunk.values
    return entries


def require_folder(checkpoint_id: Any) -> Any:
    if checkpoint_id is None:
        raise ValueError("Must provide either `checkpoint_id` or `storage_writer` "
                         "or `storage_reader`.")
    return checkpoint_id


class CheckpointException(BaseException):
    """Failure of a save. `failures` is {rank: error}."""

    def __init__(self, message: str, failures: dict[int, BaseException]) -> None:
        super().__init__(message, failures)
        self.failures = failures

    def __str__(self) -> str:
        lines = [f"CheckpointException ranks:{set(self.failures)}"]
        lines += [f"rank {rank}: {error!r}" for rank, error in self.failures.items()]
        return "\n".join(lines)


def save_state_dict(
    state_dict: Mapping[str, Any], storage_writer: Any, process_group: Any = None,
    coordinator_rank: int = 0, no_dist: bool = False, planner: Any = None,
) -> Metadata:
    """Deprecated form of `save`."""
    return save(state_dict, storage_writer=storage_writer, process_group=process_group,
                no_dist=no_dist)


def _copy(value: Any) -> Any:
    """Copy nested containers and their tensors."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, Mapping):
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def async_save(
    state_dict: Mapping[str, Any], *, checkpoint_id: Any = None, storage_writer: Any = None,
    planner: Any = None, process_group: Any = None, **options: Any,
) -> Future:
    """Copy the state and `save` it in a thread; return a Future.

    With several processes, nothing else may use the group until the save ends.
    """
    copies = _copy(
        {k: v.state_dict() if isinstance(v, Stateful) else v for k, v in state_dict.items()}
    )
    future = Future()

    def run() -> None:
        try:
            future.set_result(save(copies, checkpoint_id=checkpoint_id, process_group=process_group,
                                   storage_writer=storage_writer))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="checkpoint").start()
    return future
