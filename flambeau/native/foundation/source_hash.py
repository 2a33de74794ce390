"""Hashes of the package's source files, for the keys of cached machine code."""

from __future__ import annotations

import hashlib
import os
from functools import cache

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@cache
def hash_sources(*paths: str) -> str | None:
    """Return SHA-256 over files and whole folders of the package; None if one is unreadable.

    `paths` are relative to the package, with "/" between folders: "native/codegen", "tensor".
    """
    digest = hashlib.sha256()
    try:
        for path in paths:
            for file in _list_python_files(os.path.join(PACKAGE, *path.split("/"))):
                with open(file, "rb") as stream:
                    source = stream.read()
                digest.update(b"%d " % len(source) + source)
    except OSError:
        return None
    return digest.hexdigest()


def _list_python_files(path: str) -> list[str]:
    if path.endswith(".py"):
        return [path]
    files = []
    for folder, below, names in os.walk(path, onerror=_raise):
        below.sort()
        files += [os.path.join(folder, name) for name in sorted(names) if name.endswith(".py")]
    return files


def _raise(error: OSError) -> None:
    raise error
