"""Log to JSON lines: an object per line, readable while the run goes on."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from .logger import Logger, as_json_number, should_log, is_resuming


class JSONLogger(Logger):
    """Append `{"kind": "epoch", "epoch": 1, "step": 100, "time": ..., "loss": ...}` to `path`.

    With `every=n` also lines of kind "step". NaN and infinities are the strings "nan", "inf".

    >>> import json
    >>> from flambeau.train import Trainer
    >>> x, log = torch.zeros(4, 2), JSONLogger("log.jsonl")
    >>> trainer = Trainer(nn.Linear(2, 1), "sgd", "mse", compile=False, callbacks=[log])
    >>> _ = trainer.fit((x, x[:, :1]), epochs=2)
    >>> with open("log.jsonl") as file:
    ...     [json.loads(line)["epoch"] for line in file]
    [1, 2]
    """

    def __init__(self, path: str | os.PathLike[str], every: int | None = None) -> None:
        super().__init__(every)
        self.path = Path(path)
        self._file: Any = None

    def open(self, run: Any) -> None:
        """Start the file; a resumed run keeps the lines up to where it resumes."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = self._read_earlier(run) if is_resuming(run) and self.path.exists() else []
        replacement = self.path.with_name(self.path.name + ".new")
        replacement.write_text("".join(lines))
        os.replace(replacement, self.path)
        self._file = open(self.path, "a")  # noqa: SIM115  (open as long as the run)

    def _read_earlier(self, run: Any) -> list[str]:
        lines = []
        for line in self.path.read_text().splitlines(keepends=True):
            try:
                row = json.loads(line)
            except ValueError:  # cut off by whatever ended the run
                continue
            if should_log(run, row):
                lines.append(line)
        return lines

    def _write(self, row_kind: str, epoch: int, step: int, metrics: dict[str, float]) -> None:
        row = {"kind": row_kind, "epoch": epoch, "step": step, "time": round(time.time(), 3)}
        row.update({name: as_json_number(value) for name, value in metrics.items()})
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()

    def write_epoch(self, epoch: int, step: int, numbers: dict[str, float]) -> None:
        """Write an epoch's line."""
        self._write("epoch", epoch, step, numbers)

    def write_step(self, epoch: int, step: int, numbers: dict[str, float]) -> None:
        """Write a step's line."""
        self._write("step", epoch, step, numbers)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
