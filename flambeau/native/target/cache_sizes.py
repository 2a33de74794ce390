"""How much memory is near a core, and near all of them: the sizes of the second-level and of the
last cache, as the system tells them."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

LINE_BYTES = 64  # of one cache line, on every processor so far
LEAST, USUAL, MOST = 256 << 10, 1 << 20, 2 << 20  # bytes
USUAL_LAST = 32 << 20
_FOLDER = "/sys/devices/system/cpu/cpu0/cache"
_UNITS = {"K": 1 << 10, "M": 1 << 20}


def second_level() -> int:
    """Bytes that a core may count on: a power of two from LEAST to MOST, USUAL if unknown."""
    if sys.platform.startswith("linux"):
        found = _linux(Path(_FOLDER)).get(2, 0)
    elif sys.platform == "darwin":
        found = _darwin("hw.perflevel0.l2cachesize") or _darwin("hw.l2cachesize")
    else:
        found = 0
    return rounded(found) if found > 0 else USUAL


def last_level() -> int:
    """Bytes of the last cache, which cores share; USUAL_LAST where it is not known."""
    if sys.platform.startswith("linux"):
        return _linux(Path(_FOLDER)).get(3, USUAL_LAST)
    return USUAL_LAST


def rounded(size: int) -> int:
    """The power of two at or below a size, within LEAST and MOST."""
    return max(LEAST, min(MOST, 1 << (size.bit_length() - 1)))


def _linux(folder: Path) -> dict[int, int]:
    """What the kernel says of the first core's caches for data: bytes by level."""
    found = {}
    for one in sorted(folder.glob("index*")):
        try:
            if (one / "type").read_text().strip() != "Instruction":
                size = (one / "size").read_text().strip()
                level = int((one / "level").read_text())
                found[level] = int(size.rstrip("KM")) * _UNITS.get(size[-1:], 1)
        except (OSError, ValueError):
            continue
    return found


def _darwin(name: str) -> int:
    """A number that sysctl knows by name; 0 where it does not."""
    value, size = ctypes.c_int64(0), ctypes.c_size_t(8)
    library = ctypes.CDLL(None)
    if library.sysctlbyname(name.encode(), ctypes.byref(value), ctypes.byref(size), None, 0):
        return 0
    return value.value
