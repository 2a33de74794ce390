"""TCPStore: a key-value store that one process serves over TCP."""

from __future__ import annotations

import itertools
import socket
import threading
import time
import weakref
from collections.abc import Sequence
from datetime import timedelta

from ..errors import DistNetworkError, DistStoreError, QueueEmptyError
from .store import DEFAULT_TIMEOUT, Store, compute_deadline_s, encode
from .tcp_frames import Frame, Request, Status, receive_frame
from .tcp_server import TCPServer, listen

_RETRY_S = 0.05
_INIT_KEY = "init/"
# Servers that several stores of this process may share, by port.
_shared_servers: weakref.WeakValueDictionary[int, TCPServer] = weakref.WeakValueDictionary()


def _count_milliseconds(timeout: timedelta) -> int:
    return timeout // timedelta(milliseconds=1)


def _connect(host: str, port: int, timeout: timedelta) -> socket.socket:
    """Connect to the server. Retry until the timeout: it may start after this process."""
    end_s = compute_deadline_s(timeout)
    while True:
        left_s = end_s - time.monotonic()
        try:
            result = socket.create_connection((host, port), timeout=max(left_s, 0.01))
            result.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return result
        except OSError as error:
            if left_s <= _RETRY_S:
                failure = DistNetworkError(
                    f"The client socket has timed out after {_count_milliseconds(timeout)}ms while "
                    f"trying to connect to ({host}, {port})."
                )
                failure.add_note(
                    f"The last attempt ended with: {error}. Rank 0 serves the store: check that it "
                    "runs, and that MASTER_ADDR and MASTER_PORT are its address and port."
                )
                raise failure from None
        time.sleep(_RETRY_S)


def _serve(port: int, multi_tenant: bool, listener_fd: int | None) -> TCPServer:
    if multi_tenant and port in _shared_servers:
        return _shared_servers[port]
    listener = listen(port) if listener_fd is None else socket.socket(fileno=listener_fd)
    result = TCPServer(listener)
    if multi_tenant:
        _shared_servers[result.port] = result
    return result


