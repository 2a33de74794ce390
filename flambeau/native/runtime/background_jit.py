"""Background compilation of kernels for eager operators: one call requests, the next one uses.

Which call first uses a kernel depends only on the calls, never on compile time, so rerunning a
program gives the same bits.
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
from ..target.eager_costs import (
    CALLS_BEFORE_COMPILING, CALLS_BEFORE_USE, RECORDED_CALLS_BEFORE_COMPILING,
)

if TYPE_CHECKING:
    from ..jit.kernel_function import KernelFunction
    from ..loop_ir.ir import Kernel


class KernelPolicy:
    """Whether eager operators may use kernels.

    Kernels round sums differently from NumPy and start at some call, so a program that must resume
    bit-identically in a new process sets `allowed` to False.
    """

    allowed = True
    counts = True  # whether calls on small arrays count towards compiling


class _RecordingState(threading.local):
    """Whether this thread records a step. The recorded program will replace the eager calls, so
    compiling kernels for them would cost more than it saves."""

    calls: dict[Hashable, float] | None = None  # calls without a kernel, by key, in this step


_recording = _RecordingState()


@contextmanager
def recording(only_known: bool) -> Iterator[None]:
    """If `only_known`, compile a new kernel in the block only after many calls with its key."""
    before = _recording.calls
    _recording.calls = {} if only_known else before
    try:
        yield
    finally:
        _recording.calls = before


_lock = threading.Lock()
_ready: dict[Hashable, Any] = {}  # None: the build failed
_compiling: dict[Hashable, threading.Event] = {}
_queue: list[tuple[Hashable, Callable[[], Any]]] = []
_active_threads = 0  # threads that build kernels
failed_builds: dict[Hashable, Exception] = {}  # unexpected errors, by key


def is_recording() -> bool:
    """Whether this thread runs calls only to record them."""
    return _recording.calls is not None


def request_kernel(
    key: Hashable, builder: Callable[[], Kernel], exact: bool = False, weight: float = 1,
    at_once: bool = False,
) -> KernelFunction | None:
    """Return the compiled kernel that `builder` builds; None on the first call with this key.

    The second call waits for the compilation. Also None if KernelPolicy forbids kernels, if the
    build failed, and for calls that are only recorded (`recording`) until
    RECORDED_CALLS_BEFORE_COMPILING of a key; one call counts as `weight` calls. `exact` kernels
    match NumPy bit for bit, so they are always allowed and never waited for.
    """
    if not (exact or KernelPolicy.allowed):
        return None
    try:
        return _ready[key]
    except KeyError:
        pass
    event = _compiling.get(key)
    if event is None:
        if not _should_compile(key, weight):
            return None
        _enqueue(key, builder)
        if not at_once:
            return None
        event = _compiling[key]
    if exact:
        return None
    if not event.is_set():
        _prioritize(key)
        event.wait()
    return _ready.get(key)


def _should_compile(key: Hashable, weight: float) -> bool:
    """Whether to compile a missing kernel; depends only on the calls."""
    calls = _recording.calls
    if calls is None:
        return True
    calls[key] = calls.get(key, 0) + weight
    return calls[key] >= RECORDED_CALLS_BEFORE_COMPILING


def _enqueue(key: Hashable, builder: Callable[[], Kernel]) -> None:
    """Queue a kernel for compilation."""
    with _lock:
        if key in _compiling or key in _ready:
            return
        _compiling[key] = threading.Event()
        _queue.append((key, builder))
        _start_thread(1)


def _prioritize(key: Hashable) -> None:
    """Move a kernel that a caller waits for to the front, and allow a second compile thread."""
    from ..jit.worker_pool import WORKERS

    with _lock:
        _queue.sort(key=lambda item: item[0] != key)
        _start_thread(max(2, len(WORKERS.ready)))


def _start_thread(max_threads: int) -> None:
    """Start a compile thread unless `max_threads` already run. The caller holds the lock."""
    global _active_threads
    if _queue and _active_threads < max_threads:
        _active_threads += 1
        if not run_in_background("flambeau-kernels", _build_queued):
            _active_threads -= 1
            if not _active_threads:
                _give_up()


def run_in_background(name: str, work: Callable[..., None], *arguments: Any) -> bool:
    """Run work on a new daemon thread. Return False if the system refuses a thread."""
    try:
        threading.Thread(target=work, args=arguments, name=name, daemon=True).start()
    except RuntimeError:
        return False
    return True


def _give_up() -> None:
    """Mark all queued kernels as unavailable, so NumPy is used. The caller holds the lock."""
    for key, _ in _queue:
        _ready[key] = None
        _compiling[key].set()
    _queue.clear()


def _build_queued() -> None:
    """Build the queued kernels, then exit."""
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
        except Exception as error:  # callers keep using NumPy
            if not _is_expected(error):
                _report_failure(key, error)
        finally:
            _ready[key] = function
            _compiling[key].set()


def _is_expected(error: Exception) -> bool:
    """Whether the error only means that no kernel is available for this processor, or now."""
    if isinstance(error, NotImplementedError | ImportError | OSError | MemoryError):
        return True
    from ..codegen.conv.direct_blocking import Unsupported

    return isinstance(error, Unsupported)


def _report_failure(key: Hashable, error: Exception) -> None:
    """Warn about a bug in a kernel's builder, and record it in `failed_builds`."""
    if sys.is_finalizing() or not threading.main_thread().is_alive():
        return
    failed_builds[key] = error
    with suppress(RuntimeWarning):  # warnings that are errors would end the thread
        warn(f"the kernel {key} could not be made, and NumPy does its work: "
             f"{type(error).__name__}: {error}", RuntimeWarning)


