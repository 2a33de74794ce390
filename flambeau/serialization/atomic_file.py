"""Write files atomically: they appear under their name only when complete."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def open_replacement(path: Path) -> Iterator[IO[bytes]]:
    """Context of a new file that replaces `path` at the end, unless an error is raised.

    Follows links and keeps permissions. Anything but a regular file (a pipe, /dev/null), and a file
    in a directory without write permission, is written directly. Raises RuntimeError for a missing
    directory.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise RuntimeError(f"Parent directory {path.parent} does not exist.")
    mode = target.stat().st_mode if target.exists() else None
    if mode is not None and not stat.S_ISREG(mode):
        with open(target, "wb") as file:
            yield file
        return
    temporary = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}.tmp")
    try:
        file = open(temporary, "xb")  # noqa: SIM115 (closed below, before it is moved)
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
            os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_directory(target.parent)


def _sync_directory(directory: Path) -> None:
    # Makes the new name survive a power loss. Windows cannot open directories.
    if os.name != "posix":
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:
        pass  # some network file systems refuse; the file itself is already safe
    finally:
        os.close(handle)
