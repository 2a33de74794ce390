"""Load balance of equal work items among threads."""

from __future__ import annotations

TYPICAL_THREADS = 4  # threads, for which kernels are cut as they are for two


def utilization(count: int, threads: int) -> float:
    """Return the fraction of time that threads are busy with `count` equal work items."""
    return count / (-(-count // threads) * threads) if count else 1.0


def count_shares(threads: int) -> int:
    """Return into how many shares to split a sum: the same for all small numbers of threads, so
    that its result does not depend on their number."""
    return max(threads, TYPICAL_THREADS)
