"""LLVM's name and features of this CPU.

Cached on disk under the operating system's description of the CPU, because asking LLVM means
loading it, which takes longer than starting a program with cached machine code.
"""

from __future__ import annotations

import sys

from ..foundation import disk_cache

_CPUINFO = "/proc/cpuinfo"
# Lines that identify the processor model: x86's, then Arm's.
_IDENTITY_FIELDS = (
    "vendor_id", "cpu family", "model", "stepping", "microcode", "flags",
    "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features",
)


def describe_cpu(version: str) -> tuple[str, str, list[str]]:
    """Return this machine's triple, CPU name and signed features for a version of LLVM."""
    identity = _read_identity()
    key = None
    if identity is not None:
        key = disk_cache.make_key("processor", version, sys.platform, *identity)
    entry = None if key is None else disk_cache.get(key)
    if entry is not None:
        triple, name, features = entry.decode().split("\n")
        return triple, name, features.split(",")
    triple, name, features = _query_llvm()
    if key is not None:
        disk_cache.store(key, "\n".join((triple, name, features)).encode())
    return triple, name, features.split(",")


def _query_llvm() -> tuple[str, str, str]:
    import llvmlite.binding as llvm

    return (llvm.get_process_triple(), llvm.get_host_cpu_name(),
            llvm.get_host_cpu_features().flatten())


def _read_identity() -> list[str] | None:
    """Return the operating system's description of the first CPU; None if it names no model."""
    if sys.platform != "linux":
        return None
    identity = []
    try:
        with open(_CPUINFO, encoding="utf-8", errors="replace") as file:
            for line in file:
                if not line.strip():
                    break
                if line.split(":")[0].strip().startswith(_IDENTITY_FIELDS):
                    identity.append(line)
    except OSError:
        return None
    return identity if any(line.startswith(("flags", "Features")) for line in identity) else None
