"""Memory of this process: resident, peak and available bytes."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_CGROUP = Path("/sys/fs/cgroup")  # holds a container's limit, which psutil ignores


def import_psutil(feature: str) -> Any:
    """Import psutil for the feature `feature`. Raises ImportError that says what to install."""
    try:
        import psutil
    except ImportError as error:
        error.add_note(f"{feature} needs psutil: pip install 'flambeau[memory]'")
        raise
    return psutil


def read_resident_bytes() -> int:
    """Return the physical memory that this process uses."""
    return int(import_psutil("memory").Process().memory_info().rss)


def read_peak_bytes() -> int:
    """Return the peak physical memory since the process began, as counted by the system."""
    if sys.platform == "win32":
        return int(import_psutil("memory").Process().memory_info().peak_wset)
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def read_available_bytes() -> int:
    """Return how much this process can allocate before the machine swaps or the container's limit
    kills it."""
    available = int(import_psutil("memory").virtual_memory().available)
    try:
        limit = int((_CGROUP / "memory.max").read_text())
        used = int((_CGROUP / "memory.current").read_text())
    except (OSError, ValueError):  # no container, or no limit ("max")
        return available
    return max(min(available, limit - used), 0)


class PeakMemory:
    """Measure the process's peak memory in bytes, `peak`, between `start` and `stop`.

    Exact if it is also the peak since the process began. Otherwise a thread samples every
    `interval_s` seconds, at 15 microseconds per sample.
    """

    def __init__(self, interval_s: float = 0.002) -> None:
        import_psutil("PeakMemory")
        self.interval_s = interval_s
        self.peak = self._highest_before = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> Self:
        """Start sampling."""
        self.peak, self._highest_before = read_resident_bytes(), read_peak_bytes()
        self._stop.clear()
        self._thread = threading.Thread(target=self._sample, name="flambeau memory", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> int:
        """Stop sampling and return the peak."""
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None
            highest = read_peak_bytes()
            if highest > self._highest_before:
                self.peak = max(self.peak, highest)
        return self.look()

    def look(self) -> int:
        """Sample once and return the peak so far."""
        self.peak = max(self.peak, read_resident_bytes())
        return self.peak

    def _sample(self) -> None:
        while not self._stop.wait(self.interval_s):
            self.look()

    __enter__ = start

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
