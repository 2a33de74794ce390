"""Load balance of equal work items among threads."""

from __future__ import annotations

TYPICAL_THREADS = 4  # threads, for which kernels are cut as they are for two


def utilization(count: int, threads: int) -> float:
    """Return the fraction of time that threads are busy with `count` equal work items."""
    return count / (-(-count // threads) * threads) if count else 1.0
