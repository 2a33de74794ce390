"""Checkpoints in a folder: one file per process, then `.metadata`, written last."""

from __future__ import annotations

import io
import os
import pickle
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import serialization
from ...serialization.pickler import NamingPickler, StorageTable
from ...tensor import Tensor
from .metadata import Metadata, StorageMeta

__all__ = ["FileSystemReader", "FileSystemWriter"]

METADATA_NAME = ".metadata"
_SAFE_MODULES = ("flambeau", "collections", "pathlib", "builtins")
_SAFE_BUILTINS = ("set", "frozenset", "tuple", "list", "dict", "getattr")


@dataclass
class _StorageInfo:
    """Location of an entry's bytes."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: list[str] | None = None


class _MetadataUnpickler(pickle.Unpickler):
    """Unpickler of `.metadata` that maps PyTorch's classes to flambeau's and refuses other code."""

    def find_class(self, module: str, name: str) -> Any:
        """Return an allowed class. Raises UnpicklingError for others."""
        renamed = "flambeau" + module[5:] if f"{module}.".startswith("torch.") else module
        if renamed.partition(".")[0] not in _SAFE_MODULES or (
            renamed == "builtins" and name not in _SAFE_BUILTINS
        ):
            raise pickle.UnpicklingError(f".metadata asks for {module}.{name}, which is no part of "
                                         "a checkpoint's description")
        return super().find_class(renamed, name)


class FileSystemWriter:
    """Writer of one process's entries to its file in the folder."""

    def __init__(self, path: str | os.PathLike, *args: Any, **options: Any) -> None:
        self.path = Path(path)

    def write(self, entries: Mapping[Any, Any], rank: int) -> dict[Any, _StorageInfo]:
        """Write {index: value}; return each location. The file appears only when complete."""
        self.path.mkdir(parents=True, exist_ok=True)
        name, places = f"__{rank}_0.distcp", {}
        unfinished = self.path / (name + ".tmp")
        with open(unfinished, "wb") as file:
            for index, value in entries.items():
                start, buffer = file.tell(), io.BytesIO()
                saved = value.detach().clone() if isinstance(value, Tensor) else value
                serialization.save(saved, buffer)
                file.write(buffer.getbuffer())
                places[index] = _StorageInfo(name, start, file.tell() - start)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, self.path / name)
        return places

    def finish(self, metadata: Metadata) -> None:
        """Write `.metadata`, which makes the checkpoint valid."""
        metadata.storage_meta = StorageMeta(str(self.path), str(uuid.uuid4()))
        unfinished = self.path / (METADATA_NAME + ".tmp")
        with open(unfinished, "wb") as file:
            NamingPickler(file, 4, StorageTable()).dump(metadata)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, self.path / METADATA_NAME)


class FileSystemReader:
    """Reader of checkpoint entries in a folder."""

    def __init__(self, path: str | os.PathLike, *args: Any, **options: Any) -> None:
        self.path = Path(path)

    def read_metadata(self) -> Metadata:
        """Return the metadata. Raises FileNotFoundError if it is missing or unfinished."""
        with open(self.path / METADATA_NAME, "rb") as file:
            return _MetadataUnpickler(file).load()

    def read(self, place: _StorageInfo, is_tensor: bool = False) -> Any:
        """Return the value at a location. Non-tensors are unpickled, which can run code."""
        with open(self.path / place.relative_path, "rb") as file:
            file.seek(place.offset)
            data = io.BytesIO(file.read(place.length))
        return serialization.load(data, weights_only=is_tensor)
