"""Progress displays: tqdm's bars in a terminal or a notebook, or plain lines of a log.

A stage of the run starts a bar, updates it now and then, and finishes it; `line` writes a line
that stays.
"""

from __future__ import annotations

import os
import sys
from typing import Any, TextIO


class LogLines:
    """Write lines only, as in a log file."""

    interval = 60.0  # seconds between updates

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def start(self, title: str, total: int | None) -> None:
        """Start a stage of `total` steps, if known."""
        self.title, self.total = title, total

    def update(self, done: int, words: str) -> None:
        """Report `done` steps."""
        total = "" if self.total is None else f"/{self.total}"
        self.line(f"{self.title}  {done}{total}  {words}")

    def finish(self) -> None:
        """End the stage and clear its display."""

    def line(self, words: str) -> None:
        """Write a line that stays."""
        self.stream.write(words + "\n")
        self.stream.flush()

    def close(self) -> None:
        """Release the display at the end of the run."""


class TerminalBar(LogLines):
    """tqdm's bar in a terminal."""

    interval = 0.1
    _FORMAT = "{desc}  |{bar:20}| {n_fmt}/{total_fmt}{postfix}"

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._tqdm = self._import_bar_class()
        self._bar: Any = None

    @staticmethod
    def _import_bar_class() -> Any:
        from tqdm import tqdm

        return tqdm

    def start(self, title: str, total: int | None) -> None:
        """Open a bar."""
        super().start(title, total)
        self._bar = self._tqdm(
            total=total, desc=title, file=self.stream, leave=False, dynamic_ncols=True,
            mininterval=0, miniters=1, bar_format=None if total is None else self._FORMAT,
        )

    def update(self, done: int, words: str) -> None:
        """Move the bar."""
        self._bar.set_postfix_str(words, refresh=False)
        self._bar.update(done - self._bar.n)

    def finish(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def line(self, words: str) -> None:
        """Write a line above the bar."""
        self._tqdm.write(words, file=self.stream)


class NotebookBar(TerminalBar):
    """tqdm's widget in a notebook, and its text bar where ipywidgets is not installed."""

    interval = 0.25
    _FORMAT = "{l_bar}{bar}{n_fmt}/{total_fmt}{postfix}"

    @staticmethod
    def _import_bar_class() -> Any:
        from tqdm.notebook import IProgress, tqdm

        return TerminalBar._import_bar_class() if IProgress is None else tqdm


KINDS: dict[str, type[LogLines]] = {
    "log": LogLines, "terminal": TerminalBar, "notebook": NotebookBar,
}


def check_kind(kind: str | None) -> None:
    """Raise ValueError for an unknown kind of bar."""
    if kind is not None and kind not in KINDS:
        raise ValueError(f"progress must be one of {', '.join(KINDS)} or None, not {kind!r}")


def choose_bar(kind: str | None, stream: TextIO | None = None) -> LogLines:
    """Return the bar called `kind`; None chooses: a widget in a notebook, a bar in a terminal, else
    lines. `stream` defaults to stderr.
    """
    stream = sys.stderr if stream is None else stream
    check_kind(kind)
    if kind is None:
        kind = "notebook" if is_in_notebook() else "terminal" if _is_terminal(stream) else "log"
    return KINDS[kind](stream)


def is_in_notebook() -> bool:
    """Whether the program runs in a notebook kernel."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def _is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"
