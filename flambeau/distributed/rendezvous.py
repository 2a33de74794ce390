"""Rendezvous: an address (env://, tcp://, file://) determines store, rank and world size."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qs, urlsplit

from .errors import DistStoreError
from .stores import FileStore, HashStore, PrefixStore, Store, TCPStore

__all__ = ["register_rendezvous_handler", "rendezvous"]


_CAME = "came"  # prefix of the store keys of ranks that have arrived


class Meeting(NamedTuple):
    """What a process needs to know of the others before it can communicate."""

    store: Store
    rank: int
    world_size: int


_handlers: dict[str, Callable[..., Iterator[tuple[Store, int, int]]]] = {}


def register_rendezvous_handler(
    scheme: str, handler: Callable[..., Iterator[tuple[Store, int, int]]]
) -> None:
    """Register a custom address scheme. Raises RuntimeError if it exists already."""
    if scheme in _handlers or scheme in ("env", "tcp", "file"):
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def rendezvous(
    url: str, rank: int = -1, world_size: int = -1, timeout: timedelta = timedelta(minutes=30),
    **options: Any,
) -> Iterator[tuple[Store, int, int]]:
    """Yield (store, rank, world_size) for an address, as torch.distributed.rendezvous does."""
    if not isinstance(url, (str, bytes)):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    parts = urlsplit(str(url))
    if parts.scheme in _handlers:
        yield from _handlers[parts.scheme](str(url), rank=rank, world_size=world_size, **options)
        return
    yield meet(str(url), rank, world_size, timeout)


def meet(url: str, rank: int, world_size: int, timeout: timedelta) -> Meeting:
    """Return store, rank and world size from an address and the arguments."""
    parts = urlsplit(url)
    if parts.scheme in _handlers:
        return Meeting(*next(iter(rendezvous(url, rank, world_size))))
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    rank = rank if rank >= 0 else int(options.get("rank", -1))
    world_size = world_size if world_size >= 0 else int(options.get("world_size", -1))
    if parts.scheme == "env":
        return _read_addresses(rank, world_size, timeout)
    if parts.scheme not in ("tcp", "file"):
        raise RuntimeError(f"No rendezvous handler for {parts.scheme}://")
    if parts.scheme == "tcp" and not parts.port:
        raise ValueError("Error initializing torch.distributed using tcp:// rendezvous: "
                         "port number missing")
    for name, value in (("rank", rank), ("world size", world_size)):
        if value < 0:
            raise ValueError(f"Error initializing torch.distributed using {parts.scheme}:// "
                             f"rendezvous: {name} parameter missing")
    if parts.scheme == "tcp":
        store = _open_tcp_store(parts.hostname or "", parts.port or 0, rank, world_size, timeout)
        return Meeting(store, rank, world_size)
    return Meeting(_open_file_store(parts, world_size), rank, world_size)


def _open_file_store(parts: SplitResult, world_size: int) -> Store:
    if not parts.path:
        raise ValueError("Error initializing torch.distributed using file:// rendezvous: "
                         "path missing")
    return FileStore(parts.path, world_size)


def read_environment(name: str) -> str:
    """Return a variable that torchrun sets. Raises ValueError, as PyTorch, if it is not set."""
    if name not in os.environ:
        raise ValueError(
            "Error initializing torch.distributed using env:// rendezvous: environment variable "
            f"{name} expected, but not set"
        )
    return os.environ[name]


def _read_addresses(rank: int, world_size: int, timeout: timedelta) -> Meeting:
    rank = rank if rank >= 0 else int(read_environment("RANK"))
    world_size = world_size if world_size >= 0 else int(read_environment("WORLD_SIZE"))
    if world_size == 1 and "MASTER_ADDR" not in os.environ:
        return Meeting(HashStore(), rank, world_size)  # a single process needs no store server
    host, port = read_environment("MASTER_ADDR"), int(read_environment("MASTER_PORT"))
    return Meeting(_open_tcp_store(host, port, rank, world_size, timeout), rank, world_size)


def _open_tcp_store(host: str, port: int, rank: int, world_size: int, timeout: timedelta) -> Store:
    """Return rank 0's store, or the one that torchrun serves, with separate keys per restart."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        store = TCPStore(host, port, world_size, False, timeout)
        return PrefixStore(f"/worker/attempt_{attempt}", store)
    store = TCPStore(host, port, world_size, rank == 0, timeout, wait_for_workers=False,
                     multi_tenant=True)
    store.set(f"{_CAME}/{rank}", b"")
    try:
        store.join(world_size)
    except DistStoreError as error:
        note_missing(error, store, [f"{_CAME}/{rank}" for rank in range(world_size)])
        raise
    return store


def note_missing(error: DistStoreError, store: Store, keys: Sequence[str]) -> None:
    """Note in an error which ranks are missing: those whose keys, in order, are not set."""
    with suppress(RuntimeError):
        missing = [str(rank) for rank, key in enumerate(keys) if not store.check([key])]
        error.add_note(f"Missing: rank {', '.join(missing)} of {len(keys)}. Look at what it "
                       "printed; RANK and WORLD_SIZE must be alike for all.")
