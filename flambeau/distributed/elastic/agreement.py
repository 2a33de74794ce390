"""Rendezvous: launchers on several machines agree on ranks and a meeting address.

One machine needs no agreement. Several share a TCPStore at the endpoint: in each round every
launcher takes a number, reports its worker count, and waits until the group is complete.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

__all__ = ["LocalRendezvous", "Place", "StoreRendezvous", "parse_endpoint"]

_LAST_CALL_S = 30.0  # wait for more machines once the minimum has joined
_POLL_S = 0.1


@dataclass(frozen=True)
class Place:
    """The launcher's position in the group of one round."""

    group_rank: int
    group_world_size: int
    first_rank: int  # of its workers
    world_size: int
    master_addr: str
    master_port: int


def free_port() -> int:
    """Return an unused TCP port."""
    with socket.socket() as listener:
        listener.bind(("", 0))
        return int(listener.getsockname()[1])


def parse_endpoint(endpoint: str, default_port: int) -> tuple[str, int]:
    """Split `host:port` or `host`. Raises ValueError for an invalid port."""
    host, separator, port = endpoint.strip().rpartition(":")
    if not separator:
        return endpoint.strip() or "localhost", default_port
    if not port.isdigit() or int(port) > 65535:
        raise ValueError(
            f"The port number of the rendezvous endpoint '{endpoint}' must be an integer between "
            "0 and 65536."
        )
    return host.strip("[]") or "localhost", int(port)


class LocalRendezvous:
    """Rendezvous on a single machine, where worker rank 0 serves the store."""

    use_agent_store = False

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port

    def join(self, round_: int, workers: int) -> Place:
        """Return the place of a round. If the user gave no port, each round picks a new one."""
        return Place(0, 1, 0, workers, self._host, self._port or free_port())

    def restart_asked(self) -> bool:
        """Return whether another launcher asked for a new round."""
        return False

    def ask_restart(self, final: bool) -> None:
        """Ask the other launchers to restart, or with `final` to give up."""

    def is_abandoned(self) -> bool:
        """Return whether another launcher gave up."""
        return False

    def leave(self) -> None:
        """Wait for the other machines' workers to finish."""


class StoreRendezvous:
    """Rendezvous of launchers on several machines at one endpoint."""

    use_agent_store = True  # workers use the launchers' store

    def __init__(
        self, host: str, port: int, run_id: str, nodes: tuple[int, int], node_rank: int | None,
        timeout_s: float,
    ) -> None:
        self._host, self._port, self._run_id = host, port, run_id
        self._least, self._most = nodes
        self._node_rank, self._timeout_s = node_rank, timeout_s
        self._serves = False  # whether the store is in this process
        self._store: Any = self._open_store()
        self._round, self._place = 0, Place(0, 1, 0, 0, host, port)

    def _open_store(self) -> Any:
        """Open the store. This machine serves it if it has rank 0 or the endpoint's address."""
        from .. import DistNetworkError, TCPStore

        timeout = timedelta(seconds=self._timeout_s)
        serves = self._node_rank == 0 if self._node_rank is not None else _is_here(self._host)
        if serves:
            try:
                store = TCPStore(self._host, self._port, is_master=True, wait_for_workers=False,
                                 timeout=timeout)
                self._serves = True
                return store
            except (DistNetworkError, OSError):
                if self._node_rank is not None:
                    raise
        return TCPStore(self._host, self._port, is_master=False, timeout=timeout)

    def _make_key(self, name: str) -> str:
        return f"torch.rendezvous.{self._run_id}/{self._round}/{name}"

    def join(self, round_: int, workers: int) -> Place:
        """Join a round and wait until the group is complete.

        Raises DistStoreError on timeout.
        """
        self._round = round_
        store = self._store
        number = store.add(self._make_key("joined"), 1) - 1
        rank = number if self._node_rank is None else self._node_rank
        store.set(self._make_key(f"node/{rank}"), str(workers))
        if rank == 0:
            self._close_round()
        store.wait([self._make_key("closed")], timedelta(seconds=self._timeout_s))
        count = int(store.get(self._make_key("closed")))
        if rank >= count:
            raise RuntimeError(f"the group of {count} machines was complete before this one came")
        sizes = [int(store.get(self._make_key(f"node/{i}"))) for i in range(count)]
        before, total = sum(sizes[:rank]), sum(sizes)
        self._place = Place(rank, count, before, total, self._host, self._port)
        return self._place

    def _close_round(self) -> None:
        """Close the round once the group is complete (rank 0 only)."""
        last_call = None
        end = time.monotonic() + self._timeout_s
        while (count := int(self._store.add(self._make_key("joined"), 0))) < self._most:
            now = time.monotonic()
            if count >= self._least:
                last_call = last_call or now + _LAST_CALL_S
                if now > last_call:
                    break
            if now > end:
                break
            time.sleep(_POLL_S)
        if count >= self._least:
            self._store.set(self._make_key("closed"), str(min(count, self._most)))

    def restart_asked(self) -> bool:
        """Return whether another launcher asked for a new round."""
        return bool(self._store.check([self._make_key("restart")]))

    def ask_restart(self, final: bool) -> None:
        """Ask the other launchers to restart, or with `final` to give up."""
        self._store.set(self._make_key("final" if final else "restart"), "1")

    def is_abandoned(self) -> bool:
        """Return whether another launcher gave up."""
        return bool(self._store.check([self._make_key("final")]))

    def leave(self) -> None:
        """Report completion. The machine that serves the store waits for the others."""
        place = self._place
        done = self._store.add(self._make_key("done"), 1)
        end = time.monotonic() + self._timeout_s
        while self._serves and done < place.group_world_size and time.monotonic() < end:
            if self.is_abandoned():
                return
            time.sleep(_POLL_S)
            done = self._store.add(self._make_key("done"), 0)


def _is_here(host: str) -> bool:
    """Return whether a host name or address belongs to this machine."""
    if host in ("localhost", "127.0.0.1", "::1", socket.gethostname(), socket.getfqdn()):
        return True
    try:
        addresses = {info[4][0] for info in socket.getaddrinfo(host, None)}
        local_addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)}
    except OSError:
        return False
    return not addresses.isdisjoint(local_addresses) or os.uname().nodename == host
