"""Checkpoints in a folder: a file for each process, and `.metadata`, which is written last."""

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
    """Where an entry's bytes are."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: list[str] | None = None


class _MetadataUnpickler(pickle.Unpickler):
    """Reads `.metadata`: PyTorch's classes as flambeau's, and no other code."""

    def find_class(self, module: str, name: str) -> Any:
        """A class of this package, or a plain one; UnpicklingError for others."""
        ours = "flambeau" + module[5:] if f"{module}.".startswith("torch.") else module
        if ours.partition(".")[0] not in _SAFE_MODULES or (
            ours == "builtins" and name not in _SAFE_BUILTINS
        ):
            raise pickle.UnpicklingError(f".metadata asks for {module}.{name}, which is no part of "
                                         "a checkpoint's description")
        return super().find_class(ours, name)


class FileSystemWriter:
    """Writes the entries of one process into its file of a folder."""

    def __init__(self, path: str | os.PathLike, *args: Any, **options: Any) -> None:
        self.path = Path(path)

    def write(self, entries: Mapping[Any, Any], rank: int) -> dict[Any, _StorageInfo]:
        """Write {index: value}; returns where each lies. The file appears when it is complete."""
        self.path.mkdir(parents=True, exist_ok=True)
        name, places = f"__{rank}_0.distcp", {}
        unfinished = self.path / (name + ".tmp")
        with open(unfinished, "wb") as file:
            for index, value in entries.items():
                start, buffer = file.tell(), io.BytesIO()
                whole = value.detach().clone() if isinstance(value, Tensor) else value
                serialization.save(whole, buffer)
                file.write(buffer.getbuffer())
                places[index] = _StorageInfo(name, start, file.tell() - start)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, self.path / name)
        return places

    def finish(self, metadata: Metadata) -> None:
        """Write `.metadata`: from now on the checkpoint is valid."""
        metadata.storage_meta = StorageMeta(str(self.path), str(uuid.uuid4()))
        unfinished = self.path / (METADATA_NAME + ".tmp")
        with open(unfinished, "wb") as file:
            NamingPickler(file, 4, StorageTable()).dump(metadata)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, self.path / METADATA_NAME)


class FileSystemReader:
    """Reads entries of a checkpoint in a folder."""

    def __init__(self, path: str | os.PathLike, *args: Any, **options: Any) -> None:
        self.path = Path(path)

    def read_metadata(self) -> Metadata:
        """What the checkpoint has. FileNotFoundError where it is none, or was not finished."""
        with open(self.path / METADATA_NAME, "rb") as file:
            return _MetadataUnpickler(file).load()

    def read(self, place: _StorageInfo, is_tensor: bool = False) -> Any:
        """The value that lies at a place; what is no tensor is unpickled, which can run code."""
        with open(self.path / place.relative_path, "rb") as file:
            file.seek(place.offset)
            data = io.BytesIO(file.read(place.length))
        return serialization.load(data, weights_only=is_tensor)
