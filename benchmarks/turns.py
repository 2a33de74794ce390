"""Processes that take turns: one is at work at a time, until it asks for its next turn or ends.

A process asks by `wait_for_turn`, the first time before it does anything. Engines that are measured
so see the same seconds of a machine that others use too, a few tenths at a time.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence

ASK = "turn"
PAUSE = 0.02  # seconds after a turn, in which threads that spin for more work give up


def wait_for_turn() -> None:
    """In the process: says that it is done for now, and waits until it may go on."""
    print(ASK, flush=True)
    sys.stdin.readline()


class Process:
    """One of them. `limit`: seconds of a turn after which it counts as one that does not run."""

    def __init__(self, command: Sequence[str], env: dict[str, str], limit: float) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed when it has ended
        self._process = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            text=True,
        )
        self._limit = limit
        self.lines: list[str] = []  # of its output, but for what asks
        self.errors = ""
        self.ended = False
        self._until_it_asks()

    @property
    def failed(self) -> bool:
        """Whether it ended otherwise than it should."""
        return self._process.returncode != 0

    def turn(self) -> None:
        """Lets it work until it asks for another turn, or ends."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        self._until_it_asks()

    def _until_it_asks(self) -> None:
        assert self._process.stdout is not None
        alarm = threading.Timer(self._limit, self._process.kill)
        alarm.start()
        for line in self._process.stdout:
            if line.strip() == ASK:
                alarm.cancel()
                return
            self.lines.append(line)
        self._process.wait()
        alarm.cancel()
        self._errors.seek(0)
        self.errors, self.ended = self._errors.read(), True
        self._errors.close()


def all_in_turn(processes: Sequence[Process]) -> None:
    """Until all have ended: a turn for each that has not."""
    live = [process for process in processes if not process.ended]
    while live:
        for process in live:
            process.turn()
            time.sleep(PAUSE)
        live = [process for process in live if not process.ended]
