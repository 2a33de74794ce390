"""The parent's side of a DataLoader's workers: start, communicate, detect death, and clean up."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import select
import signal
import socket
import time
import weakref
from collections import deque
from multiprocessing import reduction
from typing import Any

import numpy.random  # noqa: F401 - here, and not once in each forked worker

from ....multiprocessing import init_reductions
from ....native.foundation.user_frames import warn
from ....tensor.shared_memory import create_unnamed_file
from .arena import ArenaView
from .batch_message import read_message
from .channel import ParentChannel, open_process

__all__ = ["WorkerPool"]

_GRACE_S = 5.0  # time for the last batch when an epoch is abandoned
_OPEN: weakref.WeakSet[WorkerPool] = weakref.WeakSet()  # the pools of this process

init_reductions()


class WorkerPool:
    """`num_workers` processes that each run `main(settings, worker_id, ...)`.

    The pool does not order messages: it returns (worker, epoch, task, data) as they arrive.
    """

    def __init__(self, main: Any, settings: Any, context: Any) -> None:
        self.processes: list[Any] = []
        self._pid = os.getpid()
        self._channels: list[ParentChannel] = []
        self._views: list[ArenaView] = []
        self._sentinels: dict[int, int] = {}  # descriptors that signal a worker's exit
        self._pidfds: list[int | None] = []
        self._worker_of: dict[int, int] = {}  # by its channel's descriptor
        self._poll = select.poll()
        self._arrived: deque[tuple[int, int, int, Any]] = deque()
        self._closed = False
        _OPEN.add(self)
        context = multiprocessing.get_context() if context is None else context
        try:
            for worker in range(settings.num_workers):
                self._start(worker, main, settings, context)
        except BaseException:
            self.close()
            raise

    # Start.

    def _start(self, worker: int, main: Any, settings: Any, context: Any) -> None:
        parent_end, worker_end = socket.socketpair()
        channel = ParentChannel(parent_end)
        self._channels.append(channel)
        view = ArenaView(create_unnamed_file())
        self._views.append(view)
        forked = context.get_start_method() == "fork"
        memory: Any = view.descriptor
        try:
            process = context.Process(
                target=main,
                args=(settings, worker, worker_end,
                      memory if forked else _Descriptor(memory), forked),
                daemon=True,
            )
            forks = ArenaView.forks
            try:
                process.start()
            except (TypeError, AttributeError, pickle.PicklingError):
                _warn_of_pickling()
                raise
            ArenaView.forks = forks  # a worker's dataset lives in the parent too
        finally:
            worker_end.close()
        self.processes.append(process)
        self._worker_of[channel.fileno()] = worker
        self._poll.register(channel.fileno(), select.POLLIN)
        pidfd = open_process(process.pid)
        self._pidfds.append(pidfd)
        self._sentinels[process.sentinel if pidfd is None else pidfd] = worker
        self.watch(worker)

    # Messages.

    def send(self, worker: int, task: int, indices: Any) -> None:
        """Send a task to a worker, with the regions it can reuse."""
        channel = self._channels[worker]
        message = (task, indices, self._views[worker].take_released())
        channel.send(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))
        if channel.outbox:
            self._poll.modify(channel.fileno(), select.POLLIN | select.POLLOUT)

    def receive(self, timeout_s: float | None) -> tuple[int, int, int, Any] | None:
        """Return the next message, or None after the timeout.

        Raises RuntimeError as soon as a watched worker has ended, even if messages are pending.
        """
        self._look(0.0)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._arrived:
            remaining_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            if remaining_s == 0.0:
                return None
            self._look(remaining_s)
        return self._arrived.popleft()

    def _look(self, timeout_s: float | None) -> None:
        """Read pending messages; wait only if there are none."""
        dead = []
        for descriptor, event in self._poll.poll(None if timeout_s is None else timeout_s * 1000):
            worker = self._worker_of.get(descriptor)
            if worker is None:
                dead.append(self._sentinels[descriptor])
                continue
            if event & select.POLLOUT:
                self._flush(worker)
            if event & ~select.POLLOUT:
                self._read(worker)
        if dead:
            self._raise(dead)

    def _read(self, worker: int) -> None:
        channel = self._channels[worker]
        for message in channel.receive():
            self._arrived.append((worker, *read_message(message, self._views[worker])))
        if channel.ended:  # the worker is gone too; its sentinel will report it
            self._poll.unregister(channel.fileno())

    def _flush(self, worker: int) -> None:
        channel = self._channels[worker]
        channel.flush()
        if not channel.outbox:
            self._poll.modify(channel.fileno(), select.POLLIN)

    # Ends.

    def watch(self, worker: int) -> None:
        """Treat this worker's exit as an error from now on."""
        self._poll.register(self._find_sentinel(worker), select.POLLIN)

    def dismiss(self, worker: int, end: bool) -> None:
        """Allow the worker to exit; with `end`, make it."""
        self._poll.unregister(self._find_sentinel(worker))
        if end:
            channel = self._channels[worker]
            if not channel.ended:
                self._poll.unregister(channel.fileno())
            del self._worker_of[channel.fileno()]
            channel.close()

    def _find_sentinel(self, worker: int) -> int:
        pidfd = self._pidfds[worker]
        sentinel: int = self.processes[worker].sentinel if pidfd is None else pidfd
        return sentinel

    def _raise(self, workers: list[int]) -> None:
        """Raise RuntimeError for workers that exited unexpectedly, with the first one's cause."""
        for worker in workers:
            self._poll.unregister(self._find_sentinel(worker))  # report once
            self.processes[worker].join(_GRACE_S)
        pids = ", ".join(str(self.processes[worker].pid) for worker in workers)
        cause = _describe_end(self.processes[workers[0]])
        raise RuntimeError(f"DataLoader worker (pid(s) {pids}) exited unexpectedly") from cause

    def close(self) -> None:
        """Stop all workers: idle ones at once, the others after their current batch.

        Workers that take longer than five seconds are terminated.
        """
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        for channel in self._channels:
            channel.close()
        deadline = time.monotonic() + _GRACE_S
        try:
            for process in self.processes:
                process.join(max(0.0, deadline - time.monotonic()))
        finally:
            for process in self.processes:
                _terminate(process)
            for pidfd in self._pidfds:
                if pidfd is not None:
                    os.close(pidfd)
            self._arrived.clear()

    def forget_workers(self) -> None:
        """Drop the workers in a forked child, which must not keep them alive."""
        for channel in self._channels:
            channel.close()
        self._closed = True


