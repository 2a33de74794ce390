"""Work: a started collective. Communicator: the threads that run a group's collectives."""

from __future__ import annotations

import _thread
import queue
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from ..futures import Future
from .engines.engine import Engine
from .errors import DistBackendError

__all__ = ["Communicator", "Work"]

_lock = _thread.allocate_lock


class Work:
    """A collective started with `async_op=True`.

    `wait()` returns True once the tensors are filled, or raises the collective's error.
    """

    def __init__(self, outputs: Any = None) -> None:
        self._outputs, self._error, self._source = outputs, None, -1
        self._future: Future | None = None
        self._running = _lock()
        self._running.acquire()

    _error: BaseException | None

    @classmethod
    def completed(cls, outputs: Any = None) -> Work:
        """Return a Work that is already complete."""
        result = cls(outputs)
        result.finish(None)
        return result

    def finish(self, error: BaseException | None) -> None:
        """Mark the collective as ended. Called by the thread that ran it."""
        self._error = error
        self._running.release()
        if self._future is not None:
            self._settle(self._future)

    def _settle(self, future: Future) -> None:
        try:
            if self._error is None:
                future.set_result(self.result())
            else:
                future.set_exception(self._error)
        except RuntimeError:
            pass  # settled concurrently by the thread that requested it

    def is_completed(self) -> bool:
        """Return whether it has ended, successfully or not."""
        return not self._running.locked()

    def is_success(self) -> bool:
        """Return whether it has ended successfully."""
        return self.is_completed() and self._error is None

    def exception(self) -> BaseException | None:
        """Return the error, or None."""
        return self._error

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait; return True or raise the error. Raises DistBackendError after `timeout`."""
        limit_s = -1.0 if timeout is None else timeout.total_seconds()
        if not self._running.acquire(True, limit_s if limit_s != 0 else -1.0):
            raise DistBackendError(f"Operation timed out! It runs longer than {limit_s:g} s.")
        self._running.release()
        if self._error is not None:
            raise self._error
        return True

    synchronize = wait

    def result(self) -> Any:
        """Return the tensors it filled. Raises RuntimeError before the end."""
        if not self.is_completed():
            raise RuntimeError("Work needs to be completed before calling result(). "
                               "Should call wait() before result().")
        return [] if self._outputs is None else self._outputs

    def get_future(self) -> Future:
        """Return a torch.futures.Future of the tensors."""
        if self._future is None:
            future = self._future = Future()
            if self.is_completed():
                self._settle(future)
        return self._future

    def source_rank(self) -> int:
        """Return the sender's rank of a receive."""
        return self._source

    _source_rank = source_rank


class _Lane:
    """A thread that runs calls in order."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Work] | None] = queue.SimpleQueue()
        self.pending = 0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, call: Callable[[], Any], work: Work) -> None:
        """Run `call` on the thread, then finish `work`."""
        self.pending += 1
        self._calls.put((call, work))

    def close(self) -> None:
        """Stop the thread after the calls already submitted."""
        self._calls.put(None)

    def _run(self) -> None:
        while (entry := self._calls.get()) is not None:
            call, work = entry
            error: BaseException | None = None
            try:
                call()
            except BaseException as failure:
                error = failure
            self.pending -= 1
            work.finish(error)
            del entry, call, work, error


class Communicator:
    """Runs a group's collectives. Async ones run on a thread, others on the caller's thread unless
    earlier calls are pending.

    Sends and receives have a thread per peer, direction and tag, so they may overtake collectives.
    """

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine, self._name = engine, name
        self._lanes: dict[Any, _Lane] = {}

    def run(
        self, call: Callable[[], Any], async_op: bool = False, outputs: Any = None, lane: Any = None
    ) -> Work | None:
        """Run a call in its lane. Return a Work if `async_op`, else None when it is done."""
        if self.engine.calls_are_fast:
            thread = self._lanes.get(lane)
            if self.engine.size == 1 or not (async_op or (thread and thread.pending)):
                call()
                return Work.completed(outputs) if async_op else None
        work = self.start(call, outputs, lane)
        if async_op:
            return work
        work.wait()
        return None

    def start(self, call: Callable[[], Any], outputs: Any = None, lane: Any = None) -> Work:
        """Run a call on the lane's thread."""
        thread = self._lanes.get(lane)
        if thread is None:
            thread = self._lanes[lane] = _Lane(f"{self._name} {lane or 'collectives'}")
        work = Work(outputs)
        thread.submit(call, work)
        return work

    def close(self) -> None:
        """Stop the threads and the engine."""
        for thread in self._lanes.values():
            thread.close()
        self._lanes.clear()
        self.engine.close()
