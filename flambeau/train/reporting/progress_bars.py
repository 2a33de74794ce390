"""Where progress is shown: a terminal, rich, tqdm, a notebook, or lines of a log.

A bar is started for a stage of the run, told now and then how far it is, and finished; `line`
writes a line that stays.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any, TextIO

_EIGHTHS = " ▏▎▍▌▋▊▉█"


class Bar:
    """Shows nothing in between: only the lines that stay, as in a log file."""

    interval = 60.0  # seconds between updates

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def start(self, title: str, total: int | None) -> None:
        """A stage begins, of `total` steps where that is known."""
        self.title, self.total = title, total

    def update(self, done: int, words: str) -> None:
        """So far `done` steps."""
        of = "" if self.total is None else f"/{self.total}"
        self.line(f"{self.title}  {done}{of}  {words}")

    def finish(self) -> None:
        """The stage is over; what was shown of it goes away."""

    def line(self, words: str) -> None:
        """Writes a line that stays."""
        self.stream.write(words + "\n")
        self.stream.flush()

    def close(self) -> None:
        """The run is over."""


class TerminalBar(Bar):
    """One line that is written again and again, with nothing but a terminal."""

    interval = 0.1

    def update(self, done: int, words: str) -> None:
        """Draws the line anew."""
        width = shutil.get_terminal_size((100, 24)).columns - 1
        head = f"{self.title}  "
        if self.total:
            head += f"{gauge(done / self.total, 20)} {done}/{self.total}  "
        else:
            head += f"{done}  "
        self.stream.write("\r\x1b[2K" + (head + words)[:width])
        self.stream.flush()

    def finish(self) -> None:
        """Clears the line."""
        self.stream.write("\r\x1b[2K")
        self.stream.flush()


class RichBar(Bar):
    """rich's live display."""

    interval = 0.1

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._console = Console(file=stream)
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(),
            TextColumn("{task.fields[words]}"), console=self._console, auto_refresh=False,
            transient=True,
        )  # fmt: skip
        self._task: Any = None

    def start(self, title: str, total: int | None) -> None:
        """Adds a bar."""
        super().start(title, total)
        self._progress.start()
        self._task = self._progress.add_task(title, total=total, words="")

    def update(self, done: int, words: str) -> None:
        """Moves the bar."""
        self._progress.update(self._task, completed=done, words=words)
        self._progress.refresh()

    def finish(self) -> None:
        """Takes the bar away."""
        if self._task is not None:
            self._progress.remove_task(self._task)
            self._progress.refresh()
            self._task = None

    def line(self, words: str) -> None:
        """Writes a line above the bar."""
        self._console.print(words, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Ends the display."""
        self._progress.stop()


class TqdmBar(Bar):
    """tqdm's bar."""

    interval = 0.1

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        from tqdm import tqdm

        self._tqdm = tqdm
        self._bar: Any = None

    def start(self, title: str, total: int | None) -> None:
        """Makes a bar."""
        super().start(title, total)
        layout = "{desc}  |{bar:20}| {n_fmt}/{total_fmt}  {postfix}"
        self._bar = self._tqdm(
            total=total, desc=title, file=self.stream, leave=False, dynamic_ncols=True,
            mininterval=0, miniters=1, bar_format=None if total is None else layout,
        )  # fmt: skip

    def update(self, done: int, words: str) -> None:
        """Moves the bar."""
        self._bar.set_postfix_str(words, refresh=False)
        self._bar.update(done - self._bar.n)

    def finish(self) -> None:
        """Takes the bar away."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def line(self, words: str) -> None:
        """Writes a line above the bar."""
        self._tqdm.write(words, file=self.stream)


class NotebookBar(Bar):
    """One output of a notebook's cell, replaced as the run goes on: lines, and a bar below."""

    interval = 0.25

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        from IPython.display import display

        self._lines: list[str] = []
        self._bar = ""
        self._handle = display(self, display_id=True)

    def _repr_html_(self) -> str:
        lines = "\n".join(map(_escaped, self._lines))
        return f'<pre style="line-height:1.3;margin:0">{lines}</pre>{self._bar}'

    def __repr__(self) -> str:
        return "\n".join(self._lines)

    def update(self, done: int, words: str) -> None:
        """Draws the bar anew."""
        bar = f'<progress value="{done}" max="{self.total}"></progress> ' if self.total else ""
        of = f"/{self.total}" if self.total else ""
        text = _escaped(f"{self.title}  {done}{of}  {words}")
        self._bar = f"<div>{bar}<code>{text}</code></div>"
        self._handle.update(self)

    def finish(self) -> None:
        """Takes the bar away."""
        self._bar = ""
        self._handle.update(self)

    def line(self, words: str) -> None:
        """Adds a line."""
        self._lines.append(words)
        self._handle.update(self)


KINDS: dict[str, type[Bar]] = {
    "log": Bar, "terminal": TerminalBar, "rich": RichBar, "tqdm": TqdmBar, "notebook": NotebookBar,
}  # fmt: skip


def check_kind(kind: str | None) -> None:
    """Raises ValueError for a kind of bar that there is not."""
    if kind is not None and kind not in KINDS:
        raise ValueError(f"progress is one of {', '.join(KINDS)} or None, not {kind!r}")


def bar_for(kind: str | None, stream: TextIO | None = None) -> Bar:
    """The bar called `kind`; None finds what fits: a notebook, rich or tqdm on a terminal where
    installed, a log elsewhere. Raises ImportError for one whose package is not there."""
    stream = sys.stderr if stream is None else stream
    check_kind(kind)
    if kind is not None:
        try:
            return KINDS[kind](stream)
        except ImportError as error:
            raise ImportError(f"progress {kind!r} needs a package: {error}; 'terminal' and 'log' "
                              "need none") from error  # fmt: skip
    if in_notebook():
        return NotebookBar(stream)
    if not stream.isatty() or os.environ.get("TERM") == "dumb":
        return Bar(stream)
    for fancy in (RichBar, TqdmBar):
        try:
            return fancy(stream)
        except ImportError:
            continue
    return TerminalBar(stream)


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this program."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def gauge(share: float, width: int) -> str:
    """A bar of `width` characters, filled in eighths.

    >>> gauge(0.5, 4) + "|"
    '██  |'
    """
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    bar = "█" * full + (_EIGHTHS[rest] if rest else "")
    return bar.ljust(width)


def _escaped(words: str) -> str:
    return words.replace("&", "&amp;").replace("<", "&lt;")
