"""How evenly threads can share work that is cut into pieces of one size, and for how many it is."""

from __future__ import annotations

TYPICAL_THREADS = 4  # threads, for which kernels are cut as they are for two


def utilization(count: int, threads: int) -> float:
    """The share of the time that threads are at work which have so many equal pieces to share."""
    return count / (-(-count // threads) * threads) if count else 1.0
