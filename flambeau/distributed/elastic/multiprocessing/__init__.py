"""torch.distributed.elastic.multiprocessing: workers on one machine, their output and errors."""

from . import api, errors, logs, tail_log
from .api import (
    MultiprocessContext, PContext, RunProcsResult, SignalException, SubprocessContext,
    start_processes,
)
from .errors import ChildFailedError, ErrorHandler, ProcessFailure, get_error_handler, record
from .logs import DefaultLogsSpecs, LogsDest, LogsSpecs, Std, to_map

__all__ = [
    "ChildFailedError", "DefaultLogsSpecs", "ErrorHandler", "LogsDest", "LogsSpecs",
    "MultiprocessContext", "PContext", "ProcessFailure", "RunProcsResult", "SignalException",
    "Std", "SubprocessContext", "get_error_handler", "record", "start_processes", "to_map",
]
