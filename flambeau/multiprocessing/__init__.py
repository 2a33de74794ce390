"""torch.multiprocessing: Python's multiprocessing, in which tensors are sent as shared memory.

A tensor that goes to another process, in a queue or as an argument, is moved to shared memory;
both then have the same numbers, and see what the other one writes.
"""

import multiprocessing as _python
from multiprocessing import *

from .reductions import init_reductions
from .spawn import (
    ProcessContext, ProcessException, ProcessExitedException, ProcessRaisedException, SpawnContext,
    spawn, start_processes,
)  # fmt: skip

__all__ = [
    "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException",
    "SpawnContext", "get_all_sharing_strategies", "get_sharing_strategy", "init_reductions",
    "set_sharing_strategy", "spawn", "start_processes",
]  # fmt: skip
__all__ += _python.__all__

init_reductions()


def get_all_sharing_strategies() -> set[str]:
    """The ways to share memory.

    >>> torch.multiprocessing.get_all_sharing_strategies()
    {'file_descriptor'}
    """
    return {"file_descriptor"}


def get_sharing_strategy() -> str:
    """The way that memory is shared: by file descriptors."""
    return "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """Accepts 'file_descriptor' and 'file_system', which share alike; else AssertionError."""
    if new_strategy not in ("file_descriptor", "file_system"):
        raise AssertionError(f"invalid sharing strategy {new_strategy}")
