"""Continue a run from its last checkpoint, whatever ended it."""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any

from ..events.order import Band
from ..reporting.provenance import describe_rounding
from .checkpoint import Checkpoint
from .storage import Location, as_location, read_state, find_unfinished


class Resume:
    """Load the newest checkpoint in a folder, or a file, when the run starts.

    With an empty folder the run starts from the beginning, so the same command starts and resumes.
    The steps that follow equal those of an uninterrupted run bit for bit. Reports an unreadable
    checkpoint and falls back to the previous one. `trainer.fit(..., resume=folder)` does this, and
    adds a Checkpoint if there is none. `weights_only=False` unpickles any objects that callbacks
    persist; use it only for files that you trust.

    >>> from flambeau.train import Trainer
    >>> x = torch.zeros(4, 2)
    >>> for epochs in (1, 3):  # the second run continues after the first epoch
    ...     trainer = Trainer(nn.Linear(2, 1), "sgd", "mse", compile=False)
    ...     history = trainer.fit((x, x[:, :1]), epochs=epochs, resume="runs/b")
    ...     print([row["epoch"] for row in history])
    [1]
    [1, 2, 3]
    """

    band = Band.CHECKPOINT

    def __init__(
        self, path: str | os.PathLike[str], *, weights_only: bool = True, quiet: bool = False
    ) -> None:
        self.path, self.weights_only, self.quiet = as_location(path), weights_only, quiet

    @property
    def is_file(self) -> bool:
        """Whether the location is a checkpoint rather than a folder of them."""
        return self.path.suffix in (".pt", ".pth", ".ckpt")

    def on_run_start(self, run: Any) -> None:
        """Load the checkpoint, unless the run already has a state loaded by hand."""
        run.exact(True)
        self._remove_partial_files()
        if run.state.resumed:
            return
        path, state = self._find_newest()
        if state is None:
            return
        try:
            run.load_state_dict(state)
        except Exception as error:
            error.add_note(f"while resuming from {path}")
            raise
        self._say(f"going on from {path.as_posix()}: epoch {run.state.epoch}, "
                  f"step {run.state.step}")
        current, recorded = describe_rounding(), state.get("rounding", {})
        changes = [f"{key} {recorded[key]}, now {current[key]}" for key in current
                   if recorded.get(key, current[key]) != current[key]]
        if changes:
            self._say(f"results may differ in the last bits: saved with {'; '.join(changes)}")

    def on_run_end(self, run: Any) -> None:
        """Allow inexact steps again."""
        run.exact(False)

    def on_run_error(self, run: Any) -> None:
        """Allow inexact steps again."""
        run.exact(False)

    on_run_end.band = on_run_error.band = Band.OUTER  # type: ignore[attr-defined]

    # ---- files ----

    def candidates(self) -> list[Location]:
        """Return the checkpoints, the preferred one first."""
        if self.is_file:
            if not self.path.is_file():
                raise FileNotFoundError(f"there is no checkpoint {self.path}")
            return [self.path]
        if not self.path.is_dir():
            return []
        result = sorted(self.path.glob("*.pt"), key=lambda p: p.stat().st_mtime, reverse=True)
        last = self.path / "last.pt"
        return [last, *(p for p in result if p != last)] if last in result else result

    def _find_newest(self) -> tuple[Location, dict[str, Any] | None]:
        unreadable: list[str] = []
        for path in self.candidates():
            try:
                state = read_state(path, self.weights_only)
                if not isinstance(state, dict) or not {"run", "stage"} & set(state):
                    raise ValueError("it is not a checkpoint of a run")
            except pickle.UnpicklingError as error:
                error.add_note(
                    f"while resuming from {path}: a callback persists objects other than "
                    "numbers, tensors and containers. If you trust the file, "
                    "Resume(path, weights_only=False) loads it"
                )
                raise
            except (OSError, RuntimeError, ValueError, EOFError) as error:
                unreadable.append(f"{path.name} cannot be read ({type(error).__name__}: {error})")
                continue
            if unreadable:
                self._say(f"{'; '.join(unreadable)}: using {path.name} instead")
            return path, state
        if unreadable:
            raise RuntimeError(f"{self.path}: no checkpoint can be read: {'; '.join(unreadable)}")
        return self.path, None

    def _remove_partial_files(self) -> None:
        """Report and remove partial files of a process killed during a write."""
        for path in find_unfinished(self.path.parent if self.is_file else self.path):
            name = path.name[1:].partition(".pt.")[0] + ".pt"
            path.unlink(missing_ok=True)
            self._say(f"the last process ended while it wrote {name}: the unfinished file is "
                      "removed, the one before it is whole")

    def _say(self, text: str) -> None:
        if not self.quiet:
            print(f"resume: {text}", file=sys.stderr)


def add_resume(path: Any, attached: list[Any], callbacks: list[Any]) -> list[Any]:
    """Return the callbacks of `fit(resume=path)`: Resume first, then Checkpoint."""
    resume = path if isinstance(path, Resume) else Resume(path)
    folder = resume.path.parent if resume.is_file else resume.path
    for callback in (*attached, *callbacks):
        if isinstance(callback, Checkpoint) and callback.folder.resolve() == folder.resolve():
            return [resume, *callbacks]
    return [resume, *callbacks, Checkpoint(folder, minutes=1, name="resume")]
