"""`save`: an object and its tensors to a .pt file. A file at a path is replaced when whole."""

from __future__ import annotations

import io
import os
import pickle
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from . import legacy
from .archive import ALIGNMENT, ArchiveWriter
from .options import Settings
from .pickler import StorageTable, pickler_for

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
    """Saves an object to a path or to a file object with `write`, in PyTorch's format.

    Tensors that share memory share it when loaded. A path gets the new file only when it is
    complete, so that a failed save leaves the old one. Raises RuntimeError when the directory
    does not exist, AttributeError when `f` is no file, and pickle's errors for what it cannot
    pickle.

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
    with replacing(path) as file:
        _write(obj, file, path.name.rpartition(".")[0] or path.name or "archive", pickle_module,
               pickle_protocol, _use_new_zipfile_serialization,
               _disable_byteorder_record)


def _write(
    obj: object, file: Any, name: str, pickle_module: Any, protocol: int, as_zip: bool,
    without_byteorder: bool,
) -> None:
    if not as_zip:
        legacy.save(obj, file, pickle_module, protocol)
        return
    table, pickled = StorageTable(), io.BytesIO()
    pickler_for(pickle_module, pickled, protocol, table).dump(obj)
    archive = ArchiveWriter(file, name, Settings.crc32)
    archive.record("data.pkl", pickled.getbuffer())
    archive.record(".format_version", b"1")
    archive.record(".storage_alignment", str(ALIGNMENT).encode())
    if not without_byteorder:
        archive.record("byteorder", sys.byteorder.encode())
    for key, storage in table.storages.items():
        archive.record(f"data/{key}", storage._bytes.data)
    archive.close()


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write beside `path`, which takes its place at the end if nothing was raised.

    Links are followed and permissions kept. What is no regular file (a pipe, /dev/null), or lies
    where no file can be added, is written directly. RuntimeError for a missing directory.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise RuntimeError(f"Parent directory {path.parent} does not exist.")
    mode = target.stat().st_mode if target.exists() else None
    if mode is not None and not stat.S_ISREG(mode):
        with open(target, "wb") as file:
            yield file
        return
    beside = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}.tmp")
    try:
        file = open(beside, "xb")  # noqa: SIM115 (closed below, before it is moved)
    except PermissionError:
        with open(target, "wb") as file:
            yield file
        return
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(beside, stat.S_IMODE(mode))
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    _sync_directory(target.parent)


def _sync_directory(directory: Path) -> None:
    # So that the new name survives a loss of power too; Windows cannot open directories.
    if os.name != "posix":
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:
        pass  # some network file systems refuse, and the file itself is already safe
    finally:
        os.close(handle)
