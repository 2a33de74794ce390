"""Ctrl-C while the main thread blocks in a collective: a second thread aborts the collective.

Python runs signal handlers between bytecodes, so a blocked call cannot react by itself.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from types import TracebackType

_MAIN = threading.main_thread().ident


class _Watch:
    """Waits for the byte that Python writes when a signal arrives. One per process."""

    def __init__(self) -> None:
        self._heard, self._written = socket.socketpair()
        self._written.setblocking(False)
        self.abort: Callable[[], None] | None = None  # ends the currently blocked call
        before = signal.set_wakeup_fd(self._written.fileno(), warn_on_full_buffer=False)
        if before != -1:
            signal.set_wakeup_fd(before)
        threading.Thread(target=self._run, name="collectives: Ctrl-C", daemon=True).start()

    def _run(self) -> None:
        while received := self._heard.recv(1):
            abort = self.abort
            is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
            if received[0] == signal.SIGINT and is_default and abort is not None:
                abort()


_watches: list[_Watch] = []  # empty before the first blocking call


def _leave_in_child() -> None:
    if _watches:
        signal.set_wakeup_fd(-1)
        _watches.clear()


os.register_at_fork(after_in_child=_leave_in_child)


class interruptible:
    """Context in which Ctrl-C calls `abort` from another thread; KeyboardInterrupt follows.

    Does nothing if the program handles SIGINT itself or has set a wakeup descriptor.
    """

    __slots__ = ("_abort", "_is_main")

    def __init__(self, abort: Callable[[], None]) -> None:
        self._abort, self._is_main = abort, threading.get_ident() == _MAIN

    def __enter__(self) -> None:
        if self._is_main:
            if not _watches:
                _watches.append(_Watch())
            _watches[0].abort = self._abort

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_main:
            _watches[0].abort = None
