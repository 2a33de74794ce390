"""Machine code on disk: entries under a key, each with a checksum, of a bounded size in all.

FLAMBEAU_CACHE_DIR says where, FLAMBEAU_CACHE_SIZE how many megabytes at most (512; 0: nothing is
kept). Nothing here raises: what cannot be read or written is made again.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time

from .environment import CACHE_DIR, CACHE_SIZE

_MAGIC = b"flambeau code 1\n"
_SUFFIX = ".code"
_TEMPORARY = ".part"
_STALE = 3600.0  # seconds after which a temporary file is a dead process's, or a use worth noting
_written: dict[str, int] = {}  # bytes written by this process since it last looked at the size


def directory() -> str | None:
    """Where entries are kept, or None where there is no such place."""
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


def limit() -> int:
    """The most bytes that all entries may take."""
    return int(min(CACHE_SIZE.value(), 2.0**40) * 2**20)


def key(*parts: str) -> str:
    """A key made of everything that an entry depends on."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(f"{len(data)} ".encode())
        digest.update(data)
    return digest.hexdigest()


def get(key: str) -> bytes | None:
    """The entry of a key; None where there is none, or only a damaged one."""
    folder = directory()
    if folder is None or limit() <= 0:
        return None
    path = os.path.join(folder, key + _SUFFIX)
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not _trusted(status):
                return None
            data = file.read()
    except OSError:
        return None
    if time.time() - status.st_mtime > _STALE:
        try:
            os.utime(path)  # the least recently used goes first
        except OSError:
            pass  # a folder that may only be read
    body = data[len(_MAGIC) + 32 :]
    if data[: len(_MAGIC) + 32] != _MAGIC + _checksum(key, body):
        return None
    return body


def put(key: str, code: bytes) -> None:
    """Keeps an entry. Other processes see it whole or not at all."""
    folder, most = directory(), limit()
    if folder is None or len(code) > most // 4:
        return
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        name = os.path.join(folder, os.urandom(16).hex() + _TEMPORARY)
        try:
            with open(name, "xb", opener=_private) as file:
                file.write(_MAGIC + _checksum(key, code) + code)
            os.replace(name, os.path.join(folder, key + _SUFFIX))
        except BaseException:
            _remove(name)
            raise
    except OSError:
        return
    before = _written.get(folder)
    _written[folder] = (before or 0) + len(code)
    if before is None or _written[folder] > most // 16:
        _prune(folder, most)
        _written[folder] = 0


def _private(path: str, flags: int) -> int:
    """Opens a file that nobody else may write."""
    return os.open(path, flags, 0o600)


def _checksum(key: str, body: bytes) -> bytes:
    """Of the key too, lest a file be renamed into another's place."""
    return hashlib.sha256(key.encode() + body).digest()


def _trusted(status: os.stat_result) -> bool:
    """Whether an entry is the user's own, or the administrator's: it is code, and will be run."""
    return not hasattr(os, "geteuid") or status.st_uid in (os.geteuid(), 0)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass  # another process was quicker


def _prune(folder: str, most: int) -> None:
    """Removes the least recently used entries until the rest is well below the limit."""
    entries = []
    now = time.time()
    try:
        with os.scandir(folder) as found:
            for item in found:
                status = item.stat()
                if item.name.endswith(_SUFFIX):
                    entries.append((status.st_mtime, status.st_size, item.path))
                elif item.name.endswith(_TEMPORARY) and now - status.st_mtime > _STALE:
                    _remove(item.path)
        total = sum(size for _, size, _ in entries)
        if total <= most:
            return
        for _, size, path in sorted(entries):
            _remove(path)
            total -= size
            if total <= most * 3 // 4:
                return
    except OSError:
        return  # another process does the same at this moment
