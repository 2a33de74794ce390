"""Workers of one attempt on this machine: commands, or a function in separate processes."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import pickle
import signal
import string
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from .errors import ProcessFailure, record
from .logs import CONSOLE, DefaultLogsSpecs, LogsDest, LogsSpecs, TailLog

__all__ = [
    "MultiprocessContext", "PContext", "RunProcsResult", "SignalException", "SubprocessContext",
    "start_processes",
]

_POLL_S = 0.05
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


class SignalException(Exception):
    """The launcher received a signal that it must pass on to its workers."""

    def __init__(self, msg: str, sigval: signal.Signals) -> None:
        super().__init__(msg)
        self.sigval = sigval

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.sigval)


def raise_on_signals() -> None:
    """Make the signals that launchers pass on raise SignalException."""
    names = os.environ.get("TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT")
    for name in filter(None, map(str.strip, names.split(","))):
        signal.signal(getattr(signal, name), _raise)


def _raise(number: int, frame: FrameType | None) -> None:
    name = signal.Signals(number)
    raise SignalException(f"Process {os.getpid()} got signal: {name.value}", sigval=name)


@dataclass
class RunProcsResult:
    """Results of the workers by local rank: return values or failures."""

    return_values: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, ProcessFailure] = field(default_factory=dict)
    stdouts: dict[int, str] = field(default_factory=dict)
    stderrs: dict[int, str] = field(default_factory=dict)

    def is_failed(self) -> bool:
        """Return whether any worker failed."""
        return bool(self.failures)


class PContext(ABC):
    """Running workers. The first failure terminates the rest."""

    def __init__(
        self, name: str, entrypoint: Any, args: dict[int, tuple[Any, ...]],
        envs: dict[int, dict[str, str]], logs_specs: LogsSpecs,
        log_line_prefixes: dict[int, str] | None = None,
    ) -> None:
        self.name, self.entrypoint, self.args, self.envs = name, entrypoint, args, envs
        self.logs: LogsDest = logs_specs.reify(envs)
        self.nprocs = len(envs)
        self._tails = [
            TailLog(name, self.logs.tee_stdouts, sys.stdout, log_line_prefixes),
            TailLog(name, self.logs.tee_stderrs, sys.stderr, log_line_prefixes),
        ]
        self._codes: dict[int, int] = {}
        self._failed: dict[int, ProcessFailure] = {}

    def start(self) -> None:
        """Start all workers."""
        for tail in self._tails:
            tail.start()
        try:
            for rank in self.envs:
                self._start(rank)
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def _start(self, rank: int) -> None: ...

    @abstractmethod
    def pids(self) -> dict[int, int]:
        """Return process ids by local rank."""

    @abstractmethod
    def _exit_code(self, rank: int) -> int | None: ...

    def _value(self, rank: int) -> Any:
        return None

    def poll(self) -> RunProcsResult | None:
        """Return the result if all workers ended or one failed, else None. Never blocks."""
        for rank in self.envs.keys() - self._codes.keys():
            code = self._exit_code(rank)
            if code is None:
                continue
            self._codes[rank] = code
            if code != 0:
                self._fail(rank, code)
        if not self._failed and len(self._codes) < self.nprocs:
            return None
        self.close()
        if self._failed:
            return RunProcsResult({}, self._failed, self.logs.stdouts, self.logs.stderrs)
        values = {rank: self._value(rank) for rank in self.envs}
        return RunProcsResult(values, {}, self.logs.stdouts, self.logs.stderrs)

    def _fail(self, rank: int, code: int) -> None:
        path = self.logs.error_files.get(rank, "")
        self._failed[rank] = ProcessFailure(rank, self.pids()[rank], code, path)

    def wait(self, timeout: float = -1, period: float = 1) -> RunProcsResult | None:
        """Return the result, or None after `timeout` seconds. A negative timeout waits forever."""
        end = time.monotonic() + timeout if timeout >= 0 else float("inf")
        while (result := self.poll()) is None:
            if time.monotonic() >= end:
                return None
            time.sleep(min(period, _POLL_S))
        return result

    def close(self, death_sig: signal.Signals = signal.SIGTERM, timeout: int = 30) -> None:
        """Terminate all workers with `death_sig`, and after `timeout` seconds with SIGKILL."""
        alive = [pid for rank, pid in self.pids().items() if self._exit_code(rank) is None]
        for pid in alive:
            os.kill(pid, death_sig)
        end = time.monotonic() + timeout
        while any(self._exit_code(rank) is None for rank in self.pids()):
            if time.monotonic() > end:
                for rank, pid in self.pids().items():
                    if self._exit_code(rank) is None:
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        self._record_further_failures()
        for tail in self._tails:
            tail.stop()

    def _record_further_failures(self) -> None:
        """Record workers that failed on their own during shutdown: they wrote an error file."""
        for rank, path in self.logs.error_files.items():
            if rank not in self._codes and rank in self.pids() and os.path.exists(path):
                code = self._codes[rank] = self._exit_code(rank) or 1
                self._fail(rank, code)


class SubprocessContext(PContext):
    """Workers that are commands."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def _start(self, rank: int) -> None:
        command = [self.entrypoint, *map(str, self.args[rank])]
        with ExitStack() as files:
            out, err = (
                None if path == CONSOLE else files.enter_context(open(path, "wb"))
                for path in (self.logs.stdouts[rank], self.logs.stderrs[rank])
            )
            self._processes[rank] = subprocess.Popen(
                command, env={**os.environ, **self.envs[rank]}, stdout=out, stderr=err,
                preexec_fn=_tie_to_launcher,  # noqa: PLW1509 - it makes one system call
            )

    def pids(self) -> dict[int, int]:
        """Return process ids by local rank."""
        return {rank: process.pid for rank, process in self._processes.items()}

    def _exit_code(self, rank: int) -> int | None:
        return self._processes[rank].poll()


