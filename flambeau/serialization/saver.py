"""`save`: write an object and its tensors to a .pt file, atomically for a path."""

from __future__ import annotations

import io
import os
import pickle
import sys
from pathlib import Path
from typing import IO, Any

from . import legacy
from .archive import ALIGNMENT, ArchiveWriter
from .atomic_file import open_replacement
from .options import Settings
from .pickler import StorageTable, get_pickler

DEFAULT_PROTOCOL = 2
FileLike = str | os.PathLike[str] | IO[bytes]


def save(
    obj: object,
    f: FileLike,
    pickle_module: Any = pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Save an object to a path or a file object with `write`, in PyTorch's format.

    Tensors that share memory share it again when loaded. A path is replaced only once the new file
    is complete, so a failed save keeps the old one. Raises RuntimeError if the directory does not
    exist, AttributeError if `f` is not a file, and pickle's errors for unpicklable objects.

    >>> buffer = io.BytesIO()
    >>> save({"epoch": 3}, buffer)
    """
    if not isinstance(f, (str, os.PathLike)):
        if not hasattr(f, "write"):
            raise AttributeError(
                "expected 'f' to be string, path, or a file-like object with a 'write' attribute, "
                f"got {type(f).__name__}"
            )
        _write(obj, f, "archive", pickle_module, pickle_protocol,
               _use_new_zipfile_serialization, _disable_byteorder_record)
        if hasattr(f, "flush"):
            f.flush()
        return
    path = Path(os.fsdecode(os.fspath(f)))
    with open_replacement(path) as file:
        _write(obj, file, path.name.rpartition(".")[0] or path.name or "archive", pickle_module,
               pickle_protocol, _use_new_zipfile_serialization,
               _disable_byteorder_record)


def _write(
    obj: object, file: Any, name: str, pickle_module: Any, protocol: int, as_zip: bool,
    without_byteorder: bool,
) -> None:
    if not as_zip:
        if Settings.skip_data:
            raise RuntimeError(
                "Cannot use skip_data=True with _use_new_zipfile_serialization=False")
        legacy.save(obj, file, pickle_module, protocol)
        return
    table, pickled = StorageTable(), io.BytesIO()
    get_pickler(pickle_module, pickled, protocol, table).dump(obj)
    archive = ArchiveWriter(file, name, Settings.crc32)
    archive.record("data.pkl", pickled.getbuffer())
    archive.record(".format_version", b"1")
    archive.record(".storage_alignment", str(ALIGNMENT).encode())
    if not without_byteorder:
        archive.record("byteorder", sys.byteorder.encode())
    for key, storage in table.storages.items():
        archive.record(f"data/{key}",
                       bytes(storage.nbytes()) if Settings.skip_data else storage._bytes.data)
    archive.close()
