"""Files that a thread writes while the run goes on: one at a time, each whole or not at all."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterable, Sequence
from typing import Any

from ...native.foundation.user_frames import warn
from ...tensor.tensor import Tensor
from .storage import Location, duplicate, free_space, write_state


class Writer:
    """Writes one state after the other; what went wrong is said by the thread that asks next.

    A disk that is full is a warning, because the file before is still there and the run can go on;
    what cannot be pickled raises.
    """

    def __init__(self, background: bool = True) -> None:
        self.background = background
        self.failed: tuple[Location, str, BaseException] | None = None
        self.wrote = True  # whether the last state is on the disk
        self._written: dict[Location, str] = {}
        self._thread: threading.Thread | None = None

    def write(
        self, state: Any, paths: Sequence[Location], label: str, obsolete: Sequence[Location] = ()
    ) -> None:
        """Write `state` under each path in turn, then remove what is `obsolete`; waits for the one
        before, whose failure is told."""
        self.wait()
        if not self.background:
            self._work(state, paths, label, obsolete)
            self.tell()
            return
        # No daemon: a program that ends waits for what it is writing.
        self._thread = threading.Thread(
            target=self._work, args=(state, paths, label, obsolete), name="flambeau checkpoint"
        )
        self._thread.start()

    def wait(self) -> None:
        """Until all is written; then tells what was not."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.tell()

    @property
    def idle(self) -> bool:
        """Whether nothing is being written now."""
        return self._thread is None or not self._thread.is_alive()

    def tell(self) -> None:
        """Warn of a write that failed, or raise what was no matter of the disk."""
        failed, self.failed = self.failed, None
        if failed is None:
            return
        path, label, error = failed
        if not isinstance(error, OSError):
            raise error
        older = "There is none from before"
        if path.exists():
            older = f"That of {self._written.get(path, 'an earlier run')} is still there, whole"
        warn(
            f"the checkpoint {path.as_posix()} of {label} was not written: "
            f"{error.strerror or error} ({free_space(path.parent)}). {older}. The run goes on, and "
            "tries again at the next",
            UserWarning,
        )

    def _work(
        self, state: Any, paths: Sequence[Location], label: str, obsolete: Sequence[Location]
    ) -> None:
        path, self.wrote = paths[0], False
        try:
            write_state(state, path)
            self._written[path] = label
            for path in paths[1:]:
                duplicate(paths[0], path)
                self._written[path] = label
            self.wrote = True
            for path in obsolete:
                path.unlink(missing_ok=True)
        except BaseException as error:
            if not isinstance(error, OSError) and (place := _unpicklable(state)):
                error.add_note(f"while writing {path.as_posix()}: the state's {place} cannot be "
                               "pickled")
            self.failed = path, label, error


def _unpicklable(tree: Any, place: str = "") -> str:
    """Where in a state the first thing is that cannot be pickled; "" where there is none."""
    parts: Iterable[tuple[Any, Any]]
    if isinstance(tree, dict):
        parts = tree.items()
    elif isinstance(tree, (list, tuple)):
        parts = enumerate(tree)
    elif isinstance(tree, Tensor):
        return ""
    else:
        try:
            pickle.dumps(tree)
        except Exception:
            return place
        return ""
    return next(filter(None, (_unpicklable(v, f"{place}[{k!r}]") for k, v in parts)), "")
