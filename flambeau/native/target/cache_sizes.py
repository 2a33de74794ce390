"""Cache sizes of this machine, as the operating system reports them."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

LINE_BYTES = 64  # per cache line, on every supported processor
PAGE_BYTES = 4096  # of the smallest memory page
MIN_L2_BYTES, DEFAULT_L2_BYTES, MAX_L2_BYTES = 256 << 10, 1 << 20, 2 << 20  # bytes
DEFAULT_L1D_BYTES = 32 << 10
DEFAULT_LLC_BYTES = 32 << 20
_FOLDER = "/sys/devices/system/cpu/cpu0/cache"
_UNITS = {"K": 1 << 10, "M": 1 << 20}


def detect_l1d_bytes() -> int:
    """Return the bytes of a core's L1 data cache; DEFAULT_L1D_BYTES if unknown."""
    if sys.platform.startswith("linux"):
        return _read_sysfs(Path(_FOLDER)).get(1, DEFAULT_L1D_BYTES)
    return DEFAULT_L1D_BYTES


def detect_l2_bytes() -> int:
    """Return the bytes of a core's L2 cache, rounded down to a power of two and clamped to
    MIN_L2_BYTES and MAX_L2_BYTES; DEFAULT_L2_BYTES if unknown.
    """
    if sys.platform.startswith("linux"):
        size_bytes = _read_sysfs(Path(_FOLDER)).get(2, 0)
    elif sys.platform == "darwin":
        size_bytes = _read_sysctl("hw.perflevel0.l2cachesize") or _read_sysctl("hw.l2cachesize")
    else:
        size_bytes = 0
    return round_down_l2(size_bytes) if size_bytes > 0 else DEFAULT_L2_BYTES


def detect_llc_bytes() -> int:
    """Return the bytes of the shared last-level cache; DEFAULT_LLC_BYTES if unknown."""
    if sys.platform.startswith("linux"):
        return _read_sysfs(Path(_FOLDER)).get(3, DEFAULT_LLC_BYTES)
    return DEFAULT_LLC_BYTES


def round_down_l2(size: int) -> int:
    """Round a size down to a power of two, within MIN_L2_BYTES and MAX_L2_BYTES."""
    return max(MIN_L2_BYTES, min(MAX_L2_BYTES, 1 << (size.bit_length() - 1)))


def _read_sysfs(folder: Path) -> dict[int, int]:
    """Return the first core's data cache sizes in bytes, by level, from Linux's sysfs."""
    sizes = {}
    for entry in sorted(folder.glob("index*")):
        try:
            if (entry / "type").read_text().strip() != "Instruction":
                size = (entry / "size").read_text().strip()
                level = int((entry / "level").read_text())
                sizes[level] = int(size.rstrip("KM")) * _UNITS.get(size[-1:], 1)
        except (OSError, ValueError):
            continue
    return sizes


def _read_sysctl(name: str) -> int:
    """Return an integer from macOS's sysctl; 0 if the name is unknown."""
    value, size = ctypes.c_int64(0), ctypes.c_size_t(8)
    library = ctypes.CDLL(None)
    if library.sysctlbyname(name.encode(), ctypes.byref(value), ctypes.byref(size), None, 0):
        return 0
    return value.value