class TCPStore(Store):
    """A key-value store, served at `port` (0: a free one) by the process with `is_master=True`.

    With `world_size` and `wait_for_workers` the master waits until that many stores are connected,
    and raises DistStoreError after `timeout`. Raises DistNetworkError if the server cannot be
    reached or its port is in use. `master_listen_fd` is a listening socket to serve on.
    `multi_tenant` lets several masters in one process share a server.

    >>> store = torch.distributed.TCPStore("localhost", 0, is_master=True)
    >>> store.set("color", "green")
    >>> other = torch.distributed.TCPStore("localhost", store.port)
    >>> other.get("color")
    b'green'
    """

    def __init__(
        self, host_name: str, port: int, world_size: int | None = None, is_master: bool = False,
        timeout: timedelta = DEFAULT_TIMEOUT, wait_for_workers: bool = True,
        multi_tenant: bool = False, master_listen_fd: int | None = None, use_libuv: bool = True,
    ) -> None:
        self._timeout, self._host = timeout, host_name
        self._server = None
        if is_master:
            self._server = _serve(port, multi_tenant, master_listen_fd)
            port = self._server.port
        self.is_served_here = self._server is not None
        self._port, self._lock = port, threading.Lock()
        self._numbers, self._received = itertools.count(1), bytearray()
        self._connection = _connect(host_name, port, timeout)
        if world_size and wait_for_workers:
            self.join(world_size)

    def join(self, world_size: int) -> None:
        """Register this process; the serving process waits until `world_size` have."""
        joined = self.add(_INIT_KEY, 1)
        end_s = compute_deadline_s(self._timeout)
        while self.is_served_here and joined < world_size:
            if time.monotonic() > end_s:
                raise DistStoreError(
                    f"Timed out after {self._timeout.total_seconds() + 1:.0f} seconds waiting for "
                    f"clients. {joined}/{world_size} clients joined."
                )
            time.sleep(0.01)
            joined = self.add(_INIT_KEY, 0)

    host = property(lambda self: self._host, doc="The name by which the server is reached.")
    port = property(lambda self: self._port, doc="The server's port.")
    libuvBackend = property(lambda self: True, doc="True, as in PyTorch.")

    @property
    def local_address(self) -> str:
        """The IP address of this process on its connection to the server."""
        return str(self._connection.getsockname()[0])

    def _ask(
        self, request: Request, *fields: bytes, timeout: timedelta | None = None,
        waits_for: Sequence[str] = (),
    ) -> list[bytes]:
        """Send a request and return the fields of the reply; skip late replies to earlier requests
        that timed out."""
        with self._lock:
            number = next(self._numbers)
            limit_s = self._timeout.total_seconds() if timeout is None else timeout.total_seconds()
            end_s = time.monotonic() + limit_s
            try:
                self._connection.settimeout(max(limit_s, 0.001))
                self._connection.sendall(Frame(number, request, list(fields)).pack())
                while True:
                    reply = receive_frame(self._connection, self._received)
                    if reply is None or reply.number == number:
                        break
                    self._connection.settimeout(max(end_s - time.monotonic(), 0.001))
            except TimeoutError:
                raise DistStoreError(
                    f"wait timeout after {_count_milliseconds(timeout or self._timeout)}ms, keys: "
                    + ", ".join(f"/{key}" for key in waits_for)
                ) from None
            except OSError as error:
                raise DistNetworkError(f"{error.strerror or error}") from None
        if reply is None:
            raise DistNetworkError(
                "Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server "
                "shutdown or crash?"
            )
        if reply.code == Status.QUEUE_EMPTY:
            raise QueueEmptyError("queue is empty")
        if reply.code == Status.NOT_A_NUMBER:
            raise ValueError(f"the value of {waits_for[0] if waits_for else fields[0]!r} is not "
                             "a number")
        return reply.fields

    def set(self, key: str, value: str | bytes) -> None:
        self._ask(Request.SET, key.encode(), encode(value, "set"), waits_for=[key])

    def get(self, key: str) -> bytes:
        return self._ask(Request.GET, key.encode(), waits_for=[key])[0]

    def add(self, key: str, amount: int) -> int:
        return int(self._ask(Request.ADD, key.encode(), b"%d" % amount, waits_for=[key])[0])

    def compare_set(
        self, key: str, expected_value: str | bytes, desired_value: str | bytes
    ) -> bytes:
        return self._ask(
            Request.COMPARE_SET, key.encode(), encode(expected_value, "compare_set"),
            encode(desired_value, "compare_set"), waits_for=[key],
        )[0]

    def delete_key(self, key: str) -> bool:
        return self._ask(Request.DELETE, key.encode(), waits_for=[key]) == [b"1"]

    def num_keys(self) -> int:
        return int(self._ask(Request.NUM_KEYS)[0])

    def check(self, keys: Sequence[str]) -> bool:
        return self._ask(Request.CHECK, *(k.encode() for k in keys), waits_for=keys) == [b"1"]

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        self._ask(Request.WAIT, *(k.encode() for k in keys), timeout=timeout, waits_for=keys)

    def append(self, key: str, value: str | bytes) -> None:
        self._ask(Request.APPEND, key.encode(), encode(value, "append"), waits_for=[key])

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        return self._ask(Request.GET, *(k.encode() for k in keys), waits_for=keys)

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        pairs = zip(keys, values, strict=True)
        fields = [part for k, v in pairs for part in (k.encode(), encode(v, "multi_set"))]
        self._ask(Request.SET, *fields, waits_for=keys)

    def has_extended_api(self) -> bool:
        return True

    def list_keys(self) -> list[str]:
        return [key.decode() for key in self._ask(Request.LIST_KEYS)]

    def queue_push(self, key: str, value: str | bytes) -> None:
        self._ask(Request.PUSH, key.encode(), encode(value, "queue_push"), waits_for=[key])

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        request = Request.POP if block else Request.POP_NOW
        return self._ask(request, key.encode(), waits_for=[key])[0]

    def queue_len(self, key: str) -> int:
        return int(self._ask(Request.QUEUE_LEN, key.encode(), waits_for=[key])[0])

    def clone(self) -> Store:
        return TCPStore(self._host, self._port, timeout=self._timeout)

    def __repr__(self) -> str:
        served = f", server=TCPServer(port={self._port})" if self._server else ""
        local, remote = (
            f"[{address[0]}]:{address[1]}"
            for address in (self._connection.getsockname(), self._connection.getpeername())
        )
        client = f"SocketImpl(fd={self._connection.fileno()}, addr={local}, remote={remote})"
        return f"TCPStore(client=TCPClient({client}){served})"

    def __del__(self) -> None:
        if (connection := getattr(self, "_connection", None)) is not None:
            connection.close()
        server = getattr(self, "_server", None)
        if server is not None and _shared_servers.get(self._port) is not server:
            server.close()
