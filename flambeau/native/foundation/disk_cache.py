"""The disk cache for machine code: checksummed entries by key, bounded in total size.

FLAMBEAU_CACHE_DIR names the folder and FLAMBEAU_CACHE_SIZE its limit in megabytes (512; 0 turns
the cache off). Lookups and stores never raise: an entry that cannot be read is a miss.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import time

from .environment import CACHE_DIR, CACHE_SIZE

_MAGIC = b"flambeau code 1\n"
_SUFFIX = ".code"
_TEMPORARY = ".part"
# age after which a temporary file counts as abandoned, and a use is recorded again
_STALE_AFTER_S = 3600.0
_written: dict[str, int] = {}  # bytes this process wrote since it last measured the size


def directory() -> str | None:
    """Return the folder of entries, or None if there is none."""
    chosen = CACHE_DIR.value()
    if chosen:
        return chosen
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        return None
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Caches", "flambeau")
    if os.name == "nt":
        local = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
        return os.path.join(local, "flambeau", "cache")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    return os.path.join(base, "flambeau")


def limit_bytes() -> int:
    """Return the limit on the total size of all entries, in bytes."""
    return int(min(CACHE_SIZE.value(), 2.0**40) * 2**20)


def make_key(*parts: str) -> str:
    """Return a key (SHA-256) of everything that an entry depends on."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(f"{len(data)} ".encode())
        digest.update(data)
    return digest.hexdigest()


def get(key: str) -> bytes | None:
    """Return the entry of a key; None if it is missing or damaged."""
    folder = directory()
    if folder is None or limit_bytes() <= 0:
        return None
    path = os.path.join(folder, key + _SUFFIX)
    try:
        with open(path, "rb", opener=_open_without_blocking) as file:
            status = os.fstat(file.fileno())
            if not _is_trusted(status):
                return None
            data = file.read()
    except OSError:
        return None
    if time.time() - status.st_mtime > _STALE_AFTER_S:
        try:
            os.utime(path)  # pruning removes the least recently used first
        except OSError:
            pass  # a read-only folder
    body = data[len(_MAGIC) + 32 :]
    if data[: len(_MAGIC) + 32] != _MAGIC + _compute_checksum(key, body):
        return None
    return body


def store(key: str, code: bytes) -> None:
    """Store an entry. Other processes see all of it or nothing."""
    folder, limit = directory(), limit_bytes()
    if folder is None or len(code) > limit // 4:
        return
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if os.stat(folder).st_mode & stat.S_IWOTH:
            return  # anyone could swap entries for others
        name = os.path.join(folder, os.urandom(16).hex() + _TEMPORARY)
        try:
            with open(name, "xb", opener=_open_private) as file:
                file.write(_MAGIC + _compute_checksum(key, code) + code)
            os.replace(name, os.path.join(folder, key + _SUFFIX))
        except BaseException:
            _remove(name)
            raise
    except OSError:
        return
    before = _written.get(folder)
    _written[folder] = (before or 0) + len(code)
    if before is None or _written[folder] > limit // 16:
        _prune(folder, limit)
        _written[folder] = 0


def _open_private(path: str, flags: int) -> int:
    """Open a file that only this user can read and write."""
    return os.open(path, flags, 0o600)


def _compute_checksum(key: str, body: bytes) -> bytes:
    """Hash the entry with its key, so that a file renamed to another key is rejected."""
    return hashlib.sha256(key.encode() + body).digest()


def _open_without_blocking(path: str, flags: int) -> int:
    """Open for reading without blocking if the path is a FIFO."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _is_trusted(status: os.stat_result) -> bool:
    """Whether an entry is safe to run: a regular file of this user or root, not writable by others.
    """
    if not stat.S_ISREG(status.st_mode):
        return False
    if not hasattr(os, "geteuid"):
        return True
    writable_by_others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return status.st_uid in (os.geteuid(), 0) and not writable_by_others


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # another process deleted it first, or it is not ours to delete


def size_bytes() -> int:
    """The total size of all entries."""
    return sum(size for _, size, _ in _list_entries(directory() or ""))


def clear() -> int:
    """Delete every entry; return the number of bytes freed."""
    freed = 0
    for _, size, path in _list_entries(directory() or ""):
        _remove(path)
        freed += size
    return freed


def _list_entries(folder: str) -> list[tuple[float, int, str]]:
    """Return (last use, bytes, path) of every entry. Delete stale temporary files."""
    entries = []
    now = time.time()
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    for name in names:
        path = os.path.join(folder, name)
        try:
            status = os.lstat(path)
        except OSError:
            continue  # another process deleted it
        if name.endswith(_SUFFIX):
            entries.append((status.st_mtime, status.st_size, path))
        elif name.endswith(_TEMPORARY) and now - status.st_mtime > _STALE_AFTER_S:
            _remove(path)
    return entries


def _prune(folder: str, limit_bytes: int) -> None:
    """Delete the least recently used entries until three quarters of the limit are in use."""
    entries = _list_entries(folder)
    total = sum(size for _, size, _ in entries)
    if total <= limit_bytes:
        return
    for _, size, path in sorted(entries):
        _remove(path)
        total -= size
        if total <= limit_bytes * 3 // 4:
            return
