"""Work: a collective that was started; Communicator: the threads that run those of a group."""

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
    """A collective that was started with `async_op=True`.

    `wait()` returns True once the tensors are there, and raises what went wrong.
    """

    def __init__(self, outputs: Any = None) -> None:
        self._outputs, self._error, self._source = outputs, None, -1
        self._future: Future | None = None
        self._running = _lock()
        self._running.acquire()

    _error: BaseException | None

    @classmethod
    def completed(cls, outputs: Any = None) -> Work:
        """A work that is done already."""
        result = cls(outputs)
        result.finish(None)
        return result

    def finish(self, error: BaseException | None) -> None:
        """Say that the collective has ended; for the thread that ran it."""
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
            pass  # it was settled by the thread that asked for it, at the same moment

    def is_completed(self) -> bool:
        """Whether it has ended, well or not."""
        return not self._running.locked()

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self.is_completed() and self._error is None

    def exception(self) -> BaseException | None:
        """What went wrong; None where nothing did."""
        return self._error

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits for the end: True, or the error. DistBackendError after `timeout`."""
        limit_s = -1.0 if timeout is None else timeout.total_seconds()
        if not self._running.acquire(True, limit_s if limit_s != 0 else -1.0):
            raise DistBackendError(f"Operation timed out! It runs longer than {limit_s:g} s.")
        self._running.release()
        if self._error is not None:
            raise self._error
        return True

    synchronize = wait

    def result(self) -> Any:
        """The tensors that it fills, once it has ended."""
        if not self.is_completed():
            raise RuntimeError("Work needs to be completed before calling result(). "
                               "Should call wait() before result().")
        return [] if self._outputs is None else self._outputs

    def get_future(self) -> Future:
        """A torch.futures.Future of the tensors."""
        if self._future is None:
            future = self._future = Future()
            if self.is_completed():
                self._settle(future)
        return self._future

    def source_rank(self) -> int:
        """Who sent what a receive got."""
        return self._source

    _source_rank = source_rank


class _Lane:
    """A thread that runs calls in order, from the first one on."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Work] | None] = queue.SimpleQueue()
        self.pending = 0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, call: Callable[[], Any], work: Work) -> None:
        """Has the thread run `call`, then finish `work`."""
        self.pending += 1
        self._calls.put((call, work))

    def close(self) -> None:
        """End the thread once the calls before are done."""
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
    """Runs the collectives of a group: those that must not block in a thread, others in the
    caller's, as long as nothing is pending that was started before.

    Sends and receives have a thread for each peer, direction and tag: they may overtake
    collectives.
    """

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine, self._name = engine, name
        self._lanes: dict[Any, _Lane] = {}

    def run(
        self, call: Callable[[], Any], async_op: bool = False, outputs: Any = None, lane: Any = None
    ) -> Work | None:
        """Run a call in its lane: a Work with `async_op`, else None once it is done."""
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
        """Has the lane's thread run a call."""
        thread = self._lanes.get(lane)
        if thread is None:
            thread = self._lanes[lane] = _Lane(f"{self._name} {lane or 'collectives'}")
        work = Work(outputs)
        thread.submit(call, work)
        return work

    def close(self) -> None:
        """End the threads and the engine."""
        for thread in self._lanes.values():
            thread.close()
        self._lanes.clear()
        self.engine.close()
