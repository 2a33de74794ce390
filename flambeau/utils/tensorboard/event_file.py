"""An event file: what TensorBoard reads, one record a step and summary."""

from __future__ import annotations

import itertools
import os
import socket
import time
import weakref

from .protobuf import double, integer, message, text
from .records import RecordWriter

_numbers = itertools.count()


class FileWriter:
    """Writes events into a new file in `log_dir`, which is made where it is not there.

    Events reach the file after `max_queue` of them or `flush_secs` seconds, at `flush` and at
    `close`; a program that ends without closing loses nothing.
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
                f"{os.getpid()}.{next(_numbers)}{filename_suffix}")  # fmt: skip
        self.path = os.path.join(self._log_dir, name)
        self._max_queue, self._flush_secs = max_queue, flush_secs
        self._file = open(self.path, "ab")  # noqa: SIM115  (it lives as long as the writer)
        self._records = RecordWriter(self._file)
        self._waiting, self._flushed = 0, time.monotonic()
        self._finalizer = weakref.finalize(self, self._file.close)
        self._records.write(double(1, time.time()) + text(3, "brain.Event:2"))
        self.flush()

    def get_logdir(self) -> str:
        """The directory of its file."""
        return self._log_dir

    def add_values(
        self, values: bytes, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Adds an event of encoded `Summary.Value`s."""
        self.add_event(message(5, values), global_step, walltime)

    def add_event(
        self, field: bytes, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Adds an event with an encoded field."""
        step = b"" if global_step is None else integer(2, int(global_step))
        when = time.time() if walltime is None else walltime
        self._records.write(double(1, when) + step + field)
        self._waiting += 1
        if self._waiting >= self._max_queue or time.monotonic() - self._flushed > self._flush_secs:
            self.flush()

    def flush(self) -> None:
        """Makes sure that a reader sees everything so far."""
        if not self._file.closed:
            self._records.flush()
        self._waiting, self._flushed = 0, time.monotonic()

    def close(self) -> None:
        """Writes what is left, and closes the file."""
        self._finalizer()

    def reopen(self) -> None:
        """Goes on after `close`, in the same file."""
        if self._file.closed:
            self._file = open(self.path, "ab")  # noqa: SIM115
            self._records = RecordWriter(self._file)
            self._finalizer = weakref.finalize(self, self._file.close)
