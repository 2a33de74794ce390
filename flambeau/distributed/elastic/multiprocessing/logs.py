"""Destinations of the workers' output: the console, files, or both."""

from __future__ import annotations

import os
import re
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntFlag
from typing import Any, TextIO

__all__ = ["DefaultLogsSpecs", "LogsDest", "LogsSpecs", "Std", "TailLog", "to_map"]

CONSOLE = ""  # a path that stands for the launcher's stream
_VALUE = r"^[0123]$"
_MAPPING = r"^(\d:[0123],)*(\d:[0123])$"


class Std(IntFlag):
    """Standard streams of a worker."""

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = OUT | ERR

    @classmethod
    def from_str(cls, vm: str) -> Std | dict[int, Std]:
        """Parse a command-line value into streams, for all workers or by local rank.

        >>> from flambeau.distributed.elastic.multiprocessing import Std
        >>> Std.from_str("0:3,1:1")
        {0: <Std.ALL: 3>, 1: <Std.OUT: 1>}
        """
        if re.match(_VALUE, vm):
            return cls(int(vm))
        if re.match(_MAPPING, vm):
            pairs = (item.split(":") for item in vm.split(","))
            return {int(rank): cls(int(value)) for rank, value in pairs}
        raise ValueError(f"{vm} does not match: <{_VALUE}> or <{_MAPPING}>")


def to_map(val_or_map: Std | dict[int, Std], local_world_size: int) -> dict[int, Std]:
    """Return streams by local rank."""
    if isinstance(val_or_map, Std):
        return dict.fromkeys(range(local_world_size), val_or_map)
    return {rank: val_or_map.get(rank, Std.NONE) for rank in range(local_world_size)}


@dataclass
class LogsDest:
    """Files by local rank. In `stdouts` and `stderrs`, "" is the launcher's stream."""

    stdouts: dict[int, str] = field(default_factory=dict)
    stderrs: dict[int, str] = field(default_factory=dict)
    tee_stdouts: dict[int, str] = field(default_factory=dict)
    tee_stderrs: dict[int, str] = field(default_factory=dict)
    error_files: dict[int, str] = field(default_factory=dict)
    filtered_stdout: str = ""
    filtered_stderr: str = ""


class LogsSpecs(ABC):
    """Base class that decides where the workers' output goes."""

    def __init__(
        self, log_dir: str | None = None, redirects: Std | dict[int, Std] = Std.NONE,
        tee: Std | dict[int, Std] = Std.NONE, local_ranks_filter: set[int] | None = None,
    ) -> None:
        self._root_log_dir, self._redirects, self._tee = log_dir, redirects, tee
        self._local_ranks_filter = local_ranks_filter

    @abstractmethod
    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """Return the files of one attempt; add the error files to the workers' environments."""

    @property
    @abstractmethod
    def root_log_dir(self) -> str:
        """The folder of all files."""


class DefaultLogsSpecs(LogsSpecs):
    """Files are `<log_dir>/<run id>_<random>/attempt_<n>/<local rank>/{stdout,stderr}.log`."""

    def __init__(
        self, log_dir: str | None = None, redirects: Std | dict[int, Std] = Std.NONE,
        tee: Std | dict[int, Std] = Std.NONE, local_ranks_filter: set[int] | None = None,
    ) -> None:
        self._temporary: Any = None
        if not log_dir:
            self._temporary = tempfile.TemporaryDirectory(prefix="torchelastic_")
            log_dir = self._temporary.name
        elif os.path.isfile(log_dir):
            raise NotADirectoryError(f"log_dir: {log_dir} is a file")
        elif log_dir != os.devnull:
            os.makedirs(log_dir, exist_ok=True)
        if redirects != Std.NONE or tee != Std.NONE:
            _keep(self._temporary)
        super().__init__(log_dir, redirects, tee, local_ranks_filter)
        self._run_log_dir: str | None = None

    @property
    def root_log_dir(self) -> str:
        """The folder of all files."""
        return str(self._root_log_dir)

    def _attempt_folder(self, env: dict[str, str]) -> str:
        if self._run_log_dir is None:
            run_id = env["TORCHELASTIC_RUN_ID"]
            self._run_log_dir = tempfile.mkdtemp(prefix=f"{run_id}_", dir=self._root_log_dir)
        attempt = env.get("TORCHELASTIC_RESTART_COUNT", "0")
        return os.path.join(self._run_log_dir, f"attempt_{attempt}")

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """Return the files of one attempt; add the error files to the workers' environments."""
        files, count = LogsDest(), len(envs)
        redirects, tee = to_map(self._redirects, count), to_map(self._tee, count)
        for rank, env in envs.items():
            nowhere = self._root_log_dir == os.devnull
            folder = os.devnull if nowhere else os.path.join(self._attempt_folder(env), str(rank))
            if not nowhere:
                os.makedirs(folder)
                files.error_files[rank] = env["TORCHELASTIC_ERROR_FILE"] = os.path.join(
                    folder, "error.json"
                )
            shown = not self._local_ranks_filter or rank in self._local_ranks_filter
            for std, name, paths, tees in (
                (Std.OUT, "stdout.log", files.stdouts, files.tee_stdouts),
                (Std.ERR, "stderr.log", files.stderrs, files.tee_stderrs),
            ):
                to_file = std & (redirects[rank] | tee[rank])
                path = os.devnull if nowhere else os.path.join(folder, name)
                paths[rank] = path if to_file else CONSOLE if shown else os.devnull
                if std & tee[rank] and shown and not nowhere:
                    tees[rank] = path
        return files


def _keep(folder: Any) -> None:
    """Keep a temporary folder at exit: the user asked for its files."""
    if folder is not None:
        folder._finalizer.detach()


class TailLog:
    """Print the lines of growing files on a thread, with a prefix such as `[default0]:`."""

    def __init__(
        self, name: str, log_files: dict[int, str], dst: TextIO | None,
        log_line_prefixes: dict[int, str] | None = None, interval_sec: float = 0.1,
        log_line_filter: Callable[[str], bool] = lambda line: True,
    ) -> None:
        prefixes = log_line_prefixes or {}
        self._files = {path: prefixes.get(rank, f"[{name}{rank}]:")
                       for rank, path in log_files.items()}
        self._destination, self._interval_s, self._filter = dst, interval_sec, log_line_filter
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> TailLog:
        """Start tailing on a thread."""
        if self._files and self._destination is not None:
            self._thread = threading.Thread(target=self._run, name="tail", daemon=True)
            self._thread.start()
        return self

    def stop(self) -> None:
        """Print the rest and stop."""
        self._end.set()
        if self._thread is not None:
            self._thread.join()

    def stopped(self) -> bool:
        """Return whether `stop` was called."""
        return self._end.is_set()

    def _run(self) -> None:
        files: dict[str, TextIO] = {}
        pending = dict.fromkeys(self._files, "")
        while True:
            last = self._end.is_set()
            for path in self._files:
                if path not in files and os.path.exists(path):
                    files[path] = open(path, errors="replace")  # noqa: SIM115
                if path in files:
                    pending[path] = self._print(path, pending[path] + files[path].read(), last)
            if last:
                break
            self._end.wait(self._interval_s)
        for file in files.values():
            file.close()

    def _print(self, path: str, text: str, last: bool) -> str:
        """Print complete lines; return the incomplete last line."""
        assert self._destination is not None
        lines = text.splitlines(keepends=True)
        rest = "" if last or not lines or lines[-1].endswith("\n") else lines.pop()
        for line in lines:
            if self._filter(line):
                self._destination.write(self._files[path] + line)
        if lines:
            self._destination.flush()
        return rest
