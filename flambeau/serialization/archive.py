"""The zip container of a .pt file: uncompressed records by name, each aligned to 64 bytes.

`ArchiveWriter` streams records to anything with `write`; `ArchiveReader` finds them in any seekable
file. Nothing is unpacked to disk, and record sizes are checked against the file's.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from typing import IO, Any

import numpy as np

ALIGNMENT = 64
_LIMIT = 0xFFFFFFFF
_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
# Compressed records (torch.save writes none) may unpack to this many times the file's size.
_RATIO, _ALWAYS_ALLOWED = 64, 256 << 20
# Small enough for a piece to stay in the cache until its checksum is computed.
_CHUNK = 256 << 10


class ArchiveWriter:
    """Writes records in order; `close` writes the directory. The file need not be seekable."""

    def __init__(self, file: IO[bytes], name: str = "archive", crc32: bool = True,
                 version: bytes = b"3\n") -> None:
        self._file, self._name, self._crc32, self._version = file, name, crc32, version
        self._at = 0
        self._directory: list[bytes] = []
        self._checksum = 0

    def _write(self, data: Any) -> None:
        self._file.write(data)
        self._at += len(data)

    def record(self, name: str, data: bytes | memoryview) -> None:
        """Write one record: bytes, or a view of memory, which is not copied."""
        window = memoryview(data).cast("B") if len(data) else memoryview(b"")
        path = f"{self._name}/{name}".encode()
        size, start = len(window), self._at
        # Bit 11: UTF-8 name; bit 3: checksum and sizes follow the data.
        flags = 0x0808 if size else 0x0800
        large = size >= _LIMIT or start >= _LIMIT
        extra = struct.pack("<HHQQ", 1, 16, 0, 0) if large else b""
        gap = -(start + _LOCAL.size + len(path) + len(extra) + 4) % ALIGNMENT
        extra += struct.pack("<2sH", b"FB", gap) + b"Z" * gap
        stated = _LIMIT if large else 0
        self._write(
            _LOCAL.pack(
                b"PK\3\4", 45 if large else 0, flags, 0, 0, 0, 0, stated, stated,
                len(path), len(extra),
            )
            + path
            + extra
        )
        crc = 0
        for offset in range(0, size, _CHUNK):
            chunk = window[offset : offset + _CHUNK]
            crc = zlib.crc32(chunk, crc) if self._crc32 else 0
            self._write(chunk)
        self._checksum = zlib.crc32(struct.pack("<I", crc), zlib.crc32(path, self._checksum))
        if size:
            descriptor = "<4sIQQ" if large else "<4sIII"
            self._write(struct.pack(descriptor, b"PK\7\10", crc, size, size))
        self._directory.append(_pack_directory_entry(path, flags, crc, size, start))

    def close(self) -> None:
        """Write the version and serialization id, then the directory."""
        self.record("version", self._version)
        self.record(".data/serialization_id", f"{self._checksum:040d}".encode())
        start, count = self._at, len(self._directory)
        self._write(b"".join(self._directory))
        size, end = self._at - start, self._at
        self._write(
            struct.pack(
                "<4sQ2H2I4Q", b"PK\6\6", 44, 798, 45, 0, 0, count, count, size, start
            )
        )
        self._write(struct.pack("<4sIQI", b"PK\6\7", 0, end, 1))
        short = min(count, 0xFFFF)
        self._write(
            struct.pack(
                "<4s4H2IH", b"PK\5\6", 0, 0, short, short, min(size, _LIMIT), min(start, _LIMIT), 0
            )
        )


def _pack_directory_entry(path: bytes, flags: int, crc: int, size: int, start: int) -> bytes:
    large = [value for value in (size, size, start) if value >= _LIMIT]
    extra = struct.pack(f"<HH{len(large)}Q", 1, 8 * len(large), *large) if large else b""
    short, at = min(size, _LIMIT), min(start, _LIMIT)
    return (
        _CENTRAL.pack(
            b"PK\1\2", 0, 45 if large else 0, flags, 0, 0, 0, crc, short, short,
            len(path), len(extra), 0, 0, 0, 0, at,
        )
        + path
        + extra
    )


def is_archive(file: IO[bytes]) -> bool:
    """Return whether a zip archive starts at the file's position, which is restored."""
    start = file.tell()
    result = file.read(4) == b"PK\3\4"
    file.seek(start)
    return result


def _create_failure(why: object) -> RuntimeError:
    return RuntimeError(f"PytorchStreamReader failed reading zip archive: {why}")


