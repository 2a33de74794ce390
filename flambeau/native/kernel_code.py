"""Machine code of kernels: found on disk by their structure, or emitted and compiled.

What is found needs no LLVM IR. A key has in it all that code depends on: structure, processor, and
the sources of what emits it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from functools import lru_cache

from . import cache
from .loops import Kernel
from .target import host, load_code, object_code, on_threads, outside, versions

_FOLDERS = ("emit", "math")
_FILES = ("loops.py", "scratch.py", "structure.py", "target.py", "kernel_code.py")


@lru_cache(maxsize=1)
def sources() -> str | None:
    """A hash of the files that decide what code a kernel becomes; None where they are not there."""
    here = os.path.dirname(os.path.abspath(__file__))
    found = hashlib.sha256()
    try:
        paths = [os.path.join(here, name) for name in _FILES]
        for folder in _FOLDERS:
            names = sorted(os.listdir(os.path.join(here, folder)))
            paths += [os.path.join(here, folder, name) for name in names if name.endswith(".py")]
        for path in paths:
            with open(path, "rb") as file:
                data = file.read()
            found.update(b"%d " % len(data) + data)
    except OSError:
        return None
    return found.hexdigest()


def addresses(kernels: Mapping[str, Kernel], threads: int = 1) -> dict[str, int]:
    """The addresses of functions by name, on so many threads. A name stands for a structure.

    Raises VerifyError for a kernel that is not legal.
    """
    target, version = host(), sources()
    keys = {name: cache.key("kernel", versions(), target.triple, target.cpu, target.features,
                            version or "", name) for name in kernels}  # fmt: skip
    found: dict[str, tuple[list[str], bytes]] = {}
    for name, key in keys.items():
        entry = None if version is None else cache.get(key)
        if entry is not None:
            found[name] = _unpacked(entry)

    def make(name: str) -> None:
        found[name] = needs, code = _made(kernels[name], name)
        if version is not None:
            cache.put(keys[name], _packed(needs, code))

    on_threads(make, [name for name in kernels if name not in found], threads)
    return {name: load_code(keys[name], found[name][1], found[name][0], name) for name in kernels}


def _made(kernel: Kernel, name: str) -> tuple[list[str], bytes]:
    """A kernel's object file, and the functions from elsewhere that it calls."""
    from .emit.kernel import emit
    from .verify import verify

    verify(kernel)
    text = emit(kernel, name=name)
    return outside(text), object_code(text)


def _packed(needs: list[str], code: bytes) -> bytes:
    return " ".join(needs).encode() + b"\n" + code


def _unpacked(entry: bytes) -> tuple[list[str], bytes]:
    needs, _, code = entry.partition(b"\n")
    return needs.decode().split(), code
