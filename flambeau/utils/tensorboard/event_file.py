"""Event file: TensorBoard's input, one record per event."""

from __future__ import annotations

import itertools
import os
import socket
import struct
import time
import weakref
from typing import Any

from tensorboardX.proto.event_pb2 import Event
from tensorboardX.record_writer import masked_crc32c

_numbers = itertools.count()


class FileWriter:
    """Writes events to a new file in `log_dir`, which is created if needed.

    Events reach the file after `max_queue` of them or `flush_secs` seconds, at `flush` and at
    `close`; a program that exits without closing loses nothing. It needs no thread: `add_event`
    writes the event to the file's buffer before it returns.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        self._log_dir = os.fspath(log_dir)
        os.makedirs(self._log_dir, exist_ok=True)
        name = (f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}."
                f"{os.getpid()}.{next(_numbers)}{filename_suffix}")
        self.path = os.path.join(self._log_dir, name)
        self._max_queue, self._flush_secs = max_queue, flush_secs
        self._waiting, self._flushed = 0, time.monotonic()
        self._open()
        self.add_event(Event(file_version="brain.Event:2"))
        self.flush()

    def _open(self) -> None:
        self._file = open(self.path, "ab")  # noqa: SIM115  (it lives as long as the writer)
        self._finalizer = weakref.finalize(self, self._file.close)

    def get_logdir(self) -> str:
        """Return the directory of the file."""
        return self._log_dir

    def add_event(
        self, event: Any, step: int | None = None, walltime: float | None = None
    ) -> None:
        """Add an `Event`, a tensorboardX protocol buffer."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self._write(event.SerializeToString())
        self._waiting += 1
        if self._waiting >= self._max_queue or time.monotonic() - self._flushed > self._flush_secs:
            self.flush()

    def _write(self, record: bytes) -> None:
        """Write a TFRecord: the length and its checksum, then the bytes and theirs."""
        length = struct.pack("<Q", len(record))
        check = struct.pack("<I", masked_crc32c(length))
        self._file.write(length + check + record + struct.pack("<I", masked_crc32c(record)))

    def add_summary(
        self, summary: Any, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Add a `Summary`, a tensorboardX protocol buffer."""
        self.add_event(Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Flush all events to the operating system, where a reader sees them."""
        if not self._file.closed:
            self._file.flush()
        self._waiting, self._flushed = 0, time.monotonic()

    def close(self) -> None:
        """Flush and close the file."""
        self._finalizer()

    def reopen(self) -> None:
        """Reopen the same file after `close`."""
        if self._file.closed:
            self._open()
