"""TFRecord: a file of byte strings, each with its length and masked CRC-32C checksums."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, bits reversed
_LANE = 256  # bytes that lanes share a step for
_LONG = 8192  # bytes from which lanes pay


def _make_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _make_table()


def crc32c(data: bytes) -> int:
    """The CRC-32C checksum (RFC 3720) of `data`."""
    crc = 0xFFFFFFFF
    if len(data) >= _LONG:
        whole = len(data) // _LANE * _LANE
        crc, data = _crc_of_lanes(crc, data[:whole]), data[whole:]
    table = _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _crc_of_lanes(crc: int, data: bytes) -> int:
    """The register after `data`, cut into lanes that NumPy steps all at once.

    The register is linear in what it held and in the bytes: so lanes start from 0, and where a
    register goes in _LANE zero bytes is the sum over its bits of where each bit alone goes.
    """
    lanes = np.frombuffer(data, np.uint8).reshape(-1, _LANE)  # (lanes, bytes)
    count = len(lanes)
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    registers = np.concatenate([np.zeros(count, np.uint32), bits])
    columns = np.zeros((_LANE, count + 32), np.uint32)
    columns[:, :count] = lanes.T
    table = np.array(_TABLE, np.uint32)
    for column in columns:
        registers = table[(registers ^ column) & np.uint32(255)] ^ (registers >> np.uint32(8))
    moved = registers[count:].tolist()
    for lane in registers[:count].tolist():
        carried, bit = 0, 0
        while crc:
            if crc & 1:
                carried ^= moved[bit]
            crc >>= 1
            bit += 1
        crc = carried ^ lane
    return crc


def masked(data: bytes) -> int:
    """The checksum as TFRecord stores it: rotated, and a constant added."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


class RecordWriter:
    """Appends records to an open binary file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, data: bytes) -> None:
        """Writes one record: length, its checksum, data, its checksum."""
        length = struct.pack("<Q", len(data))
        self._file.write(
            b"".join(
                (length, struct.pack("<I", masked(length)), data, struct.pack("<I", masked(data)))
            )
        )

    def flush(self) -> None:
        """Hands what was written to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def records(data: bytes) -> Iterator[bytes]:
    """The records in the bytes of a file; a cut-off last one is left out.

    Raises ValueError where a checksum does not fit.
    """
    at = 0
    while at + 12 <= len(data):
        length, check = struct.unpack_from("<QI", data, at)
        if check != masked(data[at : at + 8]):
            raise ValueError(f"byte {at}: the checksum of a record's length does not fit")
        end = at + 12 + length
        if end + 4 > len(data):
            return
        body = data[at + 12 : end]
        if struct.unpack_from("<I", data, end)[0] != masked(body):
            raise ValueError(f"byte {at}: the checksum of a record does not fit")
        yield body
        at = end + 4