class SmallArrayKernels(dict[Any, int]):
    """Kernel addresses by dtype, for arrays so small that the overhead of NumPy's calls dominates.

    The address is 0 before call CALLS_BEFORE_USE and if no kernel is possible. The first call that
    uses the kernel thus depends only on the calls, not on compile time.
    """

    CALLS_BEFORE_COMPILING, CALLS_BEFORE_USE = CALLS_BEFORE_COMPILING, CALLS_BEFORE_USE

    def __init__(self, builder: Callable[[Any], Kernel]) -> None:
        super().__init__()
        self.builder = builder  # takes the dtype
        self.calls: dict[Any, int] = {}

    def __missing__(self, kind: Any) -> int:
        if not KernelPolicy.counts:
            return 0
        count = self.calls[kind] = self.calls.get(kind, 0) + 1
        if count == self.CALLS_BEFORE_COMPILING:  # fills the disk cache by CALLS_BEFORE_USE
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


class CallCounts:
    """Counts calls by kernel while NumPy serves them, so that only frequent kernels are compiled.

    At most `max_keys` kernels are counted. Calls on small arrays heed KernelPolicy.counts.
    """

    def __init__(self, max_keys: int, on_small_arrays: bool = True) -> None:
        self.max_keys, self.on_small_arrays = max_keys, on_small_arrays
        self.counts: dict[Hashable, int] = {}

    def should_request(
        self, key: Hashable, request_at: int | None = None, use_at: int | None = None
    ) -> bool:
        """Count a call; return whether to request the kernel now (`request_kernel`).

        Call number `request_at` starts the compilation, call number `use_at` is the first to use
        the kernel, so which call that is depends only on the calls. By default these come after
        CALLS_BEFORE_COMPILING and CALLS_BEFORE_USE.
        """
        request_at = CALLS_BEFORE_COMPILING + 1 if request_at is None else request_at
        use_at = CALLS_BEFORE_USE + 1 if use_at is None else use_at
        number = self.counts.get(key, 0) + 1
        if number == 1 and len(self.counts) >= self.max_keys:
            return False
        if number <= use_at and (KernelPolicy.counts or not self.on_small_arrays):
            self.counts[key] = number
        return number == request_at or number >= use_at


def _reset_in_child() -> None:
    """Reset in a forked child, which has no compile threads; unfinished kernels can be requested
    again."""
    global _lock, _active_threads
    _lock, _active_threads = threading.Lock(), 0
    _queue.clear()
    for key in _compiling.keys() - _ready.keys():
        del _compiling[key]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_child)
