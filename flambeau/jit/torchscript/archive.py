"""`load`: read a TorchScript archive as a module. Archive code runs only after translation."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pickle import UnpicklingError
from typing import Any

from ...serialization.archive import ArchiveReader
from ...serialization.loader import StorageSource
from ...serialization.location import MapLocation
from .program import Program
from .script_module import LoadedModule
from .unpickling import ScriptUnpickler

__all__ = ["is_torchscript", "load", "refuse_foreign_file"]


def _open(file: Any) -> Any:
    return open(file, "rb") if isinstance(file, (str, os.PathLike)) else nullcontext(file)


def is_torchscript(file: Any) -> bool:
    """Return whether a file is a TorchScript archive. Preserves a file object's position."""
    with _open(file) as opened:
        start = opened.tell()
        try:
            archive = ArchiveReader(opened)
            return archive.has("constants.pkl") or archive.has("model.json")
        except RuntimeError:
            return False
        finally:
            opened.seek(start)


def refuse_foreign_file(file: Any) -> None:
    """Raise RuntimeError, as PyTorch does, for a file that is no archive of a program."""
    with _open(file) as opened:
        archive = ArchiveReader(opened)
        if not archive.has("models/model.json"):
            raise RuntimeError(
                "PytorchStreamReader failed locating file constants.pkl: file not found")


def load(file: Any, map_location: MapLocation = None,
         extra_files: dict[str, Any] | None = None) -> LoadedModule:
    """Load the module in an archive.

    Fills `extra_files` with the named entries, as bytes. Raises RuntimeError for a damaged archive
    or an unknown operator.
    """
    with _open(file) as opened:
        archive = ArchiveReader(opened)
        if archive.has("model.json"):
            raise RuntimeError("Legacy model format is not supported on this platform.")
        for name in extra_files or {}:
            if archive.has(f"extra/{name}"):
                extra_files[name] = archive.read(f"extra/{name}")  # type: ignore[index]
        module = _read(archive, map_location)
    if not isinstance(module, LoadedModule):
        raise RuntimeError("torch.jit.load: the archive holds no module")
    return module


def _read(archive: ArchiveReader, map_location: MapLocation) -> Any:
    def code(name: str) -> str | None:
        return archive.read(name).decode() if archive.has(name) else None

    program = Program(code)
    version = "version" if archive.has("version") else ".data/version"
    program.version = archive.read(version).decode(errors="replace").strip()
    sources = {folder: StorageSource(archive, map_location, None, folder)
               for folder in ("constants", "data")}
    try:
        constants = ScriptUnpickler(archive.read("constants.pkl"), sources["constants"], program)
        program.constants = _as_tuple(constants.load())
        module = ScriptUnpickler(archive.read("data.pkl"), sources["data"], program).load()
    except (UnpicklingError, EOFError, UnicodeDecodeError) as error:
        raise RuntimeError(f"torch.jit.load: the archive is damaged: {error}") from error
    program.read_all(archive.names())
    return module


def _as_tuple(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, (tuple, list)):
        raise UnpicklingError("constants.pkl holds no tuple")
    return tuple(value)