class MultiprocessContext(PContext):
    """Workers that call a function and send back its value."""

    def __init__(self, *args: Any, start_method: str = "spawn", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._context: Any = multiprocessing.get_context(start_method)
        self._processes: dict[int, Any] = {}
        self._pipes: dict[int, Any] = {}
        self._values: dict[int, Any] = {}

    def _start(self, rank: int) -> None:
        reader, writer = self._context.Pipe(duplex=False)
        self._pipes[rank] = reader
        streams = self.logs.stdouts[rank], self.logs.stderrs[rank]
        process = self._context.Process(
            target=_call, args=(self.entrypoint, self.args[rank], self.envs[rank], streams, writer)
        )
        process.start()
        writer.close()
        self._processes[rank] = process

    def pids(self) -> dict[int, int]:
        """Return process ids by local rank."""
        return {rank: process.pid for rank, process in self._processes.items()}

    def _exit_code(self, rank: int) -> int | None:
        if rank not in self._values and self._pipes[rank].poll():
            try:  # read while the worker runs: a large value would fill the pipe
                self._values[rank] = self._pipes[rank].recv()
            except EOFError:
                self._values[rank] = None
        code: int | None = self._processes[rank].exitcode
        return code

    def _value(self, rank: int) -> Any:
        return self._values.get(rank)


def _call(
    function: Callable[..., Any], args: tuple[Any, ...], env: dict[str, str],
    streams: tuple[str, str], pipe: Any,
) -> None:
    """Run the function in a worker process and send its value."""
    os.environ.update(env)
    _tie_to_launcher()
    for descriptor, path in enumerate(streams, 1):
        if path != CONSOLE:
            with open(path, "wb") as file:
                os.dup2(file.fileno(), descriptor)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    value = record(function)(*args)
    pipe.send_bytes(pickle.dumps(value))
    pipe.close()


def _tie_to_launcher() -> None:
    """On Linux, make this new process receive SIGTERM when the launcher exits for any reason."""
    if _libc is not None:
        set_parent_death_signal = 1
        _libc.prctl(set_parent_death_signal, int(signal.SIGTERM))


class macros:
    """Macros that command lines may contain for a worker's values."""

    local_rank = "${local_rank}"

    @staticmethod
    def substitute(args: list[Any], local_rank: str) -> list[Any]:
        """Return the arguments for the worker with this local rank."""
        return [string.Template(arg).safe_substitute(local_rank=local_rank)
                if isinstance(arg, str) else arg for arg in args]


def start_processes(
    name: str, entrypoint: Callable[..., Any] | str, args: dict[int, tuple[Any, ...]],
    envs: dict[int, dict[str, str]], logs_specs: LogsSpecs | None = None,
    log_line_prefixes: dict[int, str] | None = None, start_method: str = "spawn",
) -> PContext:
    """Start a worker for each local rank. `args` and `envs` must have the same ranks.

    A str `entrypoint` is a command, anything else a function. Raises RuntimeError if the ranks
    differ.
    """
    if args.keys() != envs.keys() or sorted(args) != list(range(len(args))):
        raise RuntimeError(f"local rank mapping mismatch: args {sorted(args)}, envs {sorted(envs)}")
    specs = logs_specs or DefaultLogsSpecs()
    context: PContext
    if isinstance(entrypoint, str):
        context = SubprocessContext(name, entrypoint, args, envs, specs, log_line_prefixes)
    else:
        context = MultiprocessContext(name, entrypoint, args, envs, specs, log_line_prefixes,
                                      start_method=start_method)
    context.start()
    return context
