"""Protocol buffers on the wire: the fields of a message as bytes, joined by the caller.

A field is its number and wire type in one varint, then the value: 0 varint, 1 eight bytes, 2 a
length and bytes (strings, messages, packed numbers), 5 four bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import numpy as np


def varint(value: int) -> bytes:
    """Seven bits a byte, low ones first; negative numbers as 64-bit two's complement."""
    if value < 0:
        value += 1 << 64
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def integer(number: int, value: int) -> bytes:
    """An int32, int64, bool or enum field; zero is the default and takes no bytes."""
    return varint(number << 3) + varint(int(value)) if value else b""


def double(number: int, value: float) -> bytes:
    """A double field."""
    return varint(number << 3 | 1) + struct.pack("<d", value)


def single(number: int, value: float) -> bytes:
    """A float field; numbers beyond float32 become infinite."""
    try:
        return varint(number << 3 | 5) + struct.pack("<f", value)
    except OverflowError:
        return varint(number << 3 | 5) + struct.pack("<f", float("inf") if value > 0 else -np.inf)


def message(number: int, *fields: bytes) -> bytes:
    """A field that is a message made of `fields`, or raw bytes."""
    body = b"".join(fields)
    return varint(number << 3 | 2) + varint(len(body)) + body


def text(number: int, value: str) -> bytes:
    """A string field."""
    return message(number, value.encode("utf-8", "replace"))


def doubles(number: int, values: Iterable[float] | np.ndarray) -> bytes:
    """Packed doubles."""
    return message(number, np.asarray(values, "<f8").tobytes())
