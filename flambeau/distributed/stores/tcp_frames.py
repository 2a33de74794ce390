"""Frames: the wire format of requests and replies between a TCPStore and its server.

A frame is its length, a number that the reply repeats, a code, and fields of bytes.
"""

from __future__ import annotations

import enum
import socket
import struct
from typing import NamedTuple

_HEAD = struct.Struct("<IIBH")
_FIELD = struct.Struct("<I")
MAX_FRAME_BYTES = 1 << 31


class Request(enum.IntEnum):
    """Request codes. Fields are keys and values. `GET`, `WAIT` and `POP` are answered once
    their keys are set, `POP_NOW` at once."""

    SET, GET, ADD, COMPARE_SET, DELETE, NUM_KEYS, CHECK, WAIT = range(8)
    APPEND, LIST_KEYS, PUSH, POP, QUEUE_LEN, POP_NOW = range(8, 14)


class Status(enum.IntEnum):
    """Result codes of replies."""

    DONE, NOT_A_NUMBER, QUEUE_EMPTY = range(3)


class Frame(NamedTuple):
    """A request or a reply."""

    number: int
    code: int
    fields: list[bytes]

    def pack(self) -> bytes:
        """Return the frame's bytes on the wire."""
        body = b"".join(_FIELD.pack(len(field)) + field for field in self.fields)
        return _HEAD.pack(len(body), self.number, self.code, len(self.fields)) + body


def take_frame(received: bytearray) -> Frame | None:
    """Remove and return the first frame of `received`, or None if it is incomplete."""
    if len(received) < _HEAD.size:
        return None
    length, number, code, count = _HEAD.unpack_from(received)
    if length > MAX_FRAME_BYTES:
        raise ValueError(f"a frame of {length} bytes is not a store's")
    end = _HEAD.size + length
    if len(received) < end:
        return None
    fields, offset = [], _HEAD.size
    for _ in range(count):
        (size,) = _FIELD.unpack_from(received, offset)
        offset += _FIELD.size
        fields.append(bytes(received[offset : offset + size]))
        offset += size
    del received[:end]
    return Frame(number, code, fields)


def receive_frame(connection: socket.socket, received: bytearray) -> Frame | None:
    """Return the next frame of a connection, or None if the peer closed it."""
    while (frame := take_frame(received)) is None:
        part = connection.recv(1 << 16)
        if not part:
            return None
        received += part
    return frame
