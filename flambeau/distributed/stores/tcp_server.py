"""TCPServer: the thread that holds the keys of a TCPStore and answers its clients."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable

from ..errors import DistNetworkError, QueueEmptyError
from .key_table import KeyTable
from .tcp_frames import Frame, Request, Status, take_frame


def listen(port: int) -> socket.socket:
    """Return a socket listening on all addresses. Raises DistNetworkError if the port is in use."""
    try:
        return socket.create_server(
            ("", port), family=socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET,
            dualstack_ipv6=socket.has_dualstack_ipv6(), backlog=1024,
        )
    except OSError as error:
        name = "EADDRINUSE" if error.errno == 98 else str(error.errno)
        failure = DistNetworkError(
            "The server socket has failed to listen on any local network address. "
            f"port: {port}, useIpv6: false, code: -{error.errno}, name: {name}, "
            f"message: {(error.strerror or '').lower()}"
        )
        failure.add_note(
            f"Another program listens on port {port}. Choose another MASTER_PORT, or 0 for a free "
            "one where the store is made by hand."
        )
        raise failure from None


class _Client:
    """A connection, its partially received request, and its requests waiting for keys."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection, self.received = connection, bytearray()
        self.waiting: list[Frame] = []


class TCPServer:
    """Answers requests in one thread. A waiting request is answered once its keys are set."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener, self._table = listener, KeyTable()
        self._selector = selectors.DefaultSelector()
        self._clients: set[_Client] = set()
        self._wake, self._woken = socket.socketpair()
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self.port: int = listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, name="TCPStore server", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread and close its connections."""
        try:
            self._wake.send(b"x")
        except OSError:
            return
        self._thread.join(timeout=5)

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._woken:
                    return self._shut()
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    self._receive(key.data)

    def _shut(self) -> None:
        for client in self._clients:
            client.connection.close()
        for part in (self._listener, self._woken, self._wake):
            part.close()
        self._selector.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = _Client(connection)
        self._clients.add(client)
        self._selector.register(connection, selectors.EVENT_READ, client)

    def _drop(self, client: _Client) -> None:
        if client in self._clients:
            self._clients.discard(client)
            self._selector.unregister(client.connection)
            client.connection.close()

    def _receive(self, client: _Client) -> None:
        try:
            part = client.connection.recv(1 << 16)
            client.received += part
            while part and (frame := take_frame(client.received)) is not None:
                self._handle(client, frame)
        except (OSError, ValueError):  # drop peers that are not store clients
            part = b""
        if not part:
            self._drop(client)

    def _handle(self, client: _Client, frame: Frame) -> None:
        if frame.code in (Request.WAIT, Request.GET, Request.POP) and not self._table.has(
            [field.decode() for field in frame.fields]
        ):
            client.waiting.append(frame)
            return
        self._reply(client, frame)
        if frame.code in _WRITES:
            self._answer_waiting()

    def _answer_waiting(self) -> None:
        for client in list(self._clients):
            for frame in list(client.waiting):
                if self._table.has([field.decode() for field in frame.fields]):
                    client.waiting.remove(frame)
                    self._reply(client, frame)

    def _reply(self, client: _Client, frame: Frame) -> None:
        status, fields = Status.DONE, []
        try:
            fields = _ANSWERS[Request(frame.code)](self._table, frame.fields)
        except QueueEmptyError:
            status = Status.QUEUE_EMPTY
        except ValueError:
            status = Status.NOT_A_NUMBER
        try:
            client.connection.sendall(Frame(frame.number, status, fields).pack())
        except OSError:
            self._drop(client)


def _set(table: KeyTable, fields: list[bytes]) -> list[bytes]:
    for key, value in zip(fields[::2], fields[1::2], strict=True):
        table.values[key.decode()] = value
    return []


def _push(table: KeyTable, fields: list[bytes]) -> list[bytes]:
    table.push(fields[0].decode(), fields[1])
    return []


def _append(table: KeyTable, fields: list[bytes]) -> list[bytes]:
    table.append(fields[0].decode(), fields[1])
    return []


def _encode_flag(value: bool) -> list[bytes]:
    return [b"1" if value else b"0"]


_WRITES = (Request.SET, Request.ADD, Request.COMPARE_SET, Request.APPEND, Request.PUSH)
_ANSWERS: dict[Request, Callable[[KeyTable, list[bytes]], list[bytes]]] = {
    Request.SET: _set,
    Request.GET: lambda t, f: [t.values[key.decode()] for key in f],
    Request.ADD: lambda t, f: [b"%d" % t.add(f[0].decode(), int(f[1]))],
    Request.COMPARE_SET: lambda t, f: [t.compare_set(f[0].decode(), f[1], f[2])],
    Request.DELETE: lambda t, f: _encode_flag(t.delete(f[0].decode())),
    Request.NUM_KEYS: lambda t, f: [b"%d" % len(t.values)],
    Request.CHECK: lambda t, f: _encode_flag(t.has([key.decode() for key in f])),
    Request.WAIT: lambda t, f: [],
    Request.APPEND: _append,
    Request.LIST_KEYS: lambda t, f: [key.encode() for key in t.values],
    Request.PUSH: _push,
    Request.POP: lambda t, f: [t.pop(f[0].decode())],
    Request.POP_NOW: lambda t, f: [t.pop(f[0].decode())],
    Request.QUEUE_LEN: lambda t, f: [b"%d" % len(t.queues.get(f[0].decode(), ()))],
}
