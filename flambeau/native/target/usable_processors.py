"""How many cores this process may keep busy, given its affinity and its container's quota."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator


def count_usable_processors(root: str = "/") -> int:
    """Return the number of cores, at least 1.

    Hardware threads of a core share its multipliers, so a core counts once. `root` is the root of
    the system's files, for tests.
    """
    try:
        count = _count_cores(os.sched_getaffinity(0), root)
    except AttributeError:
        count = os.cpu_count() or 1
    return max(1, min([count, *_iterate_cgroup_quotas(root)]))


def _count_cores(processors: Iterable[int], root: str) -> int:
    """Return how many cores these processors belong to."""
    siblings = set()
    for processor in processors:
        path = f"{root}sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list"
        siblings.add(_read(path) or str(processor))
    return len(siblings)


def _iterate_cgroup_quotas(root: str) -> Iterator[int]:
    """Yield the CPU quotas, in processors, of this process's control groups."""
    top = f"{root}sys/fs/cgroup"
    groups = [line.split(":", 2) for line in _read(f"{root}proc/self/cgroup").splitlines()]
    path = next((group for _, kind, group in groups if not kind), "/").rstrip("/")
    while True:
        yield from _parse_quota(_read(f"{top}{path}/cpu.max").split())
        if "/" not in path:
            break
        path = path.rpartition("/")[0]
    old = f"{top}/cpu/cpu.cfs_"
    yield from _parse_quota([_read(f"{old}quota_us"), _read(f"{old}period_us")])


def _parse_quota(words: list[str]) -> Iterator[int]:
    """Yield quota / period rounded up; nothing if there is no limit ("max" or -1)."""
    if len(words) == 2 and all(word.isdecimal() for word in words) and int(words[1]):
        yield -(-int(words[0]) // int(words[1]))


def _read(path: str) -> str:
    """Return the contents of a small file, or "" if it cannot be read."""
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""