class _Descriptor:
    """A file descriptor that can be pickled for a starting process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __reduce__(self) -> tuple[Any, ...]:
        return _return_descriptor, (reduction.DupFd(self._descriptor),)


def _return_descriptor(descriptor: Any) -> Any:
    return descriptor


def _describe_end(process: Any) -> RuntimeError:
    """Describe how a worker ended."""
    code, start = process.exitcode, f"DataLoader worker (pid {process.pid}) "
    if code is None or code >= 0:
        return RuntimeError(
            f"{start}exited unexpectedly with exit code {code}. Details are lost due to "
            "multiprocessing. Rerunning with num_workers=0 may give better error trace."
        )
    message = f"{start}is killed by signal: {signal.strsignal(-code)}. "
    if -code == signal.SIGBUS:
        message += ("It is possible that dataloader's workers are out of shared memory. Please try "
                    "to raise your shared memory limit.")
    error = RuntimeError(message)
    if -code == signal.SIGKILL:
        error.add_note("The system often kills a worker when memory runs out.")
    return error


def _terminate(process: Any) -> None:
    if process.is_alive():
        process.terminate()
        process.join(_GRACE_S)
    if process.is_alive():
        process.kill()
        process.join()


def _warn_of_pickling() -> None:
    warn(
        "Got pickle error when attempting to start a worker Process. "
        "This might be because the worker Process arguments are not picklable. "
        "Python 3.14+ changed the multiprocessing start method in non-Mac POSIX platforms "
        "to 'forkserver', which requires the worker Process arguments to be picklable. "
        "You can also try multiprocessing.set_start_method('fork').",
    )


def _forget_after_fork() -> None:
    for pool in list(_OPEN):
        pool.forget_workers()
    _OPEN.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
