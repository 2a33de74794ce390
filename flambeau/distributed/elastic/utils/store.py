"""What launchers agree on through a store: values of all, and barriers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from ... import errors

__all__ = ["barrier", "get_all", "store_timeout", "synchronize"]


@contextmanager
def store_timeout(store: Any, timeout: float) -> Iterator[None]:
    """Set a store's timeout in seconds for a while."""
    before = store.timeout
    store.set_timeout(timedelta(seconds=timeout))
    yield
    store.set_timeout(before)


def get_all(store: Any, rank: int, prefix: str, world_size: int) -> list[bytes]:
    """Return the values of keys `prefix0`, `prefix1`, ...; rank 0 waits until all have read them,
    as it often runs the store."""
    values: list[bytes] = store.multi_get([f"{prefix}{i}" for i in range(world_size)])
    last = _arrive(store, world_size, f"{prefix}/finished")
    if rank == 0:
        store.wait([last])
    return values


def synchronize(
    store: Any, data: bytes, rank: int, world_size: int, key_prefix: str, timeout: float = 300
) -> list[bytes]:
    """Exchange each rank's data with all, under a prefix that is used once."""
    with store_timeout(store, timeout):
        store.set(f"{key_prefix}{rank}", data)
        return get_all(store, rank, key_prefix, world_size)


def _arrive(store: Any, world_size: int, key_prefix: str) -> str:
    """Count this rank; return the key that the last one to arrive sets."""
    last = f"{key_prefix}/last_member"
    if store.add(f"{key_prefix}/num_members", 1) == world_size:
        store.set(last, "<val_ignored>")
    return last


def barrier(
    store: Any, world_size: int, key_prefix: str, barrier_timeout: float = 300,
    rank: int | None = None, rank_tracing_decoder: Callable[[int], str] | None = None,
    trace_timeout: float = 10,
) -> None:
    """Wait until `world_size` ranks have called this with a prefix, which is used once.

    With `rank`, the error of a timeout names missing ranks.
    """
    if rank is None and rank_tracing_decoder is not None:
        raise AssertionError("Tracing requires rank information")
    with store_timeout(store, barrier_timeout):
        last = _arrive(store, world_size, key_prefix)
        try:
            store.wait([last])
        except errors.DistStoreError:
            if rank is None:
                raise
            missing = _find_missing(store, world_size, key_prefix, rank,
                                    rank_tracing_decoder or str, trace_timeout)
            if missing is None:
                raise
            raise errors.DistStoreError(
                f"Timed out waiting on barrier on rank {rank}, for key prefix: {key_prefix} "
                f"(world_size={world_size}, missing_ranks=[{', '.join(missing)}], "
                f"timeout={barrier_timeout})") from None


def _find_missing(
    store: Any, world_size: int, key_prefix: str, rank: int, decode: Callable[[int], str],
    timeout_s: float,
) -> list[str] | None:
    """Rank 0 looks for ranks that have not arrived; others refer to it, or know nothing."""
    store.set(f"{key_prefix}{rank}/TRACE", "<val_ignored>")
    gate = f"{key_prefix}/TRACING_GATE"
    if rank != 0:
        try:
            store.wait([gate])
        except errors.DistStoreError:
            return None
        return [f"[<check rank 0 ({decode(0)}) for missing rank info>]"]
    missing: list[str] = []
    for other in range(1, world_size):
        if len(missing) >= 16:
            break
        wait = timedelta(milliseconds=1) if missing else timedelta(seconds=timeout_s)
        try:
            store.wait([f"{key_prefix}{other}/TRACE"], wait)
        except errors.DistStoreError:
            missing.append(decode(other))
    store.set(gate, "<val_ignored>")
    return missing
