"""Write files in a background thread, in order, each atomically."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterable, Sequence
from typing import Any

from ...native.foundation.user_frames import warn
from ...tensor.tensor import Tensor
from .storage import Location, duplicate, describe_free_space, write_state


class Writer:
    """Writes states in sequence; reports a failure at the next call from the training thread.

    A full disk is a warning, because the previous file is still there and the run can continue; a
    state that cannot be pickled raises.
    """

    def __init__(self, background: bool = True) -> None:
        self.background = background
        self.failed: tuple[Location, str, BaseException] | None = None
        self.wrote = True  # whether the last state is on disk
        self._written: dict[Location, str] = {}
        self._thread: threading.Thread | None = None

    def write(
        self, state: Any, paths: Sequence[Location], label: str, obsolete: Sequence[Location] = ()
    ) -> None:
        """Write `state` to each path, then remove `obsolete` files. Waits for the previous write
        and reports its failure."""
        self.wait()
        if not self.background:
            self._write_files(state, paths, label, obsolete)
            self.report_failure()
            return
        # No daemon: a program that exits waits for its last write.
        self._thread = threading.Thread(
            target=self._write_files, args=(state, paths, label, obsolete),
            name="flambeau checkpoint",
        )
        self._thread.start()

    def wait(self) -> None:
        """Wait for the write in progress, then report a failure."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.report_failure()

    @property
    def idle(self) -> bool:
        """Whether no write is in progress."""
        return self._thread is None or not self._thread.is_alive()

    def report_failure(self) -> None:
        """Warn about a failed write; raise errors that the disk did not cause."""
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
            f"{error.strerror or error} ({describe_free_space(path.parent)}). {older}. The "
            "run continues and tries again at the next",
            UserWarning,
        )

    def _write_files(
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
            if not isinstance(error, OSError) and (entry := _find_unpicklable(state)):
                error.add_note(f"while writing {path.as_posix()}: the state's {entry} cannot be "
                               "pickled")
            self.failed = path, label, error


def _find_unpicklable(tree: Any, path: str = "") -> str:
    """Return the path of the first entry of a state that cannot be pickled, or ""."""
    entries: Iterable[tuple[Any, Any]]
    if isinstance(tree, dict):
        entries = tree.items()
    elif isinstance(tree, (list, tuple)):
        entries = enumerate(tree)
    elif isinstance(tree, Tensor):
        return ""
    else:
        try:
            pickle.dumps(tree)
        except Exception:
            return path
        return ""
    return next(filter(None, (_find_unpicklable(v, f"{path}[{k!r}]") for k, v in entries)), "")