class ArchiveReader:
    """Records of an archive that extends from the file's position to its end.

    Raises RuntimeError for anything but a complete archive.
    """

    def __init__(self, file: IO[bytes]) -> None:
        start = file.tell()
        self._length = file.seek(0, io.SEEK_END) - start
        self._file: Any = file if start == 0 else _Tail(file, start)
        file.seek(start)
        try:
            self._zip = zipfile.ZipFile(self._file)
            entries = self._zip.infolist()
        except Exception as error:  # zipfile reports damage with many exception types
            raise _create_failure(f"failed finding central directory ({error})") from None
        if not entries:
            raise _create_failure("the archive is empty")
        self.name = entries[0].filename.partition("/")[0]
        self._entries = {entry.filename: entry for entry in entries}
        stored = sum(e.file_size for e in entries if e.compress_type == zipfile.ZIP_STORED)
        packed = sum(e.file_size for e in entries if e.compress_type != zipfile.ZIP_STORED)
        if stored > self._length or packed > max(_ALWAYS_ALLOWED, _RATIO * self._length):
            raise _create_failure(
                f"its records claim {stored + packed} bytes, more than a file of {self._length} "
                "bytes can hold"
            )

    def names(self) -> list[str]:
        """Return the record names, without the archive's name."""
        prefix = self.name + "/"
        return [n[len(prefix) :] for n in self._entries if n.startswith(prefix)]

    def has(self, name: str) -> bool:
        """Return whether a record exists."""
        return f"{self.name}/{name}" in self._entries

    def _find_entry(self, name: str) -> zipfile.ZipInfo:
        try:
            return self._entries[f"{self.name}/{name}"]
        except KeyError:
            raise RuntimeError(
                f"PytorchStreamReader failed locating file {name}: file not found"
            ) from None

    def size(self, name: str) -> int:
        """Return a record's size in bytes."""
        return self._find_entry(name).file_size

    def read(self, name: str) -> bytes:
        """Return a record as bytes."""
        size = self.size(name)
        memory = np.empty(size, np.uint8)
        self.read_into(name, memory)
        return memory.tobytes()

    def offset(self, name: str) -> int:
        """Return the file offset of an uncompressed record's data."""
        entry = self._find_entry(name)
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
            raise _create_failure(
                f"record {name} is compressed or encrypted, so it has no place in memory"
            )
        if not 0 <= entry.header_offset < self._length:
            raise _create_failure(f"record {name} starts outside the file")
        self._file.seek(entry.header_offset)
        header = self._file.read(_LOCAL.size)
        if len(header) != _LOCAL.size or header[:4] != b"PK\3\4":
            raise _create_failure(f"no local header for record {name}")
        start = entry.header_offset + _LOCAL.size + sum(_LOCAL.unpack(header)[-2:])
        if start + entry.file_size > self._length:
            raise _create_failure(f"record {name} reaches past the end of the file")
        return start

    def read_into(self, name: str, memory: np.ndarray, crc32: bool = True) -> None:
        """Fill `memory`, a one-dimensional array of bytes, with the start of a record."""
        entry = self._find_entry(name)
        if memory.size > entry.file_size:
            raise _create_failure(
                f"record {name} has {entry.file_size} bytes, {memory.size} are needed"
            )
        window = memory.data if memory.size else memoryview(bytearray())
        if entry.compress_type == zipfile.ZIP_STORED:
            self._file.seek(self.offset(name))
            result = self._fill(name, self._file, window)
            # PyTorch can omit checksums; it then writes zero.
            if crc32 and entry.CRC != 0 and memory.size == entry.file_size and result != entry.CRC:
                raise _create_failure(f"record {name} does not match its checksum")
            return
        try:
            with self._zip.open(entry) as unpacked:
                self._fill(name, unpacked, window)
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, ValueError) as error:
            raise _create_failure(f"record {name}: {error}") from None

    @staticmethod
    def _fill(name: str, source: Any, window: memoryview) -> int:
        """Fill the window from the source's position; return the checksum of the data."""
        read_into, position, crc = getattr(source, "readinto", None), 0, 0
        while position < len(window):
            chunk = window[position : position + _CHUNK]
            if read_into is not None:
                size = read_into(chunk)
            else:
                data = source.read(len(chunk))
                size = len(data)
                chunk[:size] = data
            if not size:
                raise _create_failure(f"record {name} ends after {position} of {len(window)} bytes")
            crc = zlib.crc32(chunk[:size], crc)
            position += size
        return crc


class _Tail(io.RawIOBase):
    """View of a file from `start` on."""

    def __init__(self, file: IO[bytes], start: int) -> None:
        self._file, self._start = file, start

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_SET:
            offset += self._start
        return self._file.seek(offset, whence) - self._start

    def tell(self) -> int:
        return self._file.tell() - self._start

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)

    def readinto(self, window: Any) -> int:
        data = self._file.read(len(window))
        window[: len(data)] = data
        return len(data)
