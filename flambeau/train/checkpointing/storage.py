"""Checkpoint locations: local folders, or URLs (s3://, gs://, memory://) through fsspec."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path
from typing import Any

from ...serialization import load, save

Location = Any  # a Path, or a UPath with the same methods


def as_location(path: Any) -> Location:
    """Return a Path, or a UPath for a URL. Raises ImportError that names the missing package."""
    if isinstance(path, Path) or hasattr(path, "fs"):
        return path
    url = os.fspath(path)
    if "://" not in url:
        return Path(url)
    try:
        from upath import UPath
    except ImportError as error:
        error.add_note(f"{url} is a URL: pip install 'flambeau[remote]'")
        raise
    return UPath(url)


def is_remote(path: Location) -> bool:
    """Whether fsspec reads and writes the location."""
    return not isinstance(path, Path)


def write_state(state: Any, path: Location) -> None:
    """Save a state. A local file is replaced once the new one is complete; object stores do so
    themselves when an upload ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if is_remote(path):
        with path.open("wb") as file:
            save(state, file)
    else:
        save(state, path)


def read_state(path: Location, weights_only: bool = True) -> Any:
    """Load a state saved by `write_state`."""
    if not is_remote(path):
        return load(path, weights_only=weights_only)
    with path.open("rb") as file:
        return load(file, weights_only=weights_only)


def duplicate(source: Location, target: Location) -> None:
    """Link a file under a second name, or copy it if that fails; `target` is replaced."""
    if is_remote(source):
        source.fs.copy(source.path, target.path)
        return
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        try:
            os.link(source, temporary)
        except OSError:
            shutil.copyfile(source, temporary)
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def find_unfinished(folder: Location) -> list[Location]:
    """Return the unfinished files of a process that was killed while writing."""
    if is_remote(folder) or not folder.is_dir():
        return []
    return sorted(folder.glob(".*.pt.*.tmp"))


def describe_free_space(folder: Location) -> str:
    """Describe a folder's free disk space for a message."""
    if is_remote(folder):
        return "it is remote"
    try:
        return f"{shutil.disk_usage(folder).free / 2**20:.1f} MiB are free there"
    except OSError:
        return "the folder cannot be read"
