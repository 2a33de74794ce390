"""Framed messages over a socket pair: blocking in the worker, nonblocking in the parent.

A worker also detects its parent's exit, even if other processes hold the parent's socket.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Sequence

_LENGTH = struct.Struct("<Q")
_CHUNK = 65536
_CHECK_S = 5.0  # polling interval for the parent's exit without pidfd


def open_process(pid: int) -> int | None:
    """Return a descriptor that is readable once the process has ended, or None if unsupported."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


class Frames:
    """Splits received bytes into messages."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages completed by `data`."""
        if not self._pending and len(data) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(data)
            if len(data) == _LENGTH.size + length:
                return [data[_LENGTH.size :]]
        pending, messages = self._pending, []
        pending += data
        while len(pending) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(pending)
            end = _LENGTH.size + length
            if len(pending) < end:
                break
            messages.append(bytes(memoryview(pending)[_LENGTH.size : end]))
            del pending[:end]
        return messages


def add_length(parts: Sequence[bytes | memoryview]) -> bytes:
    """Return a message prefixed with its length."""
    return b"".join([_LENGTH.pack(sum(map(len, parts))), *parts])


class ParentChannel:
    """The parent's end. Bytes that the socket cannot take wait in an outbox."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self.socket = end
        self.outbox = bytearray()
        self.ended = False  # whether the other end is closed
        self._frames = Frames()

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self.socket.fileno()

    def send(self, message: bytes) -> None:
        """Send a message, or as much of it as the socket accepts."""
        data = add_length([message])
        if not self.outbox:
            try:
                sent = self.socket.send(data)
            except BlockingIOError:
                sent = 0
            except OSError:  # the worker has ended; its sentinel reports it
                return
            if sent == len(data):
                return
            data = data[sent:]
        self.outbox += data

    def flush(self) -> None:
        """Send more of the outbox."""
        try:
            sent = self.socket.send(self.outbox)
        except BlockingIOError:
            return
        except OSError:
            self.outbox.clear()
            return
        del self.outbox[:sent]

    def receive(self) -> list[bytes]:
        """Return the messages received so far."""
        messages: list[bytes] = []
        while True:
            try:
                data = self.socket.recv(_CHUNK)
            except BlockingIOError:
                return messages
            except ConnectionResetError:  # a worker that died during a send
                data = b""
            self.ended = not data
            messages += self._frames.feed(data)
            if len(data) < _CHUNK:
                return messages

    def close(self) -> None:
        """Close the socket, which ends the worker after its current batch."""
        self.socket.close()


class WorkerChannel:
    """The worker's end."""

    def __init__(self, end: socket.socket, parent_pid: int) -> None:
        end.setblocking(True)
        self._socket = end
        self._frames = Frames()
        self._messages: list[bytes] = []
        self._parent_pid = os.getppid()  # with forkserver, this is not the training process
        self._parent = open_process(parent_pid)
        self._poll = select.poll()
        for descriptor in (end.fileno(), self._parent):
            if descriptor is not None:
                self._poll.register(descriptor, select.POLLIN)

    def receive(self) -> bytes | None:
        """Return the next message, or None once the parent has closed its end or exited."""
        while not self._messages:
            events = self._poll.poll(None if self._parent is not None else _CHECK_S * 1000)
            if not events and os.getppid() != self._parent_pid:
                return None
            for descriptor, _ in events:
                if descriptor == self._parent:
                    return None
                data = self._socket.recv(_CHUNK)
                if not data:
                    return None
                self._messages += self._frames.feed(data)
        return self._messages.pop(0)

    def send(self, parts: Sequence[bytes | memoryview]) -> None:
        """Send a message. Raises BrokenPipeError or ConnectionResetError if the parent is gone."""
        self._socket.sendall(add_length(parts))
