"""Log to CSV: a row per epoch, and optionally a second file with a row per step."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

from .logger import Logger, should_log, is_resuming


class Table:
    """A CSV file. A row with new columns rewrites it, atomically."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.columns: list[str] = []
        self.rows: list[dict[str, Any]] = []
        self._file: Any = None

    def open(self, rows: list[dict[str, Any]]) -> None:
        """Start the file with existing rows."""
        if self.path.is_dir():
            raise IsADirectoryError(f"'{self.path}' is a folder, but the logger needs a file")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.rows = rows
        self.columns = list(dict.fromkeys(name for row in rows for name in row))
        self._rewrite()

    def read(self) -> list[dict[str, Any]]:
        """Return the rows of an earlier run, without a truncated last line."""
        if not self.path.exists():
            return []
        with open(self.path, newline="") as file:
            rows = [row for row in csv.DictReader(file) if None not in row.values()]
        return [{name: value for name, value in row.items() if value != ""} for row in rows]

    def add(self, row: dict[str, Any]) -> None:
        """Append a line and flush it."""
        self.rows.append(row)
        new = [name for name in row if name not in self.columns]
        if new:
            self.columns += new
            self._rewrite()
        else:
            self._write_row(row)
            self._file.flush()

    def _write_row(self, row: dict[str, Any]) -> None:
        csv.writer(self._file, lineterminator="\n").writerow(
            [row.get(name, "") for name in self.columns]
        )

    def _rewrite(self) -> None:
        self.close()
        replacement = self.path.with_name(self.path.name + ".new")
        self._file = open(replacement, "w", newline="")  # noqa: SIM115  (open as long as the run)
        if self.columns:
            csv.writer(self._file, lineterminator="\n").writerow(self.columns)
        for row in self.rows:
            self._write_row(row)
        self._file.flush()
        os.replace(replacement, self.path)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


class CSVLogger(Logger):
    """Write a row per epoch to `path`; with `every=n`, every n-th step to `<name>.steps.csv`.

    Metrics that appear later get new columns.

    >>> from flambeau.train import Trainer
    >>> x, log = torch.zeros(4, 2), CSVLogger("log.csv")
    >>> trainer = Trainer(nn.Linear(2, 1), "sgd", "mse", compile=False, callbacks=[log])
    >>> _ = trainer.fit((x, x[:, :1]), epochs=3)
    >>> with open("log.csv") as file:
    ...     len(file.readlines())  # the heading, and a line for each epoch
    4
    """

    def __init__(self, path: str | os.PathLike[str], every: int | None = None) -> None:
        super().__init__(every)
        self.path = Path(path)
        self._epochs = Table(self.path)
        self._steps = Table(self.path.with_suffix(".steps" + (self.path.suffix or ".csv")))

    def open(self, run: Any) -> None:
        """Start the files; a resumed run keeps the lines up to where it resumes."""
        resumes = is_resuming(run)
        earlier = self._epochs.read() if resumes else []
        self._epochs.open([row for row in earlier if should_log(run, row)])
        if self.every is not None:
            steps = self._steps.read() if resumes else []
            self._steps.open([row for row in steps if should_log(run, {**row, "kind": "step"})])

    def write_epoch(self, epoch: int, step: int, numbers: dict[str, float]) -> None:
        """Write an epoch's line."""
        self._epochs.add({"epoch": epoch, "step": step, **numbers})

    def write_step(self, epoch: int, step: int, numbers: dict[str, float]) -> None:
        """Write a step's line."""
        self._steps.add({"epoch": epoch, "step": step, **numbers})

    def close(self) -> None:
        """Close the files."""
        self._epochs.close()
        self._steps.close()
