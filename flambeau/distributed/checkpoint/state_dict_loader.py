"""Load a distributed checkpoint into a state dict, with any number of processes."""

from __future__ import annotations

import os
from typing import Any

from ...autograd.mode import no_grad
from ...tensor import Tensor
from .chunks import list_chunks, overlap
from .default_planner import _EmptyStateDictLoadPlanner
from .filesystem import FileSystemReader
from .flat_names import flatten, set_element
from .metadata import Metadata, MetadataIndex, TensorStorageMetadata
from .state_dict_saver import require_folder
from .stateful import Stateful

__all__ = ["load", "load_state_dict"]


def load(
    state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike | None = None,
    storage_reader: Any = None, planner: Any = None, process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Fill the tensors of a state dict in place and replace its other values.

    A DTensor takes its parts from the chunks that any number of processes saved.

    Objects with `load_state_dict` receive their state. Raises RuntimeError for an entry that the
    checkpoint lacks, ValueError for a tensor of a different shape.
    """
    reader = storage_reader or FileSystemReader(require_folder(checkpoint_id))
    plain = {
        key: value.state_dict() if isinstance(value, Stateful) else value
        for key, value in state_dict.items()
    }
    _load_state_dict(plain, reader)
    for key, value in state_dict.items():
        if isinstance(value, Stateful):
            value.load_state_dict(plain[key])
        else:
            state_dict[key] = plain[key]


def _load_state_dict(
    state_dict: dict[str, Any], storage_reader: Any, process_group: Any = None,
    coordinator_rank: int = 0, no_dist: bool = False, planner: Any = None,
) -> None:
    """Fill a state dict without Stateful objects; `planner` may rebuild an empty one first.

    Raises NotImplementedError for planners other than _EmptyStateDictLoadPlanner.
    """
    metadata = storage_reader.read_metadata()
    if planner is not None:
        if not isinstance(planner, _EmptyStateDictLoadPlanner):
            raise NotImplementedError(
                f"torch.distributed.checkpoint: the planner {type(planner).__name__}")
        planner.set_up_planner(state_dict, metadata, True)
    flat, paths = flatten(state_dict)
    for name, value in flat.items():
        put_back = _load_entry(storage_reader, metadata, name, value)
        if put_back is not value:
            set_element(state_dict, paths[name], put_back)


@no_grad()
def _load_entry(reader: Any, metadata: Metadata, name: str, value: Any) -> Any:
    """Return an entry's value: the given tensor, filled, or the object from the checkpoint."""
    described = metadata.state_dict_metadata.get(name)
    if described is None:
        raise RuntimeError(f"Missing key in checkpoint state_dict: {name}.")
    if not isinstance(described, TensorStorageMetadata):
        return reader.read(metadata.storage_data[MetadataIndex(name)])
    if not isinstance(value, Tensor):
        raise ValueError(f"{name} is a tensor in the checkpoint, and {type(value)} here")
    if tuple(value.shape) != tuple(described.size):
        raise ValueError(
            f"Size mismatch between saved {described.size} and current: {value.shape} for {name}"
        )
    own = list_chunks(value)
    for saved in described.chunks:
        shared = [(chunk, windows) for chunk in own
                  if (windows := overlap(saved.offsets, saved.sizes, chunk)) is not None]
        if not shared:
            continue
        part = reader.read(metadata.storage_data[MetadataIndex(name, saved.offsets)], True)
        for chunk, (source, target) in shared:
            (chunk.values[target] if target else chunk.values).copy_(
                part[source] if source else part)
    return value


def load_state_dict(
    state_dict: dict[str, Any], storage_reader: Any, process_group: Any = None,
    coordinator_rank: int = 0, no_dist: bool = False, planner: Any = None,
) -> None:
    """Deprecated form of `load`."""
    load(state_dict, storage_reader=storage_reader, process_group=process_group, no_dist=no_dist)
