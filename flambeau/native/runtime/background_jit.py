"""Kernels for eager operators, compiled in the background: requested by one call, used from the
next.

Which call first uses a kernel depends on the calls alone, never on how long compilation takes, so a
program that runs again gives the same bits.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ..foundation import fork_imports as fork_imports  # its hooks
from ..foundation.user_frames import warn

if TYPE_CHECKING:
    from ..jit.kernel_function import KernelFunction
    from ..loop_ir.ir import Kernel


class KernelPolicy:
    """Whether eager operators may use kernels.

    They round sums differently from NumPy and start with a certain call, so a program that must
    resume bit-identically in a new process sets `allowed` to False.
    """

    allowed = True
    counts = True  # whether calls of small arrays count towards compiling


class _RecordingState(threading.local):
    """Whether this thread records a step. The program that comes of it replaces the eager calls, so
    compiling kernels for them would cost more than it saves."""

    calls: dict[Hashable, float] | None = None  # calls without a kernel, by key, in this step

    CALLS_BEFORE_COMPILING = 64  # of one kind in one step, from which on kernels pay


_recording = _RecordingState()


@contextmanager
def recording(only_known: bool) -> Iterator[None]:
    """Meanwhile this thread asks for no kernels that were not asked for before, if `one`."""
    before = _recording.calls
    _recording.calls = {} if only_known else before
    try:
        yield
    finally:
        _recording.calls = before


_lock = threading.Lock()
_ready: dict[Hashable, Any] = {}  # None: could not be made
_compiling: dict[Hashable, threading.Event] = {}
_queue: list[tuple[Hashable, Callable[[], Any]]] = []
_active_threads = 0  # threads that make kernels
failed_builds: dict[Hashable, Exception] = {}  # of kernels that could have been made


def is_recording() -> bool:
    """Whether this thread runs a call only to record it."""
    return _recording.calls is not None


def request_kernel(
    key: Hashable, builder: Callable[[], Kernel], exact: bool = False, worth: float = 1
) -> KernelFunction | None:
    """The function of the kernel that `builder` builds; None for the first call with this key.

    The second call waits for the compilation. None also if KernelPolicy forbids kernels or the
    build failed, and for calls that are only recorded (`recording`) unless there are many of a
    kind: a large one counts as `worth` calls. `exact` kernels, which match the other path bit by
    bit, are always allowed and never waited for.
    """
    if not (exact or KernelPolicy.allowed):
        return None
    try:
        return _ready[key]
    except KeyError:
        pass
    event = _compiling.get(key)
    if event is None:
        if _should_compile(key, worth):
            _enqueue(key, builder)
        return None
    if exact:
        return None
    if not event.is_set():
        _prioritize(key)
        event.wait()
    return _ready.get(key)


def _should_compile(key: Hashable, worth: float) -> bool:
    """Whether to compile a missing kernel; depends on the calls alone."""
    calls = _recording.calls
    if calls is None:
        return True
    calls[key] = calls.get(key, 0) + worth
    return calls[key] >= _RecordingState.CALLS_BEFORE_COMPILING


def _enqueue(key: Hashable, builder: Callable[[], Kernel]) -> None:
    """Has a kernel made."""
    with _lock:
        if key in _compiling or key in _ready:
            return
        _compiling[key] = threading.Event()
        _queue.append((key, builder))
        _start_thread(1)


def _prioritize(key: Hashable) -> None:
    """Somebody waits for a kernel: it comes first, and the waiting one's processor helps."""
    from ..jit.worker_pool import WORKERS

    with _lock:
        _queue.sort(key=lambda item: item[0] != key)
        _start_thread(max(2, len(WORKERS.ready)))


def _start_thread(most: int) -> None:
    """Start a thread to make what waits, unless so many are at work. Within the lock."""
    global _active_threads
    if _queue and _active_threads < most:
        _active_threads += 1
        if not run_in_background("flambeau-kernels", _work):
            _active_threads -= 1
            if not _active_threads:
                _give_up()


def run_in_background(name: str, work: Callable[..., None], *arguments: Any) -> bool:
    """Run work on a thread of its own; returns whether the system allowed one."""
    try:
        threading.Thread(target=work, args=arguments, name=name, daemon=True).start()
    except RuntimeError:
        return False
    return True


def _give_up() -> None:
    """Nobody can make what waits: the NumPy path goes on to be used. Within the lock."""
    for key, _ in _queue:
        _ready[key] = None
        _compiling[key].set()
    _queue.clear()


def _work() -> None:
    """Make what waits, then end."""
    global _active_threads
    from ..jit.kernel_function import compile_all
    from .thread_pool import threads

    while True:
        with _lock:
            if not _queue:
                _active_threads -= 1
                return
            key, builder = _queue.pop(0)
        function = None
        try:
            function = compile_all([builder()], threads())[0]
        except Exception as error:  # the NumPy path goes on to be used
            if not _is_expected(error):
                _tell(key, error)
        finally:
            _ready[key] = function
            _compiling[key].set()


def _is_expected(error: Exception) -> bool:
    """Whether it says that there is no kernel for this processor, or not now."""
    if isinstance(error, NotImplementedError | ImportError | OSError | MemoryError):
        return True
    from ..codegen.conv.direct_blocking import (
        Unsupported,
    )

    return isinstance(error, Unsupported)


def _tell(key: Hashable, error: Exception) -> None:
    """A fault of a kernel's builder is no user's affair, but must not go unseen."""
    if sys.is_finalizing() or not threading.main_thread().is_alive():
        return
    failed_builds[key] = error
    with suppress(RuntimeWarning):  # warnings that are errors would end the thread
        warn(f"the kernel {key} could not be made, and NumPy does its work: "
             f"{type(error).__name__}: {error}", RuntimeWarning)


class Small(dict[Any, int]):
    """Addresses, by dtype, of a kernel for arrays so small that NumPy's calls are what they cost.

    0 up to call CALLS_BEFORE_USE, and where there can be none: so that it depends on the calls
    alone, not on how long compiling takes, which call is the kernel's first.
    """

    CALLS_BEFORE_COMPILING, CALLS_BEFORE_USE = 32, 256

    def __init__(self, builder: Callable[[Any], Kernel]) -> None:
        super().__init__()
        self.builder = builder  # of the dtype
        self.calls: dict[Any, int] = {}

    def __missing__(self, kind: Any) -> int:
        if not KernelPolicy.counts:
            return 0
        count = self.calls[kind] = self.calls.get(kind, 0) + 1
        if count == self.CALLS_BEFORE_COMPILING:  # its code is then on disk, or on the way there
            request_kernel((id(self), kind), lambda: self.builder(kind))
        elif count == self.CALLS_BEFORE_USE:
            self[kind] = self._compile(kind)
            return self[kind]
        return 0

    def _compile(self, kind: Any) -> int:
        from ..jit.kernel_function import compile_kernel

        try:
            return compile_kernel(self.builder(kind)).address
        except (NotImplementedError, RuntimeError, ValueError, ImportError):
            return 0


def _forked() -> None:
    """A child has no thread at work: what was being made is asked for again."""
    global _lock, _active_threads
    _lock, _active_threads = threading.Lock(), 0
    _queue.clear()
    for key in _compiling.keys() - _ready.keys():
        del _compiling[key]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
