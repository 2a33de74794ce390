"""Contents of a distributed checkpoint's `.metadata`: each tensor's shape and its bytes' location.

The classes have PyTorch's names and fields, so each library can read the other's checkpoints.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ...tensor.dtypes import float32
from ...tensor.layout import channels_last, contiguous_format, preserve_format, strided
from ...tensor.size import Size

__all__ = [
    "BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "MetadataIndex", "StorageMeta",
    "TensorProperties", "TensorStorageMetadata",
]


@dataclass
class ChunkStorageMetadata:
    """A part of a tensor: its start and length along each axis."""

    offsets: Size
    sizes: Size


class _MEM_FORMAT_ENCODING(Enum):
    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


_FORMATS = {
    _MEM_FORMAT_ENCODING.TORCH_CONTIGUOUS_FORMAT: contiguous_format,
    _MEM_FORMAT_ENCODING.TORCH_CHANNELS_LAST: channels_last,
    _MEM_FORMAT_ENCODING.TORCH_PRESERVE_FORMAT: preserve_format,
}


@dataclass
class TensorProperties:
    """Attributes of a tensor besides its shape."""

    dtype: Any = float32
    layout: Any = strided
    requires_grad: bool = False
    memory_format: Any = contiguous_format
    pin_memory: bool = False

    def __getstate__(self) -> tuple[Any, ...]:
        encoded = next(code for code, result in _FORMATS.items() if result is self.memory_format)
        return self.dtype, self.layout, self.requires_grad, encoded, self.pin_memory

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.dtype, self.layout, self.requires_grad, encoded, self.pin_memory = state
        self.memory_format = _FORMATS[encoded]


@dataclass
class TensorStorageMetadata:
    """A tensor and the parts in which it was saved."""

    properties: TensorProperties
    size: Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """An object that is not a tensor."""


@dataclass(frozen=True)
class MetadataIndex:
    """Key of an object or of a tensor's part."""

    fqn: str
    offset: Size | None = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __init__(
        self, fqn: str, offset: Sequence[int] | None = None, index: int | None = None
    ) -> None:
        object.__setattr__(self, "fqn", fqn)
        object.__setattr__(self, "index", index)
        if offset is not None:
            object.__setattr__(self, "offset", Size(offset))


@dataclass
class StorageMeta:
    """Identity of a checkpoint."""

    checkpoint_id: str | os.PathLike | None = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """Everything in a checkpoint, keyed by flat name."""

    state_dict_metadata: dict[str, TensorStorageMetadata | BytesStorageMetadata]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None
