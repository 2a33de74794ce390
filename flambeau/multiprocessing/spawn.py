"""spawn: run a function in several processes at once and report their errors to the caller."""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from multiprocessing import connection
from typing import Any

from ..native.foundation.user_frames import warn

_log = logging.getLogger(__name__)
__all__ = [
    "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException",
    "SpawnContext", "spawn", "start_processes",
]


class ProcessException(Exception):
    """A failed process of `spawn`: `error_index` is its number, `error_pid` its process id."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid = msg, error_index, error_pid

    @property
    def pid(self) -> int:
        """The process id: `error_pid`."""
        return self.error_pid

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """The process raised an exception, whose traceback is in the message."""


class ProcessExitedException(ProcessException):
    """The process ended with an exit code or by a signal."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int,
        signal_name: str | None = None,
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code,
                            self.signal_name)


def _run(fn: Callable[..., Any], index: int, args: tuple[Any, ...], report: str) -> None:
    """Run one process; write the text of an exception to the file `report`."""
    _die_with_parent()
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the parent was interrupted too
    except Exception:
        with open(report, "wb") as file:
            pickle.dump(traceback.format_exc(), file)
        sys.exit(1)


def _die_with_parent() -> None:
    """On Linux: have this process receive SIGINT when its parent ends, however that happens."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, int(signal.SIGINT))


def _report(folder: str, index: int) -> str:
    """The path of the file for a process's exception."""
    return os.path.join(folder, f"{index}.pickle")


class ProcessContext:
    """Processes started by `spawn`."""

    def __init__(self, processes: list[Any], reports: tempfile.TemporaryDirectory[str]) -> None:
        self.processes, self._reports = processes, reports
        self.sentinels = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """The process ids."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until one process ends; return True once all have succeeded.

        If one fails, terminate the others and raise its error.
        """
        if not self.sentinels:
            return True
        failed_index = None
        for sentinel in connection.wait(self.sentinels, timeout=timeout):
            index = self.sentinels.pop(sentinel)
            self.processes[index].join()
            if self.processes[index].exitcode != 0:
                failed_index = index
                break
        if failed_index is None:
            return not self.sentinels
        self._end_others(grace_period)
        self._raise(failed_index)
        return False

    def _join_all(self, timeout_s: float) -> None:
        end = time.monotonic() + timeout_s
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))

    def _end_others(self, grace_period: float | None) -> None:
        """Let processes end within the grace period, send SIGTERM, and wait once more."""
        if grace_period is not None:
            self._join_all(grace_period)
        for process in self.processes:
            if process.is_alive():
                _log.warning("Terminating process %s via signal SIGTERM", process.pid)
                process.terminate()
        self._join_all(30 if grace_period is None else grace_period)
        for process in self.processes:
            if process.is_alive():
                _log.warning("Unable to shutdown process %s via SIGTERM , forcefully exiting via "
                             "SIGKILL", process.pid)
                process.kill()
            process.join()

    def _raise(self, index: int) -> None:
        process, report = self.processes[index], _report(self._reports.name, index)
        if os.path.exists(report):
            with open(report, "rb") as file:
                trace = pickle.load(file)
            message = f"\n\n-- Process {index} terminated with the following error:\n{trace}"
            raise ProcessRaisedException(message, index, process.pid)
        code = process.exitcode
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"<Unknown signal {-code}>"
            raise ProcessExitedException(f"process {index} terminated with signal {name}",
                                         index, process.pid, code, name)
        raise ProcessExitedException(f"process {index} terminated with exit code {code}",
                                     index, process.pid, code)


class SpawnContext(ProcessContext):
    """The former name of ProcessContext."""

    def __init__(self, processes: list[Any], reports: tempfile.TemporaryDirectory[str]) -> None:
        warn(
            "SpawnContext is renamed to ProcessContext since 1.4 release."
        )
        super().__init__(processes, reports)


def start_processes(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
    daemon: bool = False, start_method: str = "spawn", numa_options: Any = None,
) -> ProcessContext | None:
    """Run `fn(i, *args)` in `nprocs` processes, i from 0; with `join`, wait for them.

    Raises ProcessRaisedException with the traceback of a process that raises,
    ProcessExitedException for one that fails otherwise.
    """
    context = multiprocessing.get_context(start_method)
    processes = []
    reports = tempfile.TemporaryDirectory(prefix="flambeau-spawn-")  # deleted with the context
    for index in range(nprocs):
        process = context.Process(  # type: ignore[attr-defined]
            target=_run, args=(fn, index, args, _report(reports.name, index)), daemon=daemon
        )
        process.start()
        processes.append(process)
    running = ProcessContext(processes, reports)
    if not join:
        return running
    while not running.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
    daemon: bool = False, start_method: str = "spawn",
) -> ProcessContext | None:
    """`start_processes` with fresh interpreters, which import the caller's file."""
    if start_method != "spawn":
        warn(
            f"This method only supports start_method=spawn (got: {start_method}).\nTo use a "
            f"different start_method use:\n\t\t torch.multiprocessing.start_processes(...)",
            FutureWarning,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
