"""Free ports, and stores that launchers create on them."""

from __future__ import annotations

import datetime
from contextlib import closing
from typing import Any

from ...stores import TCPStore
from .api import get_socket_with_port
from .store import barrier

__all__ = ["create_c10d_store", "get_free_port", "get_socket_with_port"]


def get_free_port() -> int:
    """Return an unused port of this machine, which others may take meanwhile."""
    with closing(get_socket_with_port()) as listener:
        port: int = listener.getsockname()[1]
        return port


def create_c10d_store(
    is_server: bool, server_addr: str, server_port: int = -1, world_size: int = 1,
    timeout: float = 600, wait_for_workers: bool = True, retries: int = 3,
    use_libuv: bool | None = None,
) -> Any:
    """Return a TCPStore; without a port, on a free one, which is tried `retries` times."""
    if server_port == -1 and world_size > 1:
        raise ValueError(
            "server_port must be specified when world_size > 1, got "
            f"server_port={server_port}, world_size={world_size}")
    attempts = retries if server_port == -1 else 1
    for attempt in range(attempts):
        port = get_free_port() if server_port == -1 else server_port
        try:
            store = TCPStore(server_addr, port, world_size, is_server,
                             datetime.timedelta(seconds=timeout), wait_for_workers)
        except RuntimeError:
            if attempt == attempts - 1:
                raise
            continue
        if wait_for_workers:
            barrier(store, world_size, "_tcp_store/num_members", timeout)
        return store
    raise AssertionError("unreachable")
