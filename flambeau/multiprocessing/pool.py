"""A pool of processes whose arguments and results may be tensors."""

from __future__ import annotations

import gc
import multiprocessing
import multiprocessing.pool
from typing import Any

from .queue import SimpleQueue

__all__ = ["Pool", "clean_worker"]


def clean_worker(*args: Any, **kwargs: Any) -> None:
    """Run a pool's worker, and release its tensors' shared memory at the end."""
    gc.collect()
    worker: Any = multiprocessing.pool
    worker.worker(*args, **kwargs)
    gc.collect()


class Pool(multiprocessing.pool.Pool):
    """multiprocessing's pool, with queues for tensors.

    Its processes are started in the way of its context; `torch.multiprocessing.Pool` uses the
    default one.
    """

    def _setup_queues(self) -> None:
        pool: Any = self
        context = pool._ctx if hasattr(pool, "_ctx") else multiprocessing.get_context()
        pool._inqueue, pool._outqueue = SimpleQueue(ctx=context), SimpleQueue(ctx=context)
        pool._quick_put = pool._inqueue._writer.send
        pool._quick_get = pool._outqueue._reader.recv
