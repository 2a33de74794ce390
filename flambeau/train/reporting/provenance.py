"""The provenance of results: the version of the code, and the machine."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from ..._namespace.settings import get_num_threads

LONGEST = 20_000_000  # bytes of a diff to keep
_SETTINGS = ("FLAMBEAU_", "OMP_", "MKL_", "OPENBLAS_", "PYTHONHASHSEED")


def describe_code(folder: Path | None = None) -> tuple[dict[str, Any], bytes]:
    """Return the commit of the program's repository, and the diff of the files from it.

    `folder` is by default that of the running script. Outside a repository, or without git, the
    commit is None.
    """
    folder = _find_program() if folder is None else folder
    commit = _run_git(folder, "rev-parse", "HEAD")
    if commit is None:
        return {"commit": None}, b""
    branch = _run_git(folder, "rev-parse", "--abbrev-ref", "HEAD") or b""
    status = _run_git(folder, "status", "--porcelain", "--untracked-files=normal") or b""
    difference = _run_git(folder, "diff", "--binary", "HEAD") or b""
    untracked = [line[3:] for line in _decode(status).splitlines() if line.startswith("??")]
    description: dict[str, Any] = {
        "commit": _decode(commit).strip(), "branch": _decode(branch).strip(),
        "changed": bool(status.strip()), "untracked": untracked[:200],
    }
    if len(difference) > LONGEST:
        description["diff_left_out"] = f"{len(difference)} bytes"
        difference = b""
    return description, difference


def _find_program() -> Path:
    """Return the folder of the running script, or the current folder."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(script).resolve().parent if script else Path.cwd()


def _run_git(folder: Path, *arguments: str) -> bytes | None:
    try:
        process = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return process.stdout if process.returncode == 0 else None


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def describe_environment() -> dict[str, Any]:
    """Return Python, system, processor, installed packages and settings that affect results."""
    packages = {
        str(distribution.metadata["Name"]): distribution.version
        for distribution in metadata.distributions()
        if distribution.metadata["Name"]
    }
    return {
        "python": sys.version, "executable": sys.executable, "platform": platform.platform(),
        "host": platform.node(), "processor": read_processor_name(), "cores": os.cpu_count(),
        "memory_gib": describe_memory(),
        "settings": {key: value for key, value in sorted(os.environ.items())
                     if key.startswith(_SETTINGS)},
        "packages": dict(sorted(packages.items(), key=lambda item: item[0].lower())),
    }


def describe_rounding() -> dict[str, Any]:
    """Return the factors other than the program that affect the last bits of results."""
    return {"numpy": np.__version__, "processor": read_processor_name(),
            "threads": get_num_threads()}


@functools.cache
def read_processor_name() -> str:
    """Return the system's name for the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def describe_memory() -> float | None:
    """Return the machine's memory in GiB, or None if unknown."""
    try:
        pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
    return round(pages * size / 2**30, 1)
