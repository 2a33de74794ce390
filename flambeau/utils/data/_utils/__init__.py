"""Data loading internals under PyTorch's names."""

from __future__ import annotations

import sys

from ....multiprocessing.exception_wrapper import ExceptionWrapper
from . import collate, fetch, worker

__all__ = ["ExceptionWrapper", "collate", "fetch", "worker"]

HAS_NUMPY = True
IS_WINDOWS = sys.platform == "win32"
MP_STATUS_CHECK_INTERVAL = 5.0  # time for workers to exit before they are terminated
python_exit_status = False
