"""The parts of data loading, under the names that PyTorch gives them."""

from __future__ import annotations

import sys

from flambeau.multiprocessing.exception_wrapper import ExceptionWrapper

from . import collate, fetch, worker

__all__ = ["ExceptionWrapper", "collate", "fetch", "worker"]

HAS_NUMPY = True
IS_WINDOWS = sys.platform == "win32"
MP_STATUS_CHECK_INTERVAL = 5.0  # seconds that workers have to end in before they are terminated
python_exit_status = False
