"""A folder that documents an experiment: config, code, environment, seeds and outcome. Written
before the first step, so that crashed runs are documented too."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import random
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from ...ops.creation.random import initial_seed, manual_seed
from ...tensor.tensor import Tensor
from ..events.order import Band
from ..loggers import CSVLogger, JSONLogger
from ..state.formatting import list_scalars
from .learning_curves import PlotCurves
from .provenance import describe_code, describe_environment


class Experiment:
    """Create `folder` if it does not exist, and seed all random numbers.

    Create it before the net, whose weights depend on the seed. As a callback it records the run's
    end. Files: `config.json`; `starts.jsonl`, a line for each start with its command,
    commit, seed and the names of the files `code-*.diff` (changes since the commit) and
    `environment-*.json` (Python, packages, processor); `status.json`.

    Starting again in the same folder adds a start, so that a killed run can be resumed; a
    different config raises a ValueError that lists the differences. `Experiment.new(root, name)`
    makes a new numbered folder each time.

    >>> experiment = Experiment("runs/first", {"lr": 0.1}, seed=1)
    >>> (experiment / "net.pt").as_posix()
    'runs/first/net.pt'
    >>> Experiment("runs/first", {"lr": 0.2})
    Traceback (most recent call last):
        ...
    ValueError: runs/first has a different config: lr is 0.1 there, 0.2 here; use another folder
    """

    band = Band.IO

    def __init__(
        self, folder: str | os.PathLike[str], config: Any = None, *, seed: int | None = None
    ) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.config = as_plain_config(config)
        self._store_config()
        self.seed = self._choose_seed(seed)
        self._began = time.time()
        self._record_start()

    @classmethod
    def new(
        cls, root: str | os.PathLike[str], name: str = "", config: Any = None, **options: Any
    ) -> Self:
        """Return an experiment in a new folder: `root/001-name`, `root/002-name`, ..."""
        root = Path(root)
        root.mkdir(parents=True, exist_ok=True)
        used = [int(p.name[:3]) for p in root.iterdir() if p.name[:3].isdigit()]
        number = max(used, default=0)
        while True:
            number += 1
            folder = root / (f"{number:03}-{name}" if name else f"{number:03}")
            try:
                folder.mkdir()
            except FileExistsError:  # another process was faster
                continue
            return cls(folder, config, **options)

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    def loggers(self, every: int | None = None) -> list[Any]:
        """Return callbacks that write logs and learning curves to the folder."""
        return [
            CSVLogger(self / "log.csv", every),
            JSONLogger(self / "log.jsonl", every),
            PlotCurves(self.folder),
        ]

    # ---- as a callback ----

    def on_run_start(self, run: Any) -> None:
        """Record that the run has started."""
        self._began = time.time()
        self._write_status("running", run)

    def on_epoch_end(self, run: Any) -> None:
        """Record the run's progress and metrics."""
        self._write_status("running", run)

    def on_run_end(self, run: Any) -> None:
        """Record that the run is done."""
        self._write_status("stopped" if run.stopping else "finished", run)

    def on_run_error(self, run: Any) -> None:
        """Record the error that ended the run."""
        self._write_status("failed", run, repr(run.state.error or sys.exc_info()[1]))

    def _write_status(self, status: str, run: Any, error: str | None = None) -> None:
        state = run.state
        metrics = {name: _round_for_table(value)
                   for name, value in list_scalars(state.metrics).items()}
        write_json(self / "status.json", {
            "status": status, **({} if error is None else {"error": error}), "epoch": state.epoch,
            "step": state.step, "seconds": round(time.time() - self._began, 3),
            "time": _format_now(), "numbers": metrics,
        })

    # ---- files ----

    def _store_config(self) -> None:
        path = self / "config.json"
        if path.exists():
            earlier = json.loads(path.read_text())
            if earlier != self.config:
                raise ValueError(
                    f"{self.folder.as_posix()} has a different config: "
                    f"{list_differences(earlier, self.config)}; use another folder"
                )
        else:
            write_json(path, self.config)

    def _choose_seed(self, seed: int | None) -> int:
        if seed is None:
            return int(initial_seed())
        manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        return seed

    def _record_start(self) -> None:
        commit, difference = describe_code()
        if difference:
            commit["diff"] = self._store("code", ".diff", difference)
        details = json.dumps(describe_environment(), indent=2)
        line = {
            "time": _format_now(), "command": sys.argv, "folder": os.getcwd(), "pid": os.getpid(),
            "seed": self.seed, "code": commit,
            "environment": self._store("environment", ".json", details.encode()),
        }
        with open(self / "starts.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")

    def _store(self, stem: str, suffix: str, data: bytes) -> str:
        """Write data under a name derived from its contents: equal data share a file."""
        name = f"{stem}-{hashlib.sha256(data).hexdigest()[:8]}{suffix}"
        if not (self / name).exists():
            (self / name).write_bytes(data)
        return name


def as_plain_config(config: Any) -> Any:
    """Convert a config (dict, dataclass, argparse namespace) to JSON values."""
    if config is None:
        return {}
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        config = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    if isinstance(config, Mapping):
        return {str(key): as_plain_config(value) if value is not None else None
                for key, value in config.items()}
    if isinstance(config, (list, tuple, set, frozenset)):
        items = sorted(config, key=repr) if isinstance(config, (set, frozenset)) else config
        return [as_plain_config(item) if item is not None else None for item in items]
    if isinstance(config, (Tensor, np.ndarray, np.generic)):
        return config.tolist()
    if isinstance(config, float):
        return _round_for_table(config)
    if isinstance(config, (str, int, bool)):
        return config
    if type(config).__name__ in ("Namespace", "SimpleNamespace"):
        return as_plain_config(vars(config))
    return config.__qualname__ if hasattr(config, "__qualname__") else repr(config)


def list_differences(earlier: Any, current: Any, name: str = "") -> str:
    """Describe the differences between two configs."""
    if isinstance(earlier, dict) and isinstance(current, dict):
        differences = []
        for key in {**earlier, **current}:
            entry = f"{name}.{key}" if name else key
            if key not in current:
                differences.append(f"{entry} is missing here")
            elif key not in earlier:
                differences.append(f"{entry} is missing there")
            elif earlier[key] != current[key]:
                differences.append(list_differences(earlier[key], current[key], entry))
        return ", ".join(differences)
    return f"{name or 'it'} is {earlier!r} there, {current!r} here"


def write_json(path: Path, content: Any) -> None:
    """Write a file atomically."""
    replacement = path.with_name(f".{path.name}.new")
    replacement.write_text(json.dumps(content, indent=2) + "\n")
    os.replace(replacement, path)


def _round_for_table(value: float) -> float | str:
    return value if np.isfinite(value) else str(value)


def _format_now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
