"""Failure reports: the error file of each worker and the combined report."""

from __future__ import annotations

import faulthandler
import functools
import json
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Any

from ....native.foundation.user_frames import warn

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]

_NOT_AVAILABLE = "<N/A>"
_NO_TRACEBACK = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
_WIDEST = 60


class ErrorHandler:
    """Writes an exception as JSON to the file named by TORCHELASTIC_ERROR_FILE."""

    def _get_error_file_path(self) -> str | None:
        return os.environ.get("TORCHELASTIC_ERROR_FILE")

    def initialize(self) -> None:
        """Make fatal signals print Python's stack."""
        try:
            faulthandler.enable(all_threads=True)
        except Exception as error:  # standard error may be closed or not a file
            warn(f"Unable to enable fault handler. {type(error).__name__}: {error}")

    def record_exception(self, e: BaseException) -> None:
        """Write the exception and its traceback."""
        path = self._get_error_file_path()
        if path is None:
            return
        extra = {
            "py_callstack": "".join(traceback.format_exception(e)),
            "timestamp": str(int(time.time())),
        }
        message = {"message": f"{type(e).__name__}: {e}", "extraInfo": extra}
        with open(path, "w") as file:
            json.dump({"message": message}, file)

    def dump_error_file(self, rootcause_error_file: str, error_code: int = 0) -> None:
        """Copy a worker's error file, with its exit code, to this process's error file."""
        path = self._get_error_file_path()
        if path is None:
            return
        with open(rootcause_error_file) as file:
            cause = json.load(file)
        if error_code and isinstance(cause.get("message"), dict):
            cause["message"]["errorCode"] = error_code
        with open(path, "w") as file:
            json.dump(cause, file)


def get_error_handler() -> ErrorHandler:
    """Return the handler that `record` uses."""
    return ErrorHandler()


@dataclass
class ProcessFailure:
    """A failed worker. Message and time come from its error file, if it wrote one."""

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    error_file_data: dict[str, Any] = field(init=False)
    message: Any = field(init=False)
    timestamp: int = field(init=False)

    def __post_init__(self) -> None:
        self.error_file_data = {"message": "<NONE>"}
        self.timestamp, self.message = int(time.time()), ""
        if os.path.isfile(self.error_file):
            with open(self.error_file) as file:
                self.error_file_data = json.load(file)
            self.message = self.error_file_data["message"]
            details = self.error_file_data
            if isinstance(self.message, dict):
                details = self.message["extraInfo"]
            self.timestamp = int(details.get("timestamp", 0))
        else:
            self.error_file = _NOT_AVAILABLE
        if not self.message:
            self.message = _NO_TRACEBACK
            if self.exitcode < 0:
                self.message = (f"Signal {-self.exitcode} ({self.signal_name()}) received by PID "
                                f"{self.pid}")

    def signal_name(self) -> str:
        """Return the name of the signal that killed the worker, or `<N/A>`."""
        try:
            return signal.Signals(-self.exitcode).name
        except ValueError:
            return _NOT_AVAILABLE

    def timestamp_isoformat(self) -> str:
        """Return the time of the failure as YYYY-MM-DD_HH:MM:SS."""
        return datetime.fromtimestamp(self.timestamp).isoformat(sep="_")

    def traceback(self) -> str:
        """Return the worker's traceback, or the best available message."""
        if not isinstance(self.message, dict):
            return str(self.message)
        message = self.message.get("message", _NOT_AVAILABLE)
        return str(self.message.get("extraInfo", {}).get("py_callstack", message))


class ChildFailedError(Exception):
    """Workers failed. `failures` is by global rank; the message has the first one's traceback."""

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        if not failures:
            raise AssertionError
        self.name, self.failures = name, failures
        super().__init__(self.format_msg())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.failures)

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """Return the rank and failure of the worker that failed first."""
        rank = min(self.failures, key=lambda rank: self.failures[rank].timestamp)
        return rank, self.failures[rank]

    def format_msg(self, boarder_delim: str = "=", section_delim: str = "-") -> str:
        """Return the report."""
        first, _ = self.get_first_failure()
        texts = {rank: _describe_failure(index, rank, failure)
                 for index, (rank, failure) in enumerate(self.failures.items())}
        title = f"{self.name} FAILED"
        lines = [title, *(line for text in texts.values() for line in text.split("\n"))]
        width = min(max(map(len, lines)), _WIDEST)
        root = texts.pop(first)
        border, section = boarder_delim * width, section_delim * width
        others = "\n".join(texts.values()) or "  <NO_OTHER_FAILURES>"
        return "\n".join(("", border, title, section, "Failures:", others, section,
                          "Root Cause (first observed failure):", root, border))


def _describe_failure(index: int, rank: int, failure: ProcessFailure) -> str:
    name = failure.signal_name()
    ended_by = f" ({name})" if name != _NOT_AVAILABLE else ""
    text = failure.traceback()
    if isinstance(failure.message, dict):
        text = text.replace("\n", "\n  ")
    return "\n".join((
        f"[{index}]:",
        f"  time      : {failure.timestamp_isoformat()}",
        f"  host      : {socket.getfqdn()}",
        f"  rank      : {rank} (local_rank: {failure.local_rank})",
        f"  exitcode  : {failure.exitcode} (pid: {failure.pid}) {ended_by}",
        f"  error_file: {failure.error_file}",
        f"  traceback : {text}",
    ))


def record(fn: Callable[..., Any], error_handler: ErrorHandler | None = None) -> Callable[..., Any]:
    """Decorate a program's main function: write its exceptions to the worker's error file.

    >>> @torch.distributed.elastic.multiprocessing.errors.record
    ... def main():
    ...     return 3
    >>> main()
    3
    """
    handler = error_handler or get_error_handler()

    @functools.wraps(fn)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as end:
            if end.code == 0:
                return None
            raise
        except ChildFailedError as error:
            _, failure = error.get_first_failure()
            if failure.error_file != _NOT_AVAILABLE:
                handler.dump_error_file(failure.error_file, failure.exitcode)
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return recorded


def record_uncaught() -> None:
    """Record an uncaught exception in a worker's error file, even without `record`."""
    before = sys.excepthook
    if getattr(before, "records_for_launcher", False):
        return

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        path = os.environ.get("TORCHELASTIC_ERROR_FILE")
        if path is not None and not os.path.exists(path) and isinstance(error, Exception):
            ErrorHandler().record_exception(error)
        before(kind, error, trace)

    hook.records_for_launcher = True  # type: ignore[attr-defined]
    sys.excepthook = hook
