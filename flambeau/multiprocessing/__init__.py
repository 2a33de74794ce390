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
)

__all__ = [
    "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException",
    "SpawnContext", "get_all_sharing_strategies", "get_sharing_strategy", "init_reductions",
    "set_sharing_strategy", "spawn", "start_processes",
]
__all__ += _python.__all__

init_reductions()


_STRATEGIES = {"file_descriptor", "file_system"}
_strategy = ["file_descriptor"]


def get_all_sharing_strategies() -> set[str]:
    """The names of ways to share memory.

    >>> sorted(torch.multiprocessing.get_all_sharing_strategies())
    ['file_descriptor', 'file_system']
    """
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    """The one that was set, at first "file_descriptor"."""
    return _strategy[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """Accept both; AssertionError for others.

    Either way memory is a file without a name, which takes nothing of `/dev/shm` and leaves nothing
    behind. Batches of a DataLoader take one file descriptor a worker, however many are alive.
    """
    if new_strategy not in _STRATEGIES:
        raise AssertionError(
            f"invalid sharing strategy {new_strategy!r}, expected one of {_STRATEGIES}"
        )
    _strategy[0] = new_strategy
