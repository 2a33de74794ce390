"""A lock of several processes: a file that one of them creates."""

from __future__ import annotations

import os
import time
from typing import Any

from ..native.foundation.user_frames import warn

__all__ = ["FileBaton"]


class FileBaton:
    """Who creates the file holds the baton until it removes the file.

    >>> import tempfile
    >>> from flambeau.utils.file_baton import FileBaton
    >>> path = tempfile.mktemp()
    >>> first, second = FileBaton(path), FileBaton(path)
    >>> first.try_acquire(), second.try_acquire()
    (True, False)
    >>> first.release()
    """

    def __init__(
        self, lock_file_path: Any, wait_seconds: float = 0.1,
        warn_after_seconds: float | None = None,
    ) -> None:
        self.lock_file_path, self.wait_seconds = lock_file_path, wait_seconds
        self.warn_after_seconds = warn_after_seconds
        self.fd: int | None = None

    def try_acquire(self) -> bool:
        """Create the file; return whether it was not there."""
        try:
            self.fd = os.open(self.lock_file_path, os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return False
        return True

    def wait(self) -> None:
        """Wait until the file is gone; warn once after `warn_after_seconds`."""
        start, has_warned = time.time(), self.warn_after_seconds is None
        while os.path.exists(self.lock_file_path):
            time.sleep(self.wait_seconds)
            if not has_warned and time.time() - start > (self.warn_after_seconds or 0):
                warn(f'Waited on lock file "{self.lock_file_path}" for '
                     f"{self.warn_after_seconds} seconds.")
                has_warned = True

    def release(self) -> None:
        """Remove the file."""
        if self.fd is not None:
            os.close(self.fd)
        os.remove(self.lock_file_path)
